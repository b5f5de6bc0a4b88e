"""Memory of whole strategies: stages, microbatches in flight, layers of different layouts."""

import pytest
from strategy_models import chain

from wavefabric.training.gpu.device_model import DEVICES
from wavefabric.training.gpu.precision import PRECISIONS
from wavefabric.training.iteration.memory import strategy_needs
from wavefabric.training.iteration.workload import Workload
from wavefabric.training.strategies.strategy import LayerLayout, uniform

#: Parameters 1 M, 2 M, 1 M, 2 M; 20 000 elements saved each; Adam: 2 + 2 + 4 + 8 B a parameter in bf16.
MODEL = chain("column", "row", "none", "none")


def workload(gpus, **options):
    strategy = uniform(MODEL, gpus, **options)
    return Workload(MODEL, strategy, next(iter(DEVICES.values())), PRECISIONS["bf16"])


def strategy_memory(workload):
    """B that one GPU of each pipeline stage holds."""
    return [need.total for need in strategy_needs(workload)]


def test_plain_data_parallelism():
    assert strategy_memory(workload(4, batch=32)) == pytest.approx([6e6 * 16 + 8 * 8e4 * 2])


@pytest.mark.parametrize(("microbatches", "kept"), [(1, (1, 1)), (2, (2, 1)), (4, (2, 1))])
def test_earlier_stages_keep_more_microbatches(microbatches, kept):
    load = workload(4, pipeline=2, batch=32, microbatches=microbatches)
    samples = 32 / 2 / microbatches
    stages = [load.strategy.stage.count(stage) for stage in (0, 1)]
    saved = [need.activations for need in strategy_needs(load)]
    assert saved == pytest.approx([n * 2e4 * 2 * samples * k for n, k in zip(stages, kept, strict=True)])


def test_sharded_layers_of_different_layouts():
    """Parts of one layer are held by two GPUs each, of the others by all four."""
    load = workload(4, batch=4, zero=3, layers={"l1": LayerLayout(2, 2)})
    parameters = [1e6 / 4, 2e6 / 2 / 2, 1e6 / 4, 2e6 / 4]
    whole = sorted([1e6 * 3 / 4, 1e6 / 2, 1e6 * 3 / 4, 2e6 * 3 / 4])[-2:]
    (need,) = strategy_needs(load)
    assert need.parameters == pytest.approx(2 * (sum(parameters) + sum(whole)))
    assert need.gradients == need.parameters
    assert need.states == pytest.approx(12 * sum(parameters))
    assert need.activations == pytest.approx(2 * (3 * 2e4 + 2 * 2e4 / 2))


def test_experts_are_divided_and_sharded_among_those_that_share_them():
    model = chain("none", "none", experts=4)
    for expert, sharded, held in ((1, False, 2e6), (2, False, 1e6), (2, True, 5e5), (4, True, 5e5)):
        strategy = uniform(model, 4, expert=expert, zero=3 * sharded)
        load = Workload(model, strategy, next(iter(DEVICES.values())), PRECISIONS["bf16"])
        (need,) = strategy_needs(load)
        plain = 1e6 / (4 if sharded else 1)
        assert need.states == pytest.approx(12 * (held + plain))


def test_recomputed_blocks_keep_their_input():
    """Each layer is a block: nothing is computed again but the block itself."""
    assert strategy_memory(workload(4, recompute=True)) == pytest.approx(strategy_memory(workload(4)))
