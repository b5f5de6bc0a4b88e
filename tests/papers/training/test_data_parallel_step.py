"""The step on GPUs beside the simulated one: its network, its gradients, its all-reduces, its faults."""

import numpy as np
import pytest

from papers.training import data_parallel_step as module
from wavefabric.fabric import load
from wavefabric.fabric.execution.timing import Ranks
from wavefabric.runtime.exchange import solo
from wavefabric.training.communication.times import Communication
from wavefabric.training.gpu.device_model import DEVICES

CASE = {"blocks": 2, "width": 3, "inner": 5, "rows": 4}


def loss(net, weights):
    """Mean square of the network with these weights, in double precision."""
    hidden = net.inputs.astype(float)
    for i, weight in enumerate(weights):
        hidden = hidden @ weight.T
        if i < len(weights) - 1:
            hidden = np.maximum(hidden, 0)
    return np.mean((hidden - net.targets) ** 2)


def test_gradients_are_those_of_the_loss(cpu):
    net = module.Perceptron(solo(cpu), CASE)
    weights = [weight.astype(float) for weight in net.weights]
    net.step(communicate=False)
    for i, gradient in enumerate(net.gradients):
        assert net.weights[i] == pytest.approx(weights[i] - gradient, rel=1e-6, abs=1e-7)
        expected = np.empty(gradient.shape)
        for position in np.ndindex(gradient.shape):
            sides = []
            for sign in (1, -1):
                moved = [weight.copy() for weight in weights]
                moved[i][position] += sign * 1e-6
                sides.append(loss(net, moved))
            expected[position] = module._RATE * (sides[0] - sides[1]) / 2e-6
        assert gradient == pytest.approx(expected, rel=1e-3, abs=1e-8)
        assert np.abs(expected).max() > 1e-7


@pytest.mark.parallel(2)
def test_ranks_add_their_gradients():
    ranks = Ranks(("mpi",), "cpu", 1)
    net = module.Perceptron(ranks.base, CASE)
    net.inputs *= np.float32(1 + ranks.rank)  # other samples
    net.step(communicate=False)
    own = [gradient.copy() for gradient in net.gradients]
    total = [sum(ranks.control.all_gather(gradient)) for gradient in own]
    assert any(not np.allclose(2 * mine, both) for mine, both in zip(own, total, strict=True))
    for weight, gradient in zip(net.weights, net.gradients, strict=True):
        weight += gradient  # back to where the step began
    net.step()
    for gradient, both in zip(net.gradients, total, strict=True):
        assert gradient == pytest.approx(both, rel=1e-4, abs=1e-9)


def test_the_network_simulated_is_the_one_that_runs():
    model = module.network(**CASE)
    sizes = module.layer_sizes(2, 3, 5)
    assert sizes == [(3, 5), (5, 3), (3, 5), (5, 3)]
    assert model.parameters == 4 * 15
    assert model.flops == pytest.approx(4 * 2 * 15, rel=0.3)  # and ReLU and loss
    assert [layer.operator for layer in model.layers] == ["matmul", "elementwise"] * 4
    assert [layer.backward for layer in model.layers[:3:2]] == [1, 2]  # inputs need no gradient
    calls = Communication(load("switch:2"), "ring")
    big = module.network(8, 2048, 8192, 4096)
    times = module.predicted(big, 2, DEVICES["h200"], calls)
    # Products alone: (3 · 16 - 1) of 137 GFLOP at three quarters of 494.5 TFLOP/s.
    assert times["without communication"] > 47 * 137.4e9 / (0.75 * 494.5e12) * 1e3
    assert times["step"] >= times["without communication"]  # updates hide the last all-reduce
    few = module.predicted(module.network(8, 2048, 8192, 16), 2, DEVICES["h200"], calls)
    # 16 all-reduces of 67 MB at 300 GB/s take longer than all else.
    assert few["step"] > 16 * 67.1e6 / 300e9 * 1e3 > few["without communication"]


def test_faults_in_one_line(script):
    for words, error in (
        (("switch:2", "--ranks", 1), "--ranks: 1 given; allowed: 2 or more"),
        (("switch:2", "--rows", 0), "--rows: 0 given; allowed: 1 or more"),
        (("switch:2", "--ranks", 4), "--ranks: 4 given; allowed: up to 2, those of switch:2"),
        (("nowhere",), 'fabric: "nowhere" given; allowed: '),
        (("switch:2", "--gpu", "a101"), 'device: "a101" given (did you mean a100?); allowed: '),
    ):
        code, _, err = script(module, "--without-torch", "--fabric", *words)
        assert code == 2
        assert err.startswith(f"wavefabric: error: {error}")
        assert err.count("\n") == 1


def test_without_torch_one_line_says_so(script, monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    code, _, err = script(module, "--fabric", "switch:2")
    line = "torch: PyTorch is not installed; allowed: where it is, or --without-torch"
    assert (code, err) == (2, f"wavefabric: error: {line}\n")


def test_a_table_and_a_picture(tmp_path):
    row = {"what": "step", "measured_ms": 2.0, "simulated_ms": 1.9, "ratio": 0.95}
    result = {"ranks": 2, "by": "PyTorch", "case": CASE, "fabric": "ring on x"}
    result["rows"] = [row, row | {"what": "without communication"}]
    assert len(module.table(result)) == 1
    module.plot(result, tmp_path / "step.png")
    assert (tmp_path / "step.png").stat().st_size > 1000
