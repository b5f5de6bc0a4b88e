"""The page on gradients: its code runs, and its gradient is that of an objective quadratic in p₀."""

import re
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[3] / "docs" / "gradients.md"


def test_the_first_gradient():
    code, *_ = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)
    names = {}
    exec(code, names)
    gradient, p0 = names["gradient"], names["source"].p0
    assert np.vdot(gradient["p0"], p0) == pytest.approx(2 * gradient.value, rel=1e-4)
    assert gradient["sound_speed"].shape == p0.shape
