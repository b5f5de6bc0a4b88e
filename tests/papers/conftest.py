"""Scripts run in this process, in an empty folder."""

import json

import pytest

from papers import common


@pytest.fixture
def script(tmp_path, monkeypatch, capsys):
    """Run a script's command; gives exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(module, *words):
        with pytest.raises(SystemExit) as left:
            common.run(module.main, [str(word) for word in words])
        shown = capsys.readouterr()
        return left.value.code, shown.out, shown.err

    return call


@pytest.fixture
def numbers(script):
    """The same with --json; gives the dict."""

    def call(module, *words):
        code, out, err = script(module, *words, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    return call
