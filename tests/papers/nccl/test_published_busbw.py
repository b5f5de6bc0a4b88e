"""Published bus bandwidths: those of A100s are met, all rows are in the stored results, the page has them."""

import json
from pathlib import Path

import pytest

from papers.nccl import published_busbw, published_rows
from wavefabric.base.errors import InputError

ROOT = Path(__file__).parents[3]
STORED = json.loads((ROOT / "papers/nccl/published_busbw.json").read_text())


@pytest.mark.slow
def test_a100s_with_four_and_eight_adapters_are_within_15_percent():
    result = published_busbw.figure(machines="A100")
    assert len(result["rows"]) == result["near"] == 10
    for row in result["rows"]:
        stored = [each for each in STORED["rows"] if each["source"] == row["source"]]
        assert row["predicted"] in [each["predicted"] for each in stored]
    assert published_busbw.table(result)[0].row_count == 10


def test_stored_results_are_those_of_the_rows_and_of_the_page():
    keys = [(row["machine"], row["nodes"], row["busbw"], row["source"]) for row in STORED["rows"]]
    assert keys == [(row.machine, row.nodes, row.busbw, row.source) for row in published_rows.ROWS]
    page = (ROOT / "docs/nccl-validation.md").read_text()
    assert f"{STORED['near']} of {len(keys)}" in page
    for row in STORED["rows"]:
        error = f"{100 * row['error']:+.0f} %".replace("-", "−")
        assert f"| {row['busbw']:g} | {row['predicted']:g} | {error} |" in page


def test_an_unknown_machine_is_refused():
    with pytest.raises(InputError, match="--machines: V100 given; allowed: A100, H100"):
        published_busbw.figure(machines="A100,V100")
