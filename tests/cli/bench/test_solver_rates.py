"""``solver-rates`` at tiny sizes, through the command: what it writes is a device file."""

import itertools
import json

import pytest

from wavefabric.cli.bench import solver_rates
from wavefabric.fabric.planner.fibre_step import _EXCHANGES
from wavefabric.fabric.planner.rates import RatesTable, load_rates

TINY = ("--threads", 1, "--repeats", 1, "--precision", "single", "--medium", "homogeneous")


def test_a_device_file(command, tmp_path, monkeypatch):
    sizes = {"_CUBES": ((16,), (12, 16)), "_ROWS": (2, 6), "_LONGEST": 11, "_NUMBERS": 12}
    for name, size in sizes.items():
        monkeypatch.setattr(solver_rates, name, {"cpu": size})
    monkeypatch.setattr(solver_rates, "_SAMPLE_MS", 0.5)
    code, out, err = command("solver-rates", *TINY, "--device", "cpu", "--output", "rates", "--json")
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert (tmp_path / "rates" / "solver-rates.png").stat().st_size > 5000
    rates = load_rates(tmp_path / "rates" / "solver-rates.json")
    assert rates.tables == RatesTable.model_validate(result)
    assert (rates.name, rates.threads, rates.launch) == ("cpu", 1, 0.0)
    assert rates.memory_bytes == result["memory_bytes"] > 1e8
    steps = [(row.stages, row.shape) for row in rates.tables.steps]
    assert steps == [("fused", (16,) * 3), ("plain", (12,) * 3), ("plain", (16,) * 3)]
    for samples, ps in result["linear"]["single"]:
        assert rates.linear("single", samples, 6) == pytest.approx(6e-12 * samples * ps)
    for operator, form, cut in itertools.product(_EXCHANGES, ("dense", "factored"), ("one", "split")):
        for rows, ps in result["kerr"]["single"][operator][form][cut]:
            assert rates.kerr(operator, "single", form, cut, rows) == pytest.approx(1e-12 * ps)
    assert min(rates.pack(1e6, kind) for kind in ("planes", "points", "spectrum")) > 0
