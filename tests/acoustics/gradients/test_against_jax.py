"""Gradients of the cases by JAX against differences of what the solver records."""

from pathlib import Path

import numpy as np
import pytest
from gradient_cases import cases, derivatives, leaves, mapped, noise, objective
from plain_step import gradient_by_jax

FILE = Path(__file__).parents[2] / "data" / "acoustic_gradients" / "answers.npz"
#: Relative steps of central differences; of the three, errors of second and fourth order cancel.
STEPS = 2e-4, 1e-4, 5e-5

pytestmark = pytest.mark.filterwarnings(r"ignore:(source|sensor|medium)\.")


def answers(case):
    """Of JAX: the objective's value, and its gradients."""
    with np.load(FILE) as file:
        return {key.partition("/")[2]: file[key] for key in file if key.startswith(case + "/")}


def slope(function):
    """Derivative of a function of a number at 0."""
    a, b, c = ((function(step) - function(-step)) / (2 * step) for step in STEPS)
    return (64 * c - 20 * b + a) / 45


@pytest.mark.parametrize("name", cases())
def test_objective(name):
    case = cases()[name]
    results = case.results(case.values)
    assert objective(results) == pytest.approx(float(answers(name)["value"]), rel=1e-12)
    changes = mapped(lambda _, value, by: by * np.abs(value).max(), results, 50)
    pairs = zip(leaves(derivatives(results)), leaves(changes), strict=True)
    products = [derivative * change for (_, derivative), (_, change) in pairs]

    def moved(step):
        each = (change for _, change in leaves(changes))
        return objective(mapped(lambda _, value, __: value + step * next(each), results))

    size = np.linalg.norm(np.concatenate([product.ravel() for product in products]))
    assert abs(sum(map(np.sum, products)) - slope(moved)) < 1e-9 * size


@pytest.mark.parametrize(
    ("name", "key"),
    [
        pytest.param(name, key, marks=[pytest.mark.slow] * ((number + position) % 3 > 0))
        for number, (name, case) in enumerate(cases().items())
        for position, key in enumerate(case.values)
    ],
)
def test_differences(name, key):
    """Along a direction that changes every entry."""
    case, gradient = cases()[name], answers(name)[key]
    value = case.values[key]
    # B/A changes little.
    largest = np.max(np.abs(value)) * (100 if key == "nonlinearity" else 1)
    direction = largest * (noise(np.shape(value), 7) if np.ndim(value) else 1.0)
    assert gradient.shape == np.shape(value)
    difference = slope(lambda step: objective(case.results(case.values | {key: value + step * direction})))
    error = abs((gradient * direction).sum() - difference)
    assert error < 1e-8 * np.linalg.norm(gradient * direction)


@pytest.mark.slow
@pytest.mark.parametrize("name", cases())
def test_jax_again(name):
    again, kept = gradient_by_jax(cases()[name], pytest.importorskip("jax")), answers(name)
    assert set(again) == set(kept)
    for key, gradient in again.items():
        assert np.abs(gradient - kept[key]).max() <= 1e-11 * np.abs(kept[key]).max(), key
