"""What README and documentation show must run."""

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_every_name_is_there_even_after_its_module_is_imported():
    import wavefabric.optics.link  # imports propagation on its way

    for name in wavefabric.optics._PLACES:
        assert callable(getattr(wavefabric.optics, name)), name


def test_the_readme_example_runs_twice(capsys):
    code = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S).group(1)
    exec(code, {})
    exec(code, {})
    assert "rk4ip" in capsys.readouterr().out
