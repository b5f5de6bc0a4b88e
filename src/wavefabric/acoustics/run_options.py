"""Whether the options of a run from Python are what they must be, before anything is made of them."""

from __future__ import annotations

import os
from typing import Any

from wavefabric.acoustics.arguments import check_choice, is_whole, require
from wavefabric.acoustics.decomposition.decompose import Options
from wavefabric.exchange import Communicator
from wavefabric.system.progress import Progress


def check_options(
    *,
    device: Any = "auto",
    threads: Any = None,
    precision: Any = "single",
    progress: Any = None,
    output: Any = None,
    force: Any = False,
    checkpoint: Any = None,
    check_stability: Any = True,
    comm: Any = None,
    decomposition: Any = None,
) -> None:
    """Refuse values of another type than `simulate` takes, each by its name."""
    require(
        isinstance(device, str) or hasattr(device, "xp"), "device", device, "'auto', 'cpu', 'cuda', 'cuda:N'"
    )
    require(
        threads is None or (is_whole(threads) and threads > 0), "threads", threads, "a whole number from 1"
    )
    check_choice(precision, ("single", "double", "auto"), "precision")
    for key, value in (("output", output), ("checkpoint", checkpoint)):
        require(value is None or isinstance(value, str | os.PathLike), key, value, "the name of a file")
    for key, value in (("force", force), ("check_stability", check_stability)):
        require(isinstance(value, bool), key, value, "True or False")
    for key, value, kind in (
        ("progress", progress, Progress),
        ("comm", comm, Communicator),
        ("decomposition", decomposition, Options),
    ):
        require(value is None or isinstance(value, kind), key, value, f"a {kind.__name__}")
