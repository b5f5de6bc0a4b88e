"""What measured fabrics know beyond links: sums on GPUs, and hosts that issue."""

from dataclasses import replace

import numpy as np
import pytest

from wavefabric.collectives import point_to_point, ring_all_gather
from wavefabric.collectives.registry import build
from wavefabric.fabric.cost_models.alpha_beta import issue_time, reduction_times
from wavefabric.fabric.cost_models.cost import cost
from wavefabric.fabric.electrical.fabric import Fabric, Link
from wavefabric.fabric.electrical.static_routes import transfer_bytes
from wavefabric.fabric.io.files import from_toml, to_toml

_NAMES = tuple(f"GPU{r}" for r in range(4))
PLAIN = Fabric(
    "plain", _NAMES, (), tuple(Link(a, b, 1e9) for a in _NAMES for b in _NAMES if a != b), 1e-6, None, None
)
SUMS = replace(PLAIN, name="sums", reduce_bandwidth=4e9, reduce_alpha=2e-6)
HOSTS = replace(PLAIN, name="hosts", round_overhead=100e-6, peer_overhead=10e-6, reduce_overhead=1e-6)
MB = 1_000_000


def test_they_are_kept_in_a_file():
    for fabric in (SUMS, HOSTS):
        assert from_toml(to_toml(fabric)) == fabric
    assert "overhead" not in to_toml(SUMS)
    assert "reduce_" not in to_toml(PLAIN)


@pytest.mark.parametrize("model", ["alpha-beta", "flow"])
def test_what_arrives_is_added_before_it_goes_on(model):
    # Around a ring of four: six rounds of 1 MB, of which three are added at the end: 250 us and 2 us each.
    ring = build("ring", "all-reduce", 4, 4)
    plain = cost(ring, PLAIN, MB, model=model).seconds
    assert plain == pytest.approx(6 * 1001e-6)
    assert cost(ring, SUMS, MB, model=model).seconds == pytest.approx(plain + 3 * 252e-6)
    assert cost(ring_all_gather([1] * 4), SUMS, MB, model=model).seconds == pytest.approx(3 * 1001e-6)


@pytest.mark.parametrize("model", ["alpha-beta", "flow"])
def test_sums_in_rounds_of_their_own(model):
    # Three sums of 1 MB each are added one after the other.
    direct = build("direct", "reduce-scatter", 4, 4)
    result = cost(direct, SUMS, MB, model=model)
    assert result.seconds == pytest.approx(1001e-6 + 3 * 252e-6)
    if model == "alpha-beta":
        assert [r.limit for r in result.rounds[1:]] == ["GPU0 adds"] * 3
        assert sum(r.seconds for r in result.rounds) == pytest.approx(result.seconds)
        assert [r.bytes for r in result.rounds] == [12e6, 0, 0, 0]
        np.testing.assert_allclose(result.times[-1], [1001e-6 + 2 * 252e-6, result.seconds])
        assert len(cost(direct, PLAIN, MB).rounds) == 1


def test_the_gpu_that_adds_most_counts():
    reduce = build("direct", "reduce", 4, 3, root=2)
    rounds, latency, seconds, gpu = reduction_times(reduce, SUMS, transfer_bytes(reduce, MB))
    assert gpu.tolist() == [2] * len(rounds)
    assert latency.sum() + seconds.sum() == pytest.approx(3 * (2e-6 + 750e-6))
    assert reduction_times(reduce, PLAIN, transfer_bytes(reduce, MB))[0].size == 0


@pytest.mark.parametrize("model", ["alpha-beta", "flow"])
def test_no_schedule_is_done_before_it_is_issued(model):
    ring = build("ring", "all-reduce", 4, 4)
    result = cost(ring, HOSTS, 4, model=model)
    assert result.seconds == pytest.approx(6 * 100e-6 + 3 * 1e-6)
    assert result.busiest == "host of GPU0"
    # Hosts run ahead of GPUs that are long busy.
    assert cost(ring, HOSTS, MB, model=model).seconds == cost(ring, PLAIN, MB, model=model).seconds


def test_a_host_issues_for_each_peer_and_sum():
    radix4 = build("recursive", "all-reduce", 4, 4, radix=4)
    assert issue_time(radix4, HOSTS)[0] == pytest.approx(2 * (100e-6 + 2 * 10e-6) + 3 * 1e-6)
    # Rank 0 alone sends; one that only receives takes part too.
    broadcast = build("direct", "broadcast", 4, 4)
    assert issue_time(broadcast, HOSTS) == (pytest.approx(100e-6 + 2 * 10e-6), 0)
    chain = build("ring", "broadcast", 4, 4)
    assert issue_time(chain, HOSTS) == (pytest.approx(200e-6), 1)
    assert issue_time(chain, PLAIN) == (0.0, 0)


def test_who_receives_adds():
    """Along the chain 3 → 2 → 1 → 0 each sum is made by the GPU that it arrives at."""
    chain = build("ring", "reduce", 4, 1)
    size = transfer_bytes(chain, MB)
    t = chain.transfers
    assert (t["src"] != t["dst"]).all()
    rounds, latency, seconds, gpu = reduction_times(chain, SUMS, size)
    assert gpu.tolist() == [int(t["dst"][t["round"] == r][0]) for r in rounds]
    np.testing.assert_allclose(latency, 2e-6)
    np.testing.assert_allclose(seconds, size / 4e9)
    # Two arrive at rank 0 in one round, of unlike size: both are added there, one latency each.
    pair = point_to_point("pair", 3, [(1, 0, 3), (2, 0, 1)])
    rows = pair.transfers.copy()
    rows["reduce"] = True
    rounds, latency, seconds, gpu = reduction_times(replace(pair, transfers=rows), SUMS, np.array([3e6, 1e6]))
    assert (rounds.tolist(), gpu.tolist()) == ([0], [0])
    assert (latency[0], seconds[0]) == pytest.approx((4e-6, 1e-3))
