"""The dynamic program for chains against all layouts, each simulated."""

from contextlib import suppress
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategy_models import AffineTimes, chain, tables

from wavefabric.base.errors import InputError
from wavefabric.training.gpu.device_model import DEVICES
from wavefabric.training.gpu.precision import PRECISIONS
from wavefabric.training.iteration.engine import POLICIES, FreeCommunication, run
from wavefabric.training.iteration.memory import largest_need
from wavefabric.training.iteration.tasks import build_tasks
from wavefabric.training.iteration.workload import Workload
from wavefabric.training.models.graph import Layer, ModelGraph
from wavefabric.training.search.chain import (
    SearchSetting,
    SerialOptions,
    best_chain,
    chain_costs,
    chain_strategy,
    chain_units,
    cost_of,
    is_chain_of_layers,
    serial_seconds,
)
from wavefabric.training.strategies.strategy import check_strategy, layouts_of, uniform

DEVICE, BF16 = next(iter(DEVICES.values())), PRECISIONS["bf16"]
FABRIC = AffineTimes(2e-5, 4e-11)


def setting(model, gpus, batch=16, fabric=FABRIC):
    return SearchSetting(model, gpus, batch, DEVICE, BF16, fabric)


def serialised(graph):
    """The tasks of one pipeline stage, each waiting also for the one before it."""
    assert graph.workers == 1
    waits = [[*waits, task - 1] if task else waits for task, waits in enumerate(graph.waits)]
    return replace(graph, waits=[list(dict.fromkeys(each)) for each in waits])


def simulated(inputs, strategy):
    """Serial time by the event engine, and B of the fullest GPU."""
    workload = Workload(inputs.model, strategy, DEVICE, BF16)
    timeline = run(serialised(build_tasks(workload)), inputs.fabric)
    return timeline.seconds, largest_need(workload).total


def all_strategies(inputs, options, units):
    """Every choice of layouts that is allowed."""
    model = inputs.model
    choices = [layouts_of([model.layers[n] for n in unit], inputs.gpus) for unit in units]
    for chosen in product(*choices):
        strategy = chain_strategy(inputs, options, units, chosen)
        try:
            check_strategy(model, strategy)
        except InputError:
            continue
        yield strategy


def block_model():
    """Two blocks with a residual around each, between an input and an output layer."""
    layers = [Layer("in", "matmul", (), (32,), 1e9, 10**6, 1e4, 1e4, block="in")]
    for k in range(2):
        last = layers[-1].name
        layers += [
            Layer(f"up {k}", "matmul", (last,), (64,), 4e9, 4 * 10**6, 1e4, 1e4, "column", block=f"b{k}"),
            Layer(f"down {k}", "matmul", (f"up {k}",), (32,), 4e9, 4 * 10**6, 1e4, 1e4, "row", block=f"b{k}"),
            Layer(f"add {k}", "elementwise", (last, f"down {k}"), (32,), elements=1e4, block=f"b{k}"),
        ]
    layers.append(Layer("out", "matmul", (layers[-1].name,), (8,), 1e8, 10**5, 1e4, 1e4, block="out"))
    return ModelGraph("blocks", tuple(layers), batch=4)


SPLIT = ["none", "column", "row", "local"]
SPLITS = st.lists(st.sampled_from(SPLIT), min_size=1, max_size=4)
OPTIONS = st.builds(SerialOptions, st.sampled_from([1, 2]), st.booleans(), st.booleans())


@pytest.mark.slow
@given(SPLITS, st.sampled_from([2, 4, 6]), OPTIONS, st.sampled_from([1e-6, 1e-4]), st.sampled_from([0, 2]))
@settings(max_examples=25)
def test_without_a_limit_it_is_the_best_of_all(splits, gpus, options, latency, experts):
    model = chain(*splits[:3], features=8, flops=3e10, experts=experts)
    inputs = setting(model, gpus, 12, AffineTimes(latency, 1e-11))
    units = chain_units(model, True)
    times = [simulated(inputs, strategy)[0] for strategy in all_strategies(inputs, options, units)]
    result = best_chain(inputs, options)
    assert result.seconds == pytest.approx(min(times), rel=1e-9)
    assert simulated(inputs, result.strategy) == pytest.approx((result.seconds, result.memory), rel=1e-9)


def check_best_within(inputs, options, units, fraction):
    """The best of those that fit, by trying all; the limit is ``fraction`` of the way from the least memory
    to the most. What was found, and the least memory."""
    pairs = [simulated(inputs, strategy) for strategy in all_strategies(inputs, options, units)]
    least, most = min(held for _, held in pairs), max(held for _, held in pairs)
    limit = least + fraction * (most - least)
    result = best_chain(inputs, options, limit)
    assert result.seconds == pytest.approx(
        min(t for t, held in pairs if held <= limit * (1 + 1e-12)), rel=1e-9
    )
    assert result.memory <= limit * (1 + 1e-9)
    return result, least


@pytest.mark.slow
@given(SPLITS, OPTIONS, st.floats(0, 1), st.integers(0, 3))
@settings(max_examples=25)
def test_with_a_limit_it_is_the_best_of_those_that_fit(splits, options, fraction, heavy):
    """Limits from below the least memory to above that of the fastest."""
    model = chain(*splits, features=8, flops=10.0 ** (8 + heavy))
    inputs = setting(model, 4)
    units = chain_units(model, True)
    result, least = check_best_within(inputs, options, units, fraction)
    assert simulated(inputs, result.strategy) == pytest.approx((result.seconds, result.memory), rel=1e-9)
    with pytest.raises(InputError, match=r"^memory: .* given; allowed: more \(no layout fits"):
        best_chain(inputs, options, least * 0.999)


@pytest.mark.parametrize(
    "options",
    [
        SerialOptions(),
        pytest.param(SerialOptions(2, True), marks=pytest.mark.slow),
        pytest.param(SerialOptions(1, False, True), marks=pytest.mark.slow),
        SerialOptions(1, True, True),
    ],
)
@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.4, 1.0])
def test_blocks_are_units(options, fraction):
    model = block_model()
    inputs = setting(model, 4)
    units = chain_units(model)
    assert [len(unit) for unit in units] == [1, 3, 3, 1]
    check_best_within(inputs, options, units, fraction)


@st.composite
def any_model(draw):
    """Layers that take any earlier outputs, in blocks of any sizes, some with experts."""
    layers = []
    for number in range(draw(st.integers(2, 7))):
        earlier = [layer.name for layer in layers]
        inputs = draw(st.lists(st.sampled_from(earlier), max_size=2, unique=True)) if earlier else []
        layers.append(
            Layer(
                f"l{number}", draw(st.sampled_from(["matmul", "elementwise"])), tuple(inputs), (16,),
                flops=draw(st.sampled_from([1e8, 1e10])), parameters=draw(st.sampled_from([0, 10**5, 10**6])),
                elements=1e4, saved=draw(st.sampled_from([0.0, 1e4])), split=draw(st.sampled_from(SPLIT)),
                experts=draw(st.sampled_from([0, 0, 4])), used=draw(st.sampled_from([0.25, 1.0])),
                block=f"b{number // draw(st.sampled_from([1, 2, 3]))}",
            )
        )  # fmt: skip
    return ModelGraph("any", tuple(layers), batch=4)


@pytest.mark.slow
@given(any_model(), OPTIONS, st.booleans(), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_time_and_memory_are_sums_over_units_and_pairs_of_any_model(model, options, by_layer, random):
    inputs = setting(model, 4, 16)
    units = chain_units(model, by_layer and not options.recompute)
    costs = chain_costs(inputs, options, units)
    path = tuple(random.randrange(len(layouts)) for layouts in costs.layouts)
    chosen = [layouts[i] for layouts, i in zip(costs.layouts, path, strict=True)]
    seconds, held = simulated(inputs, chain_strategy(inputs, options, units, chosen))
    assert cost_of(costs, path) == pytest.approx((seconds, held), rel=1e-9)


def test_tables_are_split_when_that_is_faster():
    """Gradients of tables are dear, activations cheap: the hybrid that `tables` names."""
    model = tables(16)
    result = best_chain(setting(model, 4, 64, AffineTimes(1e-7, 1e-9)))
    *both, top = [layout.tensor for layout in result.strategy.layouts]
    assert both == [4, 4]
    assert top < 4


def test_units_of_a_chain_and_of_what_is_none():
    names = [
        Layer(n, "matmul", inputs) for n, inputs in (("a", ()), ("b", ("a",)), ("c", ("b",)), ("d", ("b",)))
    ]
    fork = ModelGraph("fork", tuple(names))
    assert chain_units(fork, True) == ((0,), (1,), (2, 3))
    assert not is_chain_of_layers(fork)
    assert is_chain_of_layers(chain("none", "none"))
    assert chain_units(ModelGraph("one", (Layer("a", "matmul"),))) == ((0,),)
    skip = ModelGraph("skip", (*names[:3], Layer("d", "matmul", ("a", "c"))))
    assert chain_units(skip, True) == ((0,), (1, 2, 3))


def test_more_gpus_take_no_longer_when_communication_is_free():
    model = chain("column", "row", "none", features=8, flops=1e10)
    times = [best_chain(setting(model, n, 16, FreeCommunication())).seconds for n in (1, 2, 4, 8)]
    assert times == sorted(times, reverse=True)
    assert times[-1] < times[0] / 2


def test_more_memory_takes_no_longer():
    """From half of what the fastest needs on, in steps; those too small are refused."""
    inputs = setting(chain("column", "row", "column", "none", features=4096), 4, 1024)
    most, times = best_chain(inputs).memory, []
    for fraction in range(10, 21):
        with suppress(InputError):
            times.append(best_chain(inputs, memory=most * fraction / 20).seconds)
    assert times == sorted(times, reverse=True)
    assert len(set(times)) > 1


def test_a_batch_that_no_layout_fits():
    with pytest.raises(InputError, match=r"^batch: 16 samples in 3 microbatches"):
        best_chain(setting(chain("none"), 4), SerialOptions(3))


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
def test_overlap_is_no_slower_than_serial_execution(policy, sharded):
    model = block_model()
    for tensor in (1, 2, 4):
        workload = Workload(model, uniform(model, 4, tensor=tensor, zero=3 * sharded), DEVICE, BF16)
        overlapped = run(build_tasks(workload), FABRIC, policy).seconds
        assert overlapped <= serial_seconds(workload, FABRIC) * (1 + 1e-12)
