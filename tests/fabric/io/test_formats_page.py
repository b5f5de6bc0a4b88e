"""The examples of the page on file formats are read as they stand there."""

import re
from pathlib import Path

from wavefabric.collectives import from_json, to_json, verify
from wavefabric.fabric.io.files import from_toml

PAGE = (Path(__file__).parents[3] / "docs" / "formats.md").read_text()


def test_examples():
    text = re.search(r"```json\n(.*?)```", PAGE, re.S)[1]
    schedule = from_json(text)
    verify(schedule)
    assert to_json(schedule) == text
    fabric = from_toml(re.search(r"```toml\n(.*?)```", PAGE, re.S)[1])
    assert (fabric.name, fabric.ranks, len(fabric.links)) == ("box", 4, 12)
