"""The command run in this process, in an empty folder."""

import json

import pytest

from wavefabric.cli import main
from wavefabric.execution import timing


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Run ``wavefabric bench ...``; gives exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    # The bandwidth of caches is as good a number here, and arrays of gigabytes take seconds.
    monkeypatch.setattr(timing.copy_bandwidth, "__defaults__", (2, 4 << 20))

    def call(*words):
        with pytest.raises(SystemExit) as left:
            main(["bench", *(str(word) for word in words)])
        shown = capsys.readouterr()
        return left.value.code, shown.out, shown.err

    return call


@pytest.fixture
def numbers(command):
    """The same with --json and --device cpu; gives the dict."""

    def call(*words):
        code, out, err = command(*words, "--json", "--device", "cpu")
        assert (code, err) == (0, "")
        return json.loads(out)

    return call
