"""Errors of the local Fourier basis on two ranks."""

import io
import json

import pytest
from rich.console import Console

from papers.ultrasound import local_basis_error
from wavefabric.fabric.execution.timing import Ranks


@pytest.mark.parallel(2)
def test_local_error(tmp_path):
    ranks = Ranks(("all",), "cpu", 1)
    bells = ("none", "nested-sine")
    result = local_basis_error.measure(ranks, (16, 16, 16), (2, 8), bells, ["heterogeneous"], steps=8)
    errors = {(c["bell"], c["overlap"]): (c["l2"], c["max"]) for c in result["cases"]}
    assert len(errors) == 4
    assert result["grid"] == [1, 1, 2]
    assert errors["nested-sine", 8][0] < 5e-3
    assert errors["nested-sine", 8][1] < errors["nested-sine", 2][1] / 10
    assert errors["nested-sine", 8][0] < errors["none", 8][0]
    if not ranks.rank:
        json.dumps(result)
        local_basis_error.plot(result, tmp_path / "picture.png")
        console = Console(width=140, file=io.StringIO())
        for table in local_basis_error.table(result):
            console.print(table)
        assert "nested-sine" in console.file.getvalue()


@pytest.mark.parametrize(("words", "part"), [(["--size", "8x8"], "--size"), ([], "2 or more")])
def test_one_clear_line(script, words, part):
    code, out, err = script(local_basis_error, *words, "--device", "cpu")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert part in err
