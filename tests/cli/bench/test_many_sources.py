"""``many-sources`` at a tiny size, through the command."""

import pytest


def test_cases(numbers):
    words = "many-sources", "--size", "36x32", "--sources", 2, "--steps", 4, "--repeats", 1, "--threads", 1
    result = numbers(*words)
    (case,) = result["cases"]
    assert case["shape"] == [36, 32]
    assert (result["sources"], result["steps"]) == (2, 4)
    for key in ("simulation", "gradient"):
        times = case[key]
        assert min(times["alone"], times["together"]) > 0
        assert times["ratio"] == pytest.approx(times["alone"] / times["together"])
