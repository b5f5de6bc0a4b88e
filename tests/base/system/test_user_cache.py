"""Where caches lie: the user's directory, or a private temporary one that is announced in one line."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from wavefabric.base.system import user_cache
from wavefabric.base.system.user_cache import VARIABLE, cache_directory, redirect

posix = pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    """A home that can be written, and a place of its own for temporary files."""
    (tmp_path / "home").mkdir()
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    for name in (VARIABLE, "XDG_CACHE_HOME", *user_cache._RANK):
        monkeypatch.setenv(name, "")  # put back afterwards, whatever is set
        monkeypatch.delenv(name)
    user_cache._usable_root.cache_clear()
    yield
    user_cache._usable_root.cache_clear()


def blocked(tmp_path):
    """A home below a file: nobody can write there, not even root."""
    (tmp_path / "file").write_text("")
    return tmp_path / "file" / "home"


@posix
def test_usual_places(monkeypatch, tmp_path, capsys):
    assert cache_directory() == tmp_path / "home" / ".cache" / "wavefabric"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory("plans") == tmp_path / "xdg" / "wavefabric" / "plans"
    monkeypatch.setenv(VARIABLE, str(tmp_path / "ours"))
    assert cache_directory() == tmp_path / "ours"
    assert (tmp_path / "xdg" / "wavefabric" / "plans").is_dir()
    assert capsys.readouterr().err == ""


@posix
def test_a_private_temporary_one_and_one_line(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("HOME", str(blocked(tmp_path)))
    wanted = tmp_path / "tmp" / f"wavefabric-{os.getuid()}"
    assert cache_directory("fft") == wanted / "fft"
    assert cache_directory() == wanted
    assert wanted.stat().st_mode & 0o777 == 0o700
    assert os.environ[VARIABLE] == str(wanted)
    assert capsys.readouterr().err == (
        f"wavefabric: cache: {tmp_path}/file/home/.cache/wavefabric cannot be written (Not a directory); "
        f"using {wanted} (WAVEFABRIC_CACHE names another)\n"
    )


@posix
def test_no_home_at_all(monkeypatch, tmp_path, capsys):
    def nowhere():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    assert cache_directory().parent == tmp_path / "tmp"
    err = capsys.readouterr().err
    assert err.startswith("wavefabric: cache: there is no home directory; using ")
    assert len(err.splitlines()) == 1


@posix
def test_ranks_after_the_first_are_silent(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("HOME", str(blocked(tmp_path)))
    monkeypatch.setenv("PMI_RANK", "1")
    assert cache_directory().parent == tmp_path / "tmp"
    assert capsys.readouterr().err == ""


@posix
@pytest.mark.parametrize("trap", ["link", "open", "file"])
def test_what_others_could_write_is_not_taken(monkeypatch, tmp_path, trap):
    """Compiled code is loaded from there."""
    monkeypatch.setenv("HOME", str(blocked(tmp_path)))
    usual = tmp_path / "tmp" / f"wavefabric-{os.getuid()}"
    if trap == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        usual.symlink_to(tmp_path / "elsewhere")
    elif trap == "open":
        usual.mkdir()
        usual.chmod(0o777)
    else:
        usual.write_text("")
    result = cache_directory()
    assert result != usual
    assert result.parent == tmp_path / "tmp"
    assert result.stat().st_mode & 0o777 == 0o700


@posix
def test_a_library_is_redirected_only_if_it_must_be(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("SOME_LIBRARY", "")
    redirect("SOME_LIBRARY", "some", "~/.config/some", str(tmp_path / "tmp"))
    assert os.environ["SOME_LIBRARY"] == ""
    redirect("SOME_LIBRARY", "some", str(blocked(tmp_path) / "some"))
    assert os.environ["SOME_LIBRARY"] == str(tmp_path / "home" / ".cache" / "wavefabric" / "some")
    monkeypatch.setenv("SOME_LIBRARY", "")
    monkeypatch.setenv("WAVEFABRIC_CACHE", str(tmp_path / "ours"))
    monkeypatch.setenv("HOME", "/proc/nobody")  # not there, though root may write in the folder above
    redirect("SOME_LIBRARY", "some", "~/.config/some")
    assert os.environ["SOME_LIBRARY"] == str(tmp_path / "ours" / "some")
    monkeypatch.setenv("SOME_LIBRARY", "mine")
    redirect("SOME_LIBRARY", "some", str(tmp_path / "file" / "some"))
    assert os.environ["SOME_LIBRARY"] == "mine"
    assert capsys.readouterr().err == ""


@posix
def test_fonts_without_a_home(tmp_path):
    """Figures are drawn, and one line is all that is said."""
    text = """\
from wavefabric.cli import redirect_caches
redirect_caches()
from wavefabric.base.system.user_cache import cache_directory
cache_directory()
import matplotlib
print(matplotlib.get_configdir())
"""
    variables = {**os.environ, "HOME": str(blocked(tmp_path)), "TMPDIR": str(tmp_path / "tmp")}
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR"):
        variables.pop(name, None)
    done = subprocess.run([sys.executable, "-c", text], env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("wavefabric: cache: ")
    assert done.stdout == f"{tmp_path}/tmp/wavefabric-{os.getuid()}/matplotlib\n"
