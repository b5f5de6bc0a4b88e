"""What README and documentation show must run."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


def test_every_name_is_there_even_after_its_module_is_imported():
    import wavefabric.optics.link.run  # imports propagation on its way

    for name in wavefabric.optics._EXPORTS:
        assert callable(getattr(wavefabric.optics, name)), name


@pytest.mark.slow
def test_the_readme_examples_run_twice(capsys):
    """Of both solvers."""
    examples = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    assert len(examples) == 2
    for code in examples * 2:
        exec(code, {})
    said = capsys.readouterr().out
    assert said.count("rk4ip") == said.count("(128, 128)") == 2
