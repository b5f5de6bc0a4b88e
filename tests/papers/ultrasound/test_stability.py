"""Random media against eigenvalues."""

import json

import pytest

from papers.ultrasound import stability

pytestmark = pytest.mark.slow


def test_ultrasound_stability(script):
    """The media are those of their seed, whatever else is drawn."""
    small = ["--points", 16, "--steps", 20, "--seed", 5]
    code, out, err = script(stability, *small, "--media", 4, "--json")
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert result["refused"] + result["stopped"] + result["returned"] == 4
    two = json.loads(script(stability, *small, "--media", 2, "--json")[1])
    assert two["cases"] == result["cases"][:2]
    code, out, _ = script(stability, *small, "--media", 1, "-o", ".")
    assert code == 0
    assert "1 random media" in out
    code, _, err = script(stability, "--points", 5)
    assert code == 2
    assert "--points 5" in err
