"""Schedules one after another as one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.collectives import build, from_json, in_sequence, levels, point_to_point, to_json, verify
from wavefabric.collectives.structure import sent_and_received

PARTS = [
    build("ring", "all-reduce", 4, 8),
    build("direct", "all-gather", 4, 8),
    build("tree", "broadcast", 4, 6, root=2),
    point_to_point("some", 4, [(0, 3, 5), (3, 3, 2), (2, 1, 0), (0, 3, 1)]),
    point_to_point("nothing", 4, []),
]


@pytest.mark.slow
@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=5))
def test_a_sequence_does_what_its_parts_do(parts):
    whole = in_sequence("several", parts, 4)
    verify(whole)
    assert whole.rounds == sum(part.rounds for part in parts)
    assert len(whole.pre) == sum(len(part.pre) for part in parts)
    wanted = sum(np.array(sent_and_received(part)) for part in parts)
    np.testing.assert_array_equal(sent_and_received(whole), wanted)
    # No part waits for another.
    np.testing.assert_array_equal(levels(whole), np.concatenate([levels(part) for part in parts]))
    again = from_json(to_json(whole))
    assert again.element_bytes == 4
    assert (again.transfers == whole.transfers).all()


@pytest.mark.parametrize("parts", [[], [PARTS[0], point_to_point("two", 2, [])]])
def test_what_is_no_sequence_is_refused(parts):
    with pytest.raises(InputError, match=r"schedules: of .* ranks; allowed"):
        in_sequence("none", parts)
