"""What README and documentation show must run."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.slow
def test_the_readme_examples_run_twice(capsys):
    """Of both solvers."""
    examples = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    assert len(examples) == 2
    for code in examples * 2:
        exec(code, {})
    said = capsys.readouterr().out
    assert said.count("rk4ip") == said.count("(128, 128)") == 2
