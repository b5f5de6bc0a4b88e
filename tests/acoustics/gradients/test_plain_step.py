"""The reference for gradients is the same simulation as the package's, to round-off."""

import numpy as np
import pytest
from gradient_cases import cases, leaves
from plain_step import plain_results

# Of noise, and of tones that are recorded for no whole number of periods.
pytestmark = pytest.mark.filterwarnings(r"ignore:(source|sensor|medium)\.")


@pytest.mark.parametrize("name", cases())
def test_recorded_results(name):
    case = cases()[name]
    results = case.results(case.values)
    for (key, array), (plain_key, plain) in zip(
        leaves(results), leaves(plain_results(case, case.values)), strict=True
    ):
        assert key == plain_key
        assert array.shape == plain.shape
        largest = np.pi if "phase" in key else np.abs(plain).max()
        assert np.abs(array - plain).max() <= 1e-12 * largest, key
