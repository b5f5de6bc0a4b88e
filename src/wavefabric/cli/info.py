"""Implement `wavefabric info`, which shows the hardware and the optional parts that are available."""

import platform
from importlib.util import find_spec
from typing import Any

import wavefabric
from wavefabric.base.results.provenance import git_commit, versions
from wavefabric.base.system.machine import nvidia_driver
from wavefabric.cli.common.options import Json
from wavefabric.cli.common.show import conclude, pairs_table, table
from wavefabric.runtime.device import describe
from wavefabric.runtime.exchange import machine_description as exchange
from wavefabric.runtime.exchange.control import world_control
from wavefabric.runtime.exchange.launch import environment
from wavefabric.runtime.kernels.library import library

#: Optional parts: name of the extra, module whose presence is checked, purpose.
EXTRAS = {
    "cuda": ("cupy", "NVIDIA GPUs (CUDA 13; cuda12 for CUDA 12)"),
    "mpi": ("mpi4py", "several ranks"),
    "schedules": ("ortools", "schedules and routes"),
}


def command(as_json: Json = False) -> None:
    """Show version, processor, GPUs, transports between ranks and optional parts.

    Under mpiexec: which device each rank has.
    """
    rows = []
    if environment.ranks() > 1:
        rows = exchange.ranks(world_control())
    if environment.rank() > 0:
        return
    content = gather()
    if rows:
        content["ranks"] = rows
    ranks = [table(tuple(rows[0]), (map(str, row.values()) for row in rows))] if rows else []
    conclude(as_json, content, shown=[pairs_table(_lines(content)), *ranks])


def gather() -> dict[str, Any]:
    """Return all facts that `wavefabric info` shows, as a nested dict of plain values."""
    return {
        "wavefabric": wavefabric.__version__,
        "git_commit": git_commit(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        **describe(),
        "driver": nvidia_driver(),
        "transports": exchange.transports(),
        "links": exchange.links(),
        "kernels": {"compiled_for": library().path.stem},
        "versions": versions(("numpy", "scipy", "h5py")),
        "extras": {
            name: {
                "present": find_spec(module) is not None,
                "for": use,
                "install": f"pip install 'wavefabric[{name}]'",
            }
            for name, (module, use) in EXTRAS.items()
        },
    }


def _lines(content: dict[str, Any]) -> list[tuple[str, str]]:
    commit = f" (commit {content['git_commit'][:12]})" if content["git_commit"] else ""
    lines = [
        ("wavefabric", content["wavefabric"] + commit),
        ("python", f"{content['python']}, {content['system']}"),
    ]
    for name in ("cpu", "kernels"):
        words = (f"{key.replace('_', ' ')} {text}" for key, text in content[name].items())
        lines.append((name, ", ".join(words).removeprefix("model ")))
    gpus, driver = content["gpus"], f", driver {content['driver']}" if content["driver"] else ""
    lines.append(("GPUs", f"{len(gpus)}{driver}" if gpus else f"none (CUDA: {content['cuda']})"))
    for number, gpu in enumerate(gpus):
        lines.append(
            (f"  cuda:{number}", ", ".join(f"{k} {v}" for k, v in gpu.items()).removeprefix("name "))
        )
    if content["links"]:
        rows = content["links"]["links"]
        lines.append(("links", "  ".join(f"cuda:{n} {' '.join(row)}" for n, row in enumerate(rows))))
    for name, state in content["transports"].items():
        lines.append((name, ("" if state["available"] else "not available: ") + state["detail"]))
    lines.append(("packages", ", ".join(f"{k} {v}" for k, v in content["versions"].items())))
    for name, extra in content["extras"].items():
        presence = "present" if extra["present"] else f"missing: {extra['install']}"
        lines.append((f"[{name}]", f"{extra['for']}: {presence}"))
    return lines
