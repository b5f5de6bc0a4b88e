"""Commands whose standard streams are closed, full, or read by nobody: a clean end without a traceback."""

import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-m", "wavefabric", "fabric", "show", "lightpath:2x2"]


@pytest.mark.parametrize(
    ("redirection", "code", "said"),
    [
        (">&-", 0, ""),
        pytest.param(">&- <&-", 0, "", marks=pytest.mark.slow),
        (">/dev/full", 2, "wavefabric: error: standard output: No space left on device\n"),
        pytest.param("| true", 0, "", marks=pytest.mark.slow),
        ("2>&- >&-", 0, ""),
    ],
)
def test_a_stream_that_cannot_be_written(redirection, code, said):
    shell = ["sh", "-c", f'"$@" {redirection}', "sh", *COMMAND]
    ended = subprocess.run(shell, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (code, said)
