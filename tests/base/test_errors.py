"""Error lines: what is wrong, what was given, what is allowed, and what was probably meant."""

import pytest

from wavefabric.base.errors import InputError, did_you_mean, not_one_of
from wavefabric.collectives.conditions import COLLECTIVES
from wavefabric.fabric import load
from wavefabric.training.models import MODELS, load_model


@pytest.mark.parametrize(
    ("word", "names", "name"),
    [
        ("allreduce", COLLECTIVES, "all-reduce"),
        ("AllReduce", COLLECTIVES, "all-reduce"),
        ("gtp-70b", MODELS, "gpt-70b"),
        ("bert_large", MODELS, "bert-large"),
        ("h100x8", ("hgx-h100", "dgx-1"), None),
        ("x", MODELS, None),
        ("", MODELS, None),
        (7, MODELS, None),
    ],
)
def test_the_nearest_name_is_meant(word, names, name):
    assert did_you_mean(word, names) == (f" (did you mean {name}?)" if name else "")


def test_one_line_names_what_was_given_meant_and_allowed():
    assert not_one_of("rign", ("ring", "tree"), "all") == (
        '"rign" given (did you mean ring?); allowed: all, ring, tree'
    )
    assert len(not_one_of("x" * 10**6, ("ring",))) < 200


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: load_model("gtp-70b"), 'model: "gtp-70b" given (did you mean gpt-70b?); allowed: '),
        (lambda: load("hgx-h10"), 'fabric: "hgx-h10" given (did you mean hgx-h100?); allowed: '),
    ],
)
def test_names_of_registries(call, text):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).startswith(text)
