"""Processes that end with their parent."""

import os
import signal
import subprocess
import sys
from functools import partial

import pytest

from wavefabric.base.system.processes import follow_parent


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux sends the signal")
def test_a_parent_that_was_gone_before_the_child_could_ask(tmp_path):
    """Killed between fork and prctl: nobody would send the signal, so that the child has to see it itself."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    for parent, code in ((gone.pid, -signal.SIGTERM), (os.getpid(), 0)):
        child = subprocess.Popen(["sleep", "0.1"], preexec_fn=partial(follow_parent, parent))
        assert child.wait(10) == code
