"""Read Chakra execution traces as task graphs, which `simulate_tasks` runs on a fabric."""

from collections.abc import Sequence
from itertools import islice
from operator import attrgetter
from pathlib import Path

from wavefabric.base.errors import InputError, choice
from wavefabric.training.gpu.device_model import ARITHMETIC, EIGHT_BIT, DeviceModel
from wavefabric.training.iteration.task_graph import TaskGraph
from wavefabric.training.traces.chakra.assemble import Assembly, matched_collectives, matched_messages
from wavefabric.training.traces.chakra.messages import Known, trace_paths
from wavefabric.training.traces.chakra.parse import TraceFile, read_file, read_groups, whole
from wavefabric.training.traces.chakra.sources import ARCHIVES, sources_of

#: Attributes of a node that are equal on GPUs that do the same work.
_SIGNATURE = attrgetter("name", "kind", "waits", "seconds", "cpu", "collective", "size", "tag")


def read_chakra(
    files: str | Path | Sequence[str | Path],
    device: DeviceModel | None = None,
    arithmetic: str = "bf16",
    groups: str | Path | None = None,
) -> TaskGraph:
    """Read a Chakra execution trace, with one file per GPU, as a task graph.

    A GPU computes in the order of its file if the dependencies allow this order, else in an allowed order.
    Operations on the GPU's CPU have a separate worker. GPUs are one worker if their files differ only in the
    GPUs with which they communicate. Collectives of a group, and messages with a tag, are matched by their
    order. Computations are forward passes, or backward passes if the names say so. Collectives for which no
    computation waits are gradients. Sizes are as in ASTRA-sim: the data of each GPU before the collective.
    Broadcasts, gathers and others are replaced as in `messages.STAND_FOR`. The schema must be 0.0.4 or later.
    Two things are ignored with a warning: dependencies on missing nodes, and the control dependencies of a
    file in which nodes wait in a cycle.

    ``files``: ``NAME`` for all files ``NAME.RANK.et`` or ``.json``, a ZIP or tar archive of them, or the
    paths of the files of all GPUs, from rank 0; each file may be compressed with gzip. ``device``: to compute
    the time of nodes without a duration. Such a node is a matrix product in ``arithmetic``
    (`wavefabric.training.gpu.device_model.ARITHMETIC` or `EIGHT_BIT`) if its num_ops is above 0, else an
    elementwise operation on tensor_size bytes. ``groups``: a JSON file with the GPUs of each group name
    (pg_name), if the trace does not define the groups.

    Raises `MissingExtra` if the package protobuf is missing, and `InputError`, with file and reason, for an
    invalid file.
    """
    choice("arithmetic", arithmetic, (*ARITHMETIC, *EIGHT_BIT))
    if device is not None:
        device.check_arithmetic("precision", arithmetic)
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
    # Merge GPUs whose files differ only in groups and partners, unless a worker would then wait for itself.
    try:
        seen: dict[tuple, int] = {}
        alike = [seen.setdefault(tuple(map(_SIGNATURE, file.nodes)), len(seen)) for file in read]
        return Assembly(read, instances, alike, own=False).graph()
    except InputError:
        return Assembly(read, instances, range(len(read)), own=False).graph()


def _check_whole(files: Sequence[TraceFile]) -> None:
    """Raise `InputError` if the file of a GPU is missing; `write_chakra` states the number of GPUs."""
    count = max(files[-1].rank + 1, *(whole(file.metadata.get("gpus")) for file in files))
    if len(files) < count:
        there = {file.rank for file in files}
        missing = [str(rank) for rank in islice((r for r in range(count) if r not in there), 9)]
        words = ", ".join(missing[:8]) + (", …" if len(missing) > 8 else "")
        actual = f"{files[0].file} given, and no file of rank{'s' * (len(missing) > 1)} {words}"
        raise InputError(f"trace: {actual}; allowed: the files of all GPUs, ranks 0 to {count - 1}")


def trace_files(files: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return the paths of the files of a trace; raise `InputError` if there are none.

    ``files``: a list of paths, one archive or file, or ``NAME`` for all ``NAME.RANK.et`` or ``.json``.
    """
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
