"""The command run in this process, in an empty folder; ranks that measure, and what is shown of results."""

import gc
import io
import json

import pytest

import benchmarks.__main__  # noqa: F401 (adds its commands)
from wavefabric.cli import main
from wavefabric.fabric.execution import timing
from wavefabric.fabric.execution.timing import Ranks


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


@pytest.fixture(scope="module")
def ranks():
    """All ranks. Before a sample they free what the last one held: some kilobytes here, among all modules."""
    result = Ranks(("all",), "cpu", 1)
    result.sample = 0.002
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "collect", lambda: 0)
        yield result


@pytest.fixture
def shown(ranks, tmp_path):
    """The tables of a result, as text; its picture is drawn. On the first rank."""

    def show(module, result):
        if ranks.rank:
            return ""
        json.dumps(result)
        path = tmp_path / "picture.png"
        module.plot(result, path)
        assert path.stat().st_size > 5000
        from rich.console import Console

        console = Console(width=140, file=io.StringIO())
        for table in module.table(result):
            console.print(table)
        return console.file.getvalue()

    return show
