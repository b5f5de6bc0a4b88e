"""Chakra execution traces as tasks, which `simulate_tasks` runs on a fabric."""

from collections.abc import Sequence
from itertools import islice
from operator import attrgetter
from pathlib import Path

from wavefabric.errors import InputError, choice
from wavefabric.training.gpu.device_model import ARITHMETIC, DeviceModel
from wavefabric.training.iteration.task_graph import TaskGraph
from wavefabric.training.traces.chakra.assemble import Assembly, matched_collectives, matched_messages
from wavefabric.training.traces.chakra.messages import Known, trace_paths
from wavefabric.training.traces.chakra.parse import TraceFile, read_file, read_groups, whole
from wavefabric.training.traces.chakra.sources import ARCHIVES, sources_of

#: What of a node is the same for GPUs that do the same.
_SIGNATURE = attrgetter("name", "kind", "waits", "seconds", "cpu", "collective", "size", "tag")


def read_chakra(
    files: str | Path | Sequence[str | Path],
    device: DeviceModel | None = None,
    arithmetic: str = "bf16",
    groups: str | Path | None = None,
) -> TaskGraph:
    """Tasks of an execution trace, one file a GPU.

    A GPU computes in the order of its file where that agrees with what waits for what, else in an order that
    does; what runs on its CPU has a worker of its own. GPUs whose files differ in nothing but groups and
    partners are one worker. Collectives of a group, and messages with a tag, are matched in their order.
    Computation is of kind ``forward``, or ``backward`` where the name says so; collectives that no
    computation waits for are gradients. Sizes are as ASTRA-sim takes them: what each GPU has before the
    collective.

    ``files``: ``NAME`` for all files ``NAME.RANK.et`` or ``.json``, a ZIP or tar archive of them, or their
    paths: those of all GPUs, from rank 0; each may be packed by gzip. Schema 0.0.4 or later. Dependencies on
    nodes that are not there are left out, and control dependencies of files in which nodes wait in a circle,
    with a warning. Broadcasts, gathers, … stand as `messages.STAND_FOR` says.
    ``device`` serves nodes with operations (num_ops, tensor_size) and no duration: a matrix product, of the
    ``arithmetic`` given (`wavefabric.training.gpu.device_model.ARITHMETIC`), or a copy. ``groups``: a JSON
    file of the groups of GPUs by their names (pg_name), where the trace does not say them itself.
    `MissingExtra`: without the package protobuf. `InputError`: the file, and what is wrong with it.
    """
    choice("arithmetic", arithmetic, ARITHMETIC)
    sources, of_groups = sources_of(trace_files(files))
    described = {k: v for each in of_groups for k, v in read_groups(each.file, each.content()).items()}
    described |= read_groups(groups) if groups is not None else {}
    known: Known = {}
    read = [read_file(source, device, arithmetic, known) for source in sources]
    _check_whole(read)
    instances = [*matched_collectives(read, described), *matched_messages(read)]
    workers = [whole(file.metadata.get("worker")) for file in read]
    if min(workers) >= 0:
        return Assembly(read, instances, workers, own=True).graph()
    # GPUs whose files differ in groups and partners alone are one worker, unless one then waited for itself.
    try:
        seen: dict[tuple, int] = {}
        alike = [seen.setdefault(tuple(map(_SIGNATURE, file.nodes)), len(seen)) for file in read]
        return Assembly(read, instances, alike, own=False).graph()
    except InputError:
        return Assembly(read, instances, range(len(read)), own=False).graph()


def _check_whole(files: Sequence[TraceFile]) -> None:
    """Refuse a set in which the file of a GPU is missing; our own say of how many GPUs they are."""
    count = max(files[-1].rank + 1, *(whole(file.metadata.get("gpus")) for file in files))
    if len(files) < count:
        there = {file.rank for file in files}
        missing = [str(rank) for rank in islice((r for r in range(count) if r not in there), 9)]
        words = ", ".join(missing[:8]) + (", …" if len(missing) > 8 else "")
        actual = f"{files[0].file} given, and no file of rank{'s' * (len(missing) > 1)} {words}"
        raise InputError(f"trace: {actual}; allowed: the files of all GPUs, ranks 0 to {count - 1}")


def trace_files(files: str | Path | Sequence[str | Path]) -> list[Path]:
    """Files of a trace: all that are called ``NAME.RANK.et``, or those given; `InputError` for none."""
    if isinstance(files, (str, Path)):
        prefix = Path(files)
        if prefix.name.endswith((*ARCHIVES, ".et", ".et.gz", ".json", ".json.gz")):
            return [prefix]
        result = trace_paths(prefix)
        if not result:
            raise InputError(f"trace: {prefix} given; allowed: NAME of files NAME.RANK.et that there are")
        return result
    if not files:
        raise InputError("trace: no files given; allowed: one or more")
    return [Path(file) for file in files]
