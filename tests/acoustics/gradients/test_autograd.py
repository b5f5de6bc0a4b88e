"""Simulations within PyTorch and JAX: to the bit as `simulate_and_gradient`, and against differences."""

import sys

import numpy as np
import pytest
from gradient_cases import cases, leaves
from test_gradient import RUN
from test_linearize import CASE, arguments, same

from wavefabric.acoustics import Grid, Medium, Sensor, Source, simulate_and_gradient
from wavefabric.acoustics.gradients import autograd
from wavefabric.acoustics.gradients.autograd import simulate_jax, simulate_torch
from wavefabric.base.errors import InputError, MissingExtra

pytestmark = pytest.mark.filterwarnings(r"ignore:(source|sensor|medium)\.")
CASES = {n: c for n, c in cases().items() if not (c.grid.axisymmetric or c.form or c.elements)}
N = 10
ZERO, TENTH = np.zeros(N), np.full(N, 0.1)


@pytest.fixture
def jax():
    jax = pytest.importorskip("jax")
    pytest.importorskip("jax.test_util")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield jax
    jax.config.update("jax_enable_x64", before)


@pytest.fixture
def runs(monkeypatch):
    made, make = [], autograd.linearize
    monkeypatch.setattr(autograd, "linearize", lambda *a, **o: made.append(make(*a, **o)) or made[-1])
    return made


def half_squares(recorded):
    return sum((value**2).sum() for _, value in leaves(recorded)) / 2


def expected(case):
    gradient = simulate_and_gradient(*arguments(case), lambda r: (0.0, r), tuple(case.values), **RUN)
    return gradient.results, {name: np.asarray(value) for name, value in gradient.items()}


def small(simulated, **options):
    """A function of changes of sound speed and p₀ on a few points, all of order 1."""
    grid, sensor = Grid((N,), 1e-4, pml_size=2), Sensor(np.arange(N) == 6, "p")
    medium, source = Medium(np.full(N, 1500.0), density=1000.0), Source(p0=np.full(N, 1e5), smooth=False)

    options = RUN | dict(steps=8) | options

    def function(c, p):
        parameters = {"sound_speed": 1500 * (1 + 0.1 * c), "p0": 1e5 * (1 + p)}
        return simulated(grid, medium, source, sensor, parameters, **options)["p"] / 1e5

    return function


@pytest.mark.parametrize("name", CASES)
def test_torch(name, runs):
    torch = pytest.importorskip("torch")
    results, gradient = expected(case := CASES[name])
    tensors = {key: torch.tensor(np.asarray(value), requires_grad=True) for key, value in case.values.items()}
    recorded = simulate_torch(*arguments(case), tensors, **RUN)
    detached = autograd._each(lambda tensor: tensor.detach().numpy(), recorded)
    assert same(detached, results)
    assert np.shares_memory(next(leaves(detached))[1], next(leaves(dict(runs[0].results)))[1])
    half_squares(recorded).backward()
    assert same({key: tensor.grad for key, tensor in tensors.items()}, gradient)


def test_torch_differences_types_and_what_is_differentiated(runs):
    torch = pytest.importorskip("torch")
    inputs = [torch.from_numpy(0.1 * np.sin(np.arange(N) + i)).requires_grad_() for i in range(2)]
    assert torch.autograd.gradcheck(small(simulate_torch), inputs, eps=1e-5, atol=1e-8, fast_mode=True)
    c, p = torch.zeros(N, requires_grad=True), torch.zeros(N)
    recorded = small(simulate_torch, precision="single")(c, p)
    recorded.sum().backward()
    assert recorded.dtype == c.grad.dtype == torch.float32
    assert runs[-1]._names == ("sound_speed",)
    runs.clear()
    with torch.no_grad():
        assert not small(simulate_torch)(c, p).requires_grad
    assert not runs


def test_torch_misuse():
    torch = pytest.importorskip("torch")
    p0 = torch.tensor(CASE.values["p0"], requires_grad=True)
    loss = simulate_torch(*arguments(), {"p0": p0}, **RUN)["p"].sum()
    with torch.no_grad():
        p0 += 1
    with pytest.raises(RuntimeError, match="inplace"):
        loss.backward()
    with pytest.raises(InputError, match=r"parameters.p0.shape: .*allowed: \(18, 15\)"):
        simulate_torch(*arguments(), {"p0": torch.zeros(3)}, **RUN)
    with pytest.raises(InputError, match=r"parameters: \"ux\", but source.ux is not set"):
        simulate_torch(*arguments(), {"ux": torch.zeros(3)}, **RUN)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith(("Dirichlet", "transducer"))])
def test_jax(name, jax, runs):
    results, gradient = expected(case := CASES[name])

    @jax.jit
    def objective(values):
        recorded = simulate_jax(*arguments(case), values, **RUN)
        return half_squares(recorded), recorded

    (_, recorded), by_values = jax.value_and_grad(objective, has_aux=True)(case.values)
    assert same(recorded, results)
    assert same(by_values, gradient)
    assert len(runs) == 1


def test_jax_differences_misuse_and_runs_taken_again(jax, runs):
    """Of two simulations one is kept; and of those that are mapped over."""
    function = jax.jit(small(simulate_jax))
    inputs = tuple(0.1 * np.sin(np.arange(N) + i) for i in range(2))
    jax.test_util.check_grads(function, inputs, 1, ["rev"], atol=1e-7, rtol=1e-7, eps=1e-5)
    runs.clear()
    both = jax.grad(lambda c: function(c, ZERO).sum() + function(c + TENTH, ZERO).sum())(ZERO)
    assert len(runs) == 3
    gradient = jax.grad(lambda c: function(c, ZERO).sum())
    each = [gradient(ZERO), gradient(TENTH)]
    np.testing.assert_allclose(both, sum(each), rtol=1e-10)
    np.testing.assert_allclose(jax.vmap(gradient)(np.stack([ZERO, TENTH])), each, rtol=1e-10)
    with pytest.raises((RuntimeError, ValueError), match=r"InputError: medium.sound_speed: .*above"):
        function(-100 * TENTH - 10, ZERO)
    jax.config.update("jax_enable_x64", False)
    assert function(ZERO, ZERO).dtype == np.float32


@pytest.mark.parametrize(("name", "function"), [("torch", simulate_torch), ("jax", simulate_jax)])
def test_without(name, function, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=rf"simulate_{name} needs .*wavefabric\[{name}\]"):
        function(*arguments(), {"p0": CASE.values["p0"]}, **RUN)


# --- What is refused -----------------------------------------------------------------------------------

P0 = np.full(N, 1e5)
REFUSED = [
    (None, "parameters: None given; allowed: a Mapping"),
    ("p0", "parameters: 'p0' given; allowed: a Mapping"),
    (["p0"], "parameters: .*; allowed: a Mapping"),
    (P0, "parameters: .*; allowed: a Mapping"),
    ({}, "parameters: .*; allowed: one or more of p0"),
    ({"p0": None}, r"parameters\.p0: is of type object"),
    ({"p0": "loud"}, r"parameters\.p0: is of type"),
    ({"p0": [[1.0], [2.0, 3.0]]}, r"parameters\.p0: lists of different lengths"),
    ({"p0": P0 + 1j}, r"parameters\.p0: .*complex128.*; allowed: real numbers"),
    ({"p0": P0.astype(object)}, r"parameters\.p0: .*object.*; allowed: real numbers"),
    ({"p0": {"a": P0}}, r"parameters\.p0: is of type object"),
    ({"p0": P0[:3]}, r"parameters\.p0\.shape: \[3\]; allowed"),
    ({"ux": P0}, 'parameters: "ux", but source.ux is not set'),
    ({"loudness": P0}, 'parameters: "loudness"; allowed: p0, p, ux'),
    ({3: P0}, "parameters: 3; allowed: p0, p, ux"),
    ({None: P0}, "parameters: null; allowed: p0, p, ux"),
    ({"p0": P0 * np.nan}, r"source\.p0: has values that are not finite"),
    ({"sound_speed": np.full(N, -1500.0)}, r"medium\.sound_speed: "),
    ({"sound_speed": np.full(N, np.inf)}, r"medium\.sound_speed: "),
]


def refused(parameters, run=simulate_jax, **change):
    medium, source = Medium(np.full(N, 1500.0), density=1000.0), Source(p0=P0, smooth=False)
    inputs = {"grid": Grid((N,), 1e-4, pml_size=2), "medium": medium, "source": source}
    inputs |= {"sensor": Sensor(np.arange(N) == 6)}
    return run(**inputs | change, parameters=parameters, **RUN | {"steps": 3})


@pytest.mark.parametrize(("parameters", "message"), REFUSED)
def test_jax_refuses_as_everything_does(jax, parameters, message):
    """Also where the run meets it, and on the way to a gradient."""
    with pytest.raises(InputError, match=f"^{message}"):
        refused(parameters)
    p0 = parameters.get("p0") if isinstance(parameters, dict) else None
    if isinstance(p0, np.ndarray) and p0.dtype == float:
        with pytest.raises(InputError, match=f"^{message}"):
            jax.grad(lambda p0: refused({"p0": p0})["p"].sum())(p0)


@pytest.mark.parametrize(("parameters", "message"), [*REFUSED[:4], *REFUSED[5:11]])
def test_parameters_are_checked_before_any_framework_sees_them(parameters, message):
    """What both take: a mapping of real arrays."""
    with pytest.raises(InputError, match=f"^{message}"):
        autograd._real_parameters(parameters)


@pytest.mark.parametrize("key", ["grid", "medium", "source", "sensor"])
def test_jax_refuses_objects_of_another_type(jax, key):
    for value in (np.ones(3), "x", 3):
        with pytest.raises(InputError, match=f"^{key}: "):
            refused({"p0": P0}, **{key: value})
