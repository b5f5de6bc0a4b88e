"""The tutorials run from their first line to their last, but for fewer time steps of ultrasound."""

import re
from pathlib import Path

import pytest

from wavefabric.cli import main

ROOT = Path(__file__).parents[1]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
#: Files of measurements that need GPUs or PyTorch.
MEASURED = re.compile(r"\b(?:gpu|measured)\.toml")


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_runs(tmp_path, monkeypatch, page):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    commands = 0
    for kind, text in re.findall(r"^```(\w*)\n(.*?)^```", page.read_text("utf-8"), re.M | re.S):
        if kind == "toml":
            (tmp_path / "link.toml").write_text(text)
        elif kind == "python":
            exec(text.replace("np.arange(600)", "np.arange(60)").replace("steps=600", "steps=60"), {})
        for line in text.splitlines():
            if not kind and line.startswith("wavefabric ") and not MEASURED.search(line):
                with pytest.raises(SystemExit) as left:
                    main(line.split()[1:])
                assert left.value.code == 0, line
                commands += 1
    assert commands > 1
