"""Context parallelism: closed forms of bytes, memory and times, gathered and on a ring."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from strategy_models import AffineTimes

from wavefabric.base.errors import InputError
from wavefabric.training.gpu.device_model import DEVICES
from wavefabric.training.gpu.precision import PRECISIONS
from wavefabric.training.iteration.engine import FreeCommunication
from wavefabric.training.iteration.memory import strategy_needs
from wavefabric.training.iteration.simulate import simulate
from wavefabric.training.iteration.tasks import build_tasks
from wavefabric.training.iteration.workload import Workload
from wavefabric.training.models import load_model
from wavefabric.training.models.layers import GraphBuilder
from wavefabric.training.models.transformers import experts, llama
from wavefabric.training.search.chain import SearchSetting
from wavefabric.training.search.markov import StrategyMoves
from wavefabric.training.search.search import expert_designed
from wavefabric.training.strategies.strategy import LayerLayout, check_strategy, uniform
from wavefabric.training.strategies.strategy_text import from_json, parse_strategy, to_json

TOKENS, WIDTH, HEADS, GROUPS, BLOCKS = 4096, 512, 8, 2, 3
KEYS = WIDTH // HEADS * GROUPS


def decoder(tokens=TOKENS, mixture=False):
    """A small Llama, with a mixture of experts or one network a block."""

    def network(graph: GraphBuilder, source: str) -> str:
        if mixture:
            return experts(graph, source, 1024, count=4, each=2)
        return graph.linear("down", graph.linear("up", source, 1024, split="column"), WIDTH, split="row")

    return llama("small", tokens, BLOCKS, WIDTH, (HEADS, GROUPS), network)


def trained(words, gpus, batch=None, model=None):
    """A workload of words of a strategy, in bf16 on H100s."""
    model = model or decoder()
    strategy = parse_strategy(words, model, gpus, batch=batch)
    return Workload(model, strategy, DEVICES["h100"], PRECISIONS["bf16"])


def sent(load, purpose="context"):
    """B that a GPU sends in calls of a purpose, by collective."""
    result = Counter()
    for call in filter(None, build_tasks(load).call):
        if call.purpose == purpose:
            group = len(call.groups[0])
            fraction = 1 if call.collective == "messages" else (group - 1) / group
            result[call.collective] += call.bytes * fraction
    return result


@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("tensor", [1, 2])
def test_bytes_of_gathered_keys_and_values(count, tensor):
    """2 (K - 1)/K b s h_kv B forward; backward once more, and as much for gradients."""
    batch = 2
    load = trained(f"context:{count},tensor:{tensor},data:1", count * tensor, batch)
    form = BLOCKS * 2 * (count - 1) / count * batch * TOKENS * KEYS / tensor * 2
    assert sent(load) == pytest.approx({"all-gather": 2 * form, "reduce-scatter": form})
    again = trained(f"context:{count},tensor:{tensor},data:1,recompute", count * tensor, batch)
    assert sent(again) == pytest.approx({"all-gather": 3 * form, "reduce-scatter": form})


@pytest.mark.parametrize("count", [2, 4, 8])
def test_bytes_of_a_ring(count):
    """K - 1 passes of keys and values forward; backward as many, and K of their gradients."""
    load = trained(f"context:{count},ring", count, 1)
    part = BLOCKS * 2 * TOKENS / count * KEYS * 2
    assert sent(load) == pytest.approx({"messages": (2 * (count - 1) + count) * part})
    for call in filter(None, build_tasks(load).call):
        if call.purpose == "context":
            assert sorted(a for a, *_ in call.messages) == sorted(b for _, b, _ in call.messages)
            assert all(b == (a + 1) % count for a, b, _ in call.messages)


def test_groups_lie_between_tensor_and_data_parallelism():
    layout = LayerLayout(4, 2)
    assert layout.groups(8, 2) == ((8, 10), (9, 11), (12, 14), (13, 15))
    assert layout.groups(0, 4) == layout.groups(0, "data") == ((0, 2, 4, 6), (1, 3, 5, 7))


def test_computation_and_activations_are_divided_and_parameters_are_not():
    one = trained("data", 1, 1)
    quarter = trained("context:4", 4, 1)
    (alone,), (divided,) = (simulate(x, FreeCommunication()).gpu_seconds for x in (one, quarter))
    assert alone / 4 < divided < alone / 4 + 6 * len(one.model.layers) * 5e-6  # launches and small products
    need, less = strategy_needs(one)[0], strategy_needs(quarter)[0]
    others = 3 / 4 * 2 * TOKENS * KEYS * 2  # gathered, of one block at a time
    assert less.activations == pytest.approx(need.activations / 4 + others)
    assert (less.parameters, less.gradients, less.states) == (need.parameters, need.gradients, need.states)
    ring = strategy_needs(trained("context:4,ring", 4, 1))[0]
    assert ring.activations == pytest.approx(need.activations / 4 + 2 / 4 * 2 * TOKENS * KEYS * 2)


def test_gradients_are_reduced_over_data_and_context():
    both, data = (trained(words, 8, 8) for words in ("data:2,context:4,zero:1", "data:8,zero:1"))
    assert sent(both, "gradients") == sent(data, "gradients")
    assert sent(both, "parameters") == sent(data, "parameters")
    assert strategy_needs(both)[0].states == strategy_needs(data)[0].states
    fully = strategy_needs(trained("context:4,sharded", 8, 8))[0]
    assert fully.parameters == strategy_needs(trained("sharded", 8, 8))[0].parameters


class OnlyContext:
    """Calls for keys and values take a time for each part of them; all others take none."""

    concurrent = True

    def __init__(self, seconds):
        self.part = seconds

    def seconds(self, calls):
        """The slowest call."""
        return max(
            self.part * (1 if call.collective == "messages" else len(call.groups[0]) - 1)
            if call.purpose == "context"
            else 0.0
            for call in calls
        )


@pytest.mark.parametrize("count", [2, 4])
def test_attention_hides_a_ring_and_waits_for_a_gather(count):
    """Of a ring only the last gradients are exposed; gathered, (K - 1) parts forward and twice backward."""
    model = decoder(32768)
    gathered, ring = (
        trained(words, count, 1, model) for words in (f"context:{count}", f"context:{count},ring")
    )
    graph = build_tasks(ring, merge=False)
    turns = [seconds for seconds, name in zip(graph.seconds, graph.name, strict=True)
             if seconds and name.endswith("attention")]  # fmt: skip
    assert len(turns) == BLOCKS * count * 2
    part = min(turns) / 3  # a turn of the backward pass hides two calls
    assert simulate(ring, OnlyContext(part)).exposed_seconds == pytest.approx(BLOCKS * part)
    times = simulate(gathered, OnlyContext(part))
    assert times.exposed_seconds == pytest.approx(BLOCKS * 3 * (count - 1) * part)


@pytest.mark.parametrize(
    "words",
    [
        "context:2,tensor:2,sequence,pipeline:2,microbatches:4",
        "context:2,ring,tensor:2,sequence,overlap,pipeline:2,microbatches:4",
        "context:4,sharded,recompute",
        "context:2,pipeline:2,interleave:1,zero:2,microbatches:2",
        "context:4,expert:4,zero:1",
        "context:2,ring,expert:2,tensor:2",
    ],
)
def test_with_all_other_strategies(words):
    model = decoder(mixture="expert" in words)
    load = trained(words, 8, 8, model)
    made = simulate(load, AffineTimes())
    assert made.seconds >= made.free_seconds > 0
    assert made.seconds >= max(made.compute_seconds)
    assert from_json(to_json(model, load.strategy), model) == load.strategy


def test_what_is_refused():
    model = decoder()
    lines = {
        ("context:2", load_model("dlrm")): "allowed: 1, attention of dlrm is not there",
        ("context:2", load_model("bert-base")): "of bert-base has no positions",
        ("context:4", decoder(4100)): "allowed: degrees whose double divides 4100, the positions of layer",
        ("context:3", model): "and context 3 given; allowed: degrees whose product divides 8",
        ("context:2,data:8", model): "data: 8 given; allowed: 4, 8 GPUs / tensor 1 / pipeline 1 / context 2",
        ("ring", model): "strategy: ring given without context; allowed: with context:N",
    }
    for (words, network), line in lines.items():
        with pytest.raises(InputError) as caught:
            parse_strategy(words, network, 8)
        assert line in str(caught.value)
        assert "\n" not in str(caught.value)
    unknown = replace(model, layers=tuple(replace(layer, keys_values=0.0) for layer in model.layers))
    with pytest.raises(InputError, match="does not say what keys and values it reads"):
        uniform(unknown, 8, context=2)
    with pytest.raises(InputError, match="allowed: multiples of 2, the degree of context"):
        uniform(model, 8, context=2, layers={"head logits": LayerLayout(1, 8)})


def test_searches_try_it_for_long_sequences():
    long, short = load_model("gpt-7b:32768"), load_model("gpt-7b:4096")
    for model, degrees in ((long, {1, 2, 4, 8}), (short, {1})):
        setting = SearchSetting(model, 8, 8, DEVICES["h100"], PRECISIONS["bf16"], FreeCommunication())
        assert {strategy.context for strategy in expert_designed(setting)} == degrees


def test_proposals_change_the_degree_and_fit_the_model():
    model, random = decoder(), Random(1)
    moves, strategy = StrategyMoves(model, 8), uniform(model, 8, context=4, batch=8)
    seen = set()
    for _ in range(400):
        proposed = moves.propose(strategy, random)
        if proposed is not None:
            check_strategy(model, proposed)
            strategy = proposed
            seen.add((strategy.context, strategy.stages))
    assert {context for context, _ in seen} >= {1, 2, 4}
    assert {stages for context, stages in seen if context > 1} > {1}
