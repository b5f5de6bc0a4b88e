"""Interleaved pipelines, sequence parallelism, ZeRO, recomputation: closed forms of their papers."""

from collections import Counter
from dataclasses import replace

import pytest
from random_models import chain, workload

from papers.training.published_models import gpt
from wavefabric.base.errors import InputError
from wavefabric.fabric import load
from wavefabric.training.gpu.device_model import DEVICES
from wavefabric.training.gpu.precision import PRECISIONS
from wavefabric.training.iteration.engine import FreeCommunication
from wavefabric.training.iteration.faults import parse_slow_links, parse_stragglers, with_slow_links
from wavefabric.training.iteration.memory import strategy_needs
from wavefabric.training.iteration.simulate import simulate
from wavefabric.training.iteration.tasks import build_tasks
from wavefabric.training.iteration.workload import Workload
from wavefabric.training.strategies.strategy import uniform
from wavefabric.training.strategies.strategy_text import from_json, to_json

TOKENS, WIDTH, HEADS = 64, 128, 4


@pytest.mark.parametrize(
    ("stages", "interleave", "parts"), [(2, 1, 4), (2, 2, 4), (4, 2, 8), (4, 4, 4), (2, 4, 6)]
)
def test_the_bubble_of_an_interleaved_pipeline(stages, interleave, parts):
    """(p - 1)/(v m) of the ideal time: arXiv:2104.04473, section 2.2.2."""
    model = chain([1.0] * stages * interleave)
    strategy = uniform(model, stages, pipeline=stages, interleave=interleave, batch=parts, microbatches=parts)
    ideal = parts * interleave * 3.0
    made = simulate(workload(model, strategy), FreeCommunication()).seconds
    assert made == pytest.approx(ideal * (1 + (stages - 1) / (interleave * parts)))
    assert from_json(to_json(model, strategy), model) == strategy


def of_blocks(blocks, tensor, **how):
    model = gpt("gpt", (blocks, WIDTH, HEADS), TOKENS, 512, False)
    strategy = uniform(model, tensor, tensor=tensor, batch=1, **how)
    return Workload(model, strategy, DEVICES["a100"], PRECISIONS["bf16"])


def test_activations_of_a_block():
    """arXiv:2205.05198, table 2: bytes of a block, s b h (linear + shared/t + squares a s/(h t))."""
    forms = {"": (10, 24, 5), "sequence": (0, 34, 5), "selective": (10, 24, 0), "recompute": (2, 0, 0)}
    for words, (linear, shared, squares) in (forms | {"sequence,selective": (0, 34, 0)}).items():
        how = dict.fromkeys(filter(None, words.split(",")), True)
        more, fewer = (strategy_needs(of_blocks(blocks, 4, **how))[0].activations for blocks in (5, 3))
        form = linear + shared / 4 + squares * HEADS * TOKENS / (WIDTH * 4)
        assert (more - fewer) / 2 == pytest.approx(TOKENS * WIDTH * form)


def test_sequence_parallelism_moves_what_tensor_parallelism_does():
    """The same, section 4.2.2: 4 all-reduces a block become 4 all-gathers and 4 reduce-scatters, and two
    all-gathers more restore inputs of which a part was kept."""

    def calls(blocks, **how):
        return Counter(c.collective for c in build_tasks(of_blocks(blocks, 4, **how)).call if c is not None)

    assert calls(3) - calls(2) == Counter({"all-reduce": 4})
    both = {"sequence": True}
    assert calls(3, **both) - calls(2, **both) == Counter({"all-gather": 6, "reduce-scatter": 4})
    whole, parts = (build_tasks(of_blocks(2, 4, sequence=True, overlap=on)).call for on in (False, True))
    assert sum(c.bytes for c in parts if c) == sum(c.bytes for c in whole if c)
    assert min(c.bytes for c in parts if c) == min(c.bytes for c in whole if c) / 4


@pytest.mark.parametrize(("zero", "whole"), [(1, 4), (2, 2), (3, 0)])
def test_memory_and_volume_of_zero(zero, whole):
    """arXiv:1910.02054, figure 1: 16 B a parameter, divided but for 4, 2 or 0 of them; and section 7."""
    gpus, count = 8, 10_000
    model = chain([1.0] * 10, count)
    load_ = workload(model, uniform(model, gpus, zero=zero))
    need = strategy_needs(load_)[0]
    in_use = 2 * 2 * count * (1 - 1 / gpus) * ((zero >= 2) + (zero == 3))  # two layers at a time
    assert need.total - need.activations - in_use == pytest.approx(10 * count * (whole + (16 - whole) / gpus))
    moved = Counter()
    for call in filter(None, build_tasks(load_).call):
        moved[call.collective] += call.bytes
    gathers = 2 if zero == 3 else 1
    assert moved == {"reduce-scatter": 2 * 10 * count, "all-gather": gathers * 2 * 10 * count}


def test_stragglers_and_slow_links():
    model = chain([1.0] * 4, 1000)
    plain = workload(model, uniform(model, 4, pipeline=2, batch=4, microbatches=2))
    healthy, free = simulate(plain, FreeCommunication()), FreeCommunication()
    one, every = (replace(plain, stragglers=tuple((n, 2.0) for n in gpus)) for gpus in ((3,), range(4)))
    assert simulate(one, free).compute_seconds == pytest.approx(healthy.compute_seconds * [1, 2])
    assert simulate(every, free).seconds == pytest.approx(2 * healthy.seconds)
    assert (parse_stragglers("5:1.5, 9:2"), parse_slow_links("a-b-1:4")) == ({5: 1.5, 9: 2.0}, {"a-b-1": 4.0})
    fabric = load("switch:4")
    slower = with_slow_links(fabric, {"GPU0-switch": 4.0})
    pairs = zip(fabric.links, slower.links, strict=True)
    assert Counter(a.bandwidth / b.bandwidth for a, b in pairs) == {4.0: 2, 1.0: 6}
    for words in ("5", "5:0.5", "x:2", "1:2,1:3", ":2"):
        with pytest.raises(InputError, match=r"--straggler: "):
            parse_stragglers(words)
    for wrong, link in ((fabric, "GPU0-GPU1"), (load("lightpath:2x2"), "GPU0-switch")):
        with pytest.raises(InputError, match=r"--slow-link: "):
            with_slow_links(wrong, {link: 2.0})
