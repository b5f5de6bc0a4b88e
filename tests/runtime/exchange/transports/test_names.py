"""Transports stand in one list, which the documentation names in full."""

from pathlib import Path

from wavefabric.runtime.exchange import TRANSPORTS
from wavefabric.runtime.exchange.transports import serving


def test_transports_by_device_are_all_there_are():
    assert {"auto", *serving("cpu"), *serving("cuda:0")} == set(TRANSPORTS)


def test_the_documentation_has_a_row_for_each():
    docs = Path(__file__).parents[4] / "docs" / "ranks.md"
    rows = [line.split("`")[1] for line in docs.read_text("utf-8").splitlines() if line.startswith("| `")]
    assert [name for name in rows if name in TRANSPORTS] == list(TRANSPORTS)[1:]
