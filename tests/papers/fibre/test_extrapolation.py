"""Richardson's extrapolation against values whose limit is known, and the published step study."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import trapezoid

from papers.fibre.extrapolation import observed_order, richardson
from wavefabric.base.errors import InputError

PERFORMANCE = Path(__file__).parents[3] / "docs" / "lab-book.md"


@pytest.mark.parametrize("order", [1, 2, 4])
def test_the_limit_of_a_power_of_the_step_is_exact(order):
    limit, slope = np.array([[0.3, -2.0], [5.0, 0.0]]), np.array([[1.0, -4.0], [0.5, 2.0]])
    for steps in ([0.2, 0.1], [0.7, 0.31, 0.1, 0.05]):
        values = [limit + slope * h**order for h in steps]
        np.testing.assert_allclose(richardson(steps, values, order), limit, atol=1e-12)
    assert observed_order([0.4, 0.2, 0.1], [1 + h**order for h in (0.4, 0.2, 0.1)]) == pytest.approx(order)


def test_two_trapezoidal_sums_make_simpsons_rule():
    # A method whose order is known: ∫₀¹ eˣ dx by the trapezoidal rule, error of order 2.
    x, steps = np.linspace(0, 1, 9), [1 / 4, 1 / 8]
    sums = [trapezoid(np.exp(x[::2]), x[::2]), trapezoid(np.exp(x), x)]
    simpson = np.exp(x) @ [1, 4, 2, 4, 2, 4, 2, 4, 1] / 24
    result = float(richardson(steps, sums, 2))
    assert result == pytest.approx(simpson, rel=1e-14)
    assert abs(result - (np.e - 1)) < 1e-5 < abs(sums[1] - (np.e - 1))


def test_order_that_cannot_be_told():
    assert observed_order([4, 2], [1, 2]) is None
    assert observed_order([4, 2, 1.5], [3, 2, 1]) is None
    assert observed_order([4, 2, 1], [3, 2, 2]) is None
    assert observed_order([4, 2, 1], [3, 2, 3]) is None


@pytest.mark.parametrize(
    ("steps", "values", "order", "words"),
    [
        ([1.0], [1.0], 2, "steps"),
        ([1.0, 1.0], [1.0, 2.0], 2, "steps"),
        ([1.0, -1.0], [1.0, 2.0], 2, "steps"),
        ([2.0, 1.0], [1.0, 2.0], 0, "order"),
        ([2.0, 1.0], [1.0, 2.0, 3.0], 2, "values"),
    ],
)
def test_bad_input(steps, values, order, words):
    with pytest.raises(InputError, match=words):
        richardson(steps, values, order)


def test_what_the_docs_say_of_the_headline_follows_from_their_table():
    text = PERFORMANCE.read_text(encoding="utf-8").replace("−", "-")
    number = r"(-[\d.]+)"
    rows = re.findall(
        rf"^\| (?:`strang` )?([\d.]+) m \| {number} \| {number} \| {number} \|", text, re.MULTILINE
    )
    steps, *columns = np.array(rows, dtype=float).T
    finest = steps < 13
    assert sorted(steps[finest]) == [3.125, 6.25, 12.5]
    limit = richardson(steps[finest], np.stack(columns, axis=1)[finest], 1)
    row = re.search(rf"\| step → 0, error ∝ h \| {number} \| {number} \| {number} \|", text)
    assert row is not None
    np.testing.assert_allclose(limit, [float(cell) for cell in row.groups()], atol=5.1e-4)
    # At 10 m on the same lines: the part that is numerical.
    ten = [np.interp(10, np.sort(steps), column[np.argsort(steps)]) for column in columns]
    parts = 1 - limit / ten
    said = re.search(r"LP01 (\d+) % after 80 km and (\d+) % after 160 km, of the mean (\d+) %", text)
    assert said is not None
    np.testing.assert_allclose(100 * parts, [float(cell) for cell in said.groups()], atol=1.01)
