"""The benchmarks of several ranks at tiny sizes, on CPUs."""

import pytest

from wavefabric.base.errors import InputError
from wavefabric.cli.bench import exchange
from wavefabric.fabric.execution.timing import Ranks

TWO = pytest.mark.parallel(2)


@TWO
def test_exchange(ranks, shown):
    result = exchange.run(ranks, sizes=[4, 4096], repeats=2, peaks=True)
    assert [case["pattern"] for case in result["cases"]] == list(exchange.PATTERNS)
    for case in result["cases"]:
        assert case["transport"] == "mpi"
        assert [row["bytes"] for row in case["rows"]] == [4, 4096]
        assert [row["wrong"] for row in case["rows"]] == [0, 0]
        assert case["latency_us"] == case["rows"][0]["us"] > 0
        assert case["rows"][0]["share"] is None
    if not ranks.rank:
        assert "busbw" in shown(exchange, result)


@TWO
def test_transports_that_are_not_there():
    result = exchange.run(Ranks(("p2p", "mpi"), "cpu", 1), ["ping"], [4], 1)
    assert [case["transport"] for case in result["cases"]] == ["mpi"]
    assert "GPU" in result["unavailable"]["p2p"]
    assert "GPU" in exchange.table(result)[-1]
    with pytest.raises(InputError, match="multiples of 4"):
        exchange.run(Ranks(("mpi",), "cpu", 1), ["ping"], [6])
