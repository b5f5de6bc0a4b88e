"""Loads fabrics by name or from TOML files, and saves them."""

import math
import os
import re
import tomllib
import warnings
from collections import Counter
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

from wavefabric.base.errors import InputError, ensure, not_one_of
from wavefabric.base.files.input import parse_toml, parsed
from wavefabric.base.files.output import write_text
from wavefabric.base.files.validation_errors import checked
from wavefabric.base.units import show
from wavefabric.fabric.electrical import families
from wavefabric.fabric.electrical.fabric import Fabric, KernelTimes, Link, TransportTimes
from wavefabric.fabric.electrical.static_routes import check_connected
from wavefabric.fabric.io.presets import PRESETS, presets
from wavefabric.fabric.io.tables import (
    MOST_LINKS,
    ElectricalTable,
    FabricLinkTable,
    FamilyTable,
    PhotonicTable,
)
from wavefabric.fabric.io.writing import to_toml
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.link_budget import LinkBudget


def load(text: str | Path) -> Fabric | PhotonicFabric:
    """Load a fabric by its name, or from a file: TOML, or one of the formats of `IMPORTERS`.

    ``text`` is the name of a preset (see `presets`), a family with numbers (``"ring:8"``, ``"switch:256"``,
    ``"mesh:4x4"``, ``"torus:4x4x4"``, ``"hypercube:3"``, ``"lightpath:8x8"``), or the path of a file, whose
    content tells its format. `InputError`, in one line: the key, the value given and the allowed values.

    Examples
    --------
    >>> from wavefabric.fabric import load
    >>> load("torus:4x4").ranks, load("lightpath").ranks
    (16, 32)
    """
    name = str(text)
    # A Path object, or text with a folder or suffix, is never treated as a name.
    if isinstance(text, Path) or name.endswith(".toml") or "/" in name or os.sep in name:
        return _read(Path(text))
    kind, colon, sizes = name.partition(":")
    if colon and kind in families.FAMILIES:
        return _sized(kind, families.parse_sizes(kind, sizes))
    if (PRESETS / f"{name}.toml").is_file() and name in presets():
        return parsed(PRESETS / f"{name}.toml", "fabric", from_toml)
    if Path(name).exists() and name:
        return _read(Path(name))
    known = [*presets(), *families.EXAMPLES.values()]
    raise InputError(f"fabric: {not_one_of(name, known, 'a file')}")


def format_of(text: str) -> str:
    """Return the format of a fabric's file by its content: ``"toml"``, or a key of `IMPORTERS`."""
    text = text.lstrip()
    if text.startswith("<"):
        return "xml"
    if re.search(
        r"^=+ .* between two GPUs =+$|^LINK TYPE TABLE:|^=+ ROCm System Management", text, re.MULTILINE
    ):
        return "rocm-smi"
    if re.search(r"^[ \t]*(npus_count|topology)[ \t]*:|\"topologies-per-dim\"\s*:", text, re.MULTILINE):
        return "astra-sim"
    return "nvidia-smi" if "GPU0" in text and "=" not in text.split("GPU0", 1)[0] else "toml"


#: By format: the function that reads it, and the options that it has besides ``name``.
IMPORTERS = {
    "xml": ("nccl_xml.read_nccl_xml", ("nvlinks", "sm")),
    "nvidia-smi": ("nvidia_smi.read_topo", ("sm",)),
    "rocm-smi": ("rocm_smi.read_rocm_topo", ("gcn",)),
    "astra-sim": ("astra_sim.read_astra_sim", ()),
}


def import_fabric(text: str, kind: str, **options: Any) -> Fabric:
    """Read text of a format of `IMPORTERS`; ``options`` that are None count as left out."""
    module, _, function = IMPORTERS[kind][0].partition(".")
    read = getattr(import_module(f"wavefabric.fabric.io.importers.{module}"), function)
    return read(text, **{key: value for key, value in options.items() if value is not None})


def _read(path: Path) -> Fabric | PhotonicFabric:
    def read(text: str) -> Fabric | PhotonicFabric:
        text = text.removeprefix("\ufeff")
        kind = format_of(text)
        if kind == "toml":
            return from_toml(text)
        fabric = import_fabric(text, kind, name=path.stem)
        from wavefabric.fabric.io.importers.nccl_xml import LACKING  # late, as the importers

        if fabric.description.endswith(LACKING):
            command = f"wavefabric fabric show {path} --nvlinks N --save mine.toml"
            warnings.warn(f"{path}: {fabric.description}; `{command}` adds them", stacklevel=2)
        return fabric

    return parsed(path, "fabric", read)


def from_toml(text: str) -> Fabric | PhotonicFabric:
    """Return the fabric that TOML text describes."""
    return _fabric(parse_toml(text, "fabric"))


def _fabric(data: dict[str, Any]) -> Fabric | PhotonicFabric:
    kind = data.get("kind", "electrical")
    ensure(kind in ("electrical", "photonic"), "kind", f"{show(kind)} given", '"electrical" or "photonic"')
    light = kind == "photonic"
    return _photonic(checked(PhotonicTable, data)) if light else _electrical(checked(ElectricalTable, data))


def save(path: str | Path, fabric: Fabric | PhotonicFabric, force: bool = False) -> Path:
    """Write a fabric to a TOML file atomically; ``force`` replaces an existing file.

    Raises `InputError` if the file exists (without ``force``), is a folder, or cannot be written.
    """
    return write_text(path, to_toml(fabric), "fabric", force)


def _sized(kind: str, sizes: tuple[int, ...]) -> Fabric | PhotonicFabric:
    """Return the fabric of a family with other sizes than its preset; the last wafers may lack some tiles."""
    data = tomllib.loads((PRESETS / f"{kind}.toml").read_text("utf-8"))
    data["name"] = f"{kind}:{'x'.join(map(str, sizes))}"
    wanted = families.FAMILIES[kind]
    if kind != "lightpath":
        data["family"][wanted] = list(sizes) if wanted == "grid" else sizes[0]
        return _fabric(data)
    wafer = data["rows"], data["columns"]
    size = "of {} x {}".format(*wafer)
    count = math.prod(-(-many // few) for many, few in zip(sizes, wafer, strict=True))
    wafers = f"one wafer {size}" if count == 1 else f"{count} wafers {size} joined by fibres"
    tiles = "tiles" if math.prod(sizes) > 1 else "tile"
    data["description"] = f"LIGHTPATH: {sizes[0]} x {sizes[1]} {tiles} on {wafers}"
    keys = ("rows", "columns", "wafer_rows", "wafer_columns")
    return _fabric(data | dict(zip(keys, sizes + wafer, strict=True)))


def _photonic(table: Any) -> PhotonicFabric:
    if table.rows * table.columns > families.MOST_RANKS:
        actual = f"{table.rows} rows of {table.columns} given"
        raise InputError(f"rows: {actual}; allowed: up to {families.MOST_RANKS} tiles in all")
    values = table.model_dump(exclude={"kind"})
    try:
        values["budget"] = values["budget"] and LinkBudget(**values["budget"])
    except InputError as error:
        raise InputError(f"budget.{error}") from None
    values["wafer_rows"] = table.wafer_rows or table.rows
    values["wafer_columns"] = table.wafer_columns or table.columns
    return PhotonicFabric(**values)


def _electrical(table: Any) -> Fabric:
    if table.family is not None:
        gpus, switches, links = _family(table, table.family)
    else:
        if table.gpus is None:
            raise InputError("gpus: missing; allowed: a number, a list of names, or a table family instead")
        gpus = _names("gpus", "GPU", table.gpus)
        switches = _names("switches", "SW", table.switches)
        links = _links(table.links or [], gpus, switches)
    values = table.model_dump(exclude={"kind", "gpus", "switches", "links", "family"})
    values["kernels"] = values["kernels"] and KernelTimes(**values["kernels"])
    values["transports"] = tuple(TransportTimes(**each) for each in values["transports"])
    values["multicast_switches"] = tuple(table.multicast_switches)
    for name in table.multicast_switches:
        allowed = ", ".join(switches) or "none, there are no switches"
        ensure(name in switches, "multicast_switches", f"{name} given", allowed)
    fabric = Fabric(gpus=gpus, switches=switches, links=links, **values)
    if table.family is None:
        check_connected(fabric)
    return fabric


def _family(table: Any, family: FamilyTable) -> tuple[tuple, tuple, tuple]:
    for key in ("gpus", "links", "switches"):
        ensure(not getattr(table, key), key, "given beside family", "one of the two")
    wanted = families.FAMILIES[family.kind]
    for key in ("ranks", "grid", "dimensions", "network"):
        needed = key == wanted or (key == "network" and family.kind == "nodes")
        if (getattr(family, key) is not None) != needed:
            fault = "missing" if needed else "given"
            raise InputError(f"family.{key}: {fault} for {family.kind}; allowed: {wanted} alone")
    value = getattr(family, wanted)
    sizes = families.check_sizes(family.kind, tuple(value) if wanted == "grid" else (value,), "family")
    gpus = tuple(f"GPU{r}" for r in range(families.count_gpus(family.kind, sizes)))
    if (net := family.network) is not None:
        inside = Link("", "", family.bandwidth, family.latency, family.link)
        adapters = net.adapters or sizes[1]
        allowed = f"a divisor of {sizes[1]}, the GPUs of a node"
        ensure(sizes[1] % adapters == 0, "family.network.adapters", f"{adapters} given", allowed)
        nic, rails = Link("", "", net.bandwidth, net.latency, "network"), net.leaves == "rails"
        network = families.Network(nic, adapters, rails, net.spines, net.oversubscription)
        return gpus, *families.make_nodes(sizes, inside, network)
    links = families.make_links(family.kind, sizes, family.bandwidth, family.latency, family.link)
    return gpus, ("switch",) if family.kind == "switch" else (), links


def _names(key: str, word: str, nodes: int | list[str]) -> tuple[str, ...]:
    names = [f"{word}{i}" for i in range(nodes)] if isinstance(nodes, int) else nodes
    ensure(names or key != "gpus", "gpus", "none given", "at least one")
    ensure(len(names) <= families.MOST_RANKS, key, f"{len(names)} given", f"up to {families.MOST_RANKS}")
    return tuple(names)


def _links(
    tables: list[FabricLinkTable], gpus: tuple[str, ...], switches: tuple[str, ...]
) -> tuple[Link, ...]:
    nodes = {*gpus, *switches}
    twice = [name for name, times in Counter((*gpus, *switches)).items() if times > 1]
    if twice:
        raise InputError(f"gpus: {min(twice)} given twice; allowed: another name for each GPU and switch")
    total = sum(len(t.from_) * len(t.to) * t.count * (1 + t.both) for t in tables)
    ensure(total <= MOST_LINKS, "links", f"{total} given", f"up to {MOST_LINKS}")
    links: list[Link] = []
    for i, table in enumerate(tables):
        for key, names in (("from", table.from_), ("to", table.to)):
            for name in (n for n in names if n not in nodes):
                allowed = ", ".join([*gpus[:8], *switches[:8]]) + (", …" if len(nodes) > 16 else "")
                raise InputError(f"links[{i}].{key}: {name} given; allowed: {allowed}")
        for a, b in product(table.from_, table.to):
            if a == b:
                raise InputError(f"links[{i}].to: {b} given, from itself; allowed: another node")
            for ends in ((a, b), (b, a))[: 1 + table.both]:
                links += [Link(*ends, table.bandwidth, table.latency, table.kind)] * table.count
    return tuple(links)
