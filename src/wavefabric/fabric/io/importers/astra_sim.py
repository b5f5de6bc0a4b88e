"""Imports network files of ASTRA-sim's analytical backend as fabrics."""

import math
import re
from collections.abc import Iterator
from functools import partial
from itertools import pairwise, permutations
from typing import Any

from wavefabric.base.errors import InputError, choices, ensure
from wavefabric.base.files.input import parse_json
from wavefabric.base.units import show
from wavefabric.collectives.sizes import MOST_RANKS
from wavefabric.fabric.electrical.fabric import Fabric, Link
from wavefabric.fabric.io.tables import MOST_LINKS

#: Keys of shapes, sizes, bandwidths and latencies: in YAML, and in the JSON of ASTRA-sim 1.0.
_YAML = ("topology", "npus_count", "bandwidth", "latency")
_JSON = ("topologies-per-dim", "units-count", "link-bandwidth", "link-latency")
#: Shapes of a dimension, with the number of GPUs or switches that a GPU of n is linked to.
_PEERS = {"Ring": lambda n: min(2, n - 1), "FullyConnected": lambda n: n - 1, "Switch": lambda n: 1}
_NUMBER = r"\d+(\.\d*)?([eE][+-]?\d{1,2})?"
_LINE = re.compile(r"([\w-]+)\s*:\s*\[([^\[\]]*)\]")


def read_astra_sim(text: str, *, name: str = "astra-sim") -> Fabric:
    """Return the fabric of a network file of ASTRA-sim: YAML, or the older JSON.

    Along each dimension GPUs are joined in a ring both ways, fully, or by a switch. Rank r is at (i0, i1, …)
    with r = i0 + n0 (i1 + n1 (i2 + …)): the first dimension is the fastest. Data between GPUs that differ in
    several dimensions pass through others. Links of the last of several dimensions are of kind ``network``.

    YAML: bandwidth of a link in GB/s of 2^30 bytes; latency of a link in ns, of which a route by a switch
    has two. JSON: GB/s of 10^9 bytes for each of the ``links-count`` links of a GPU along a dimension; the
    latencies of link, adapter (NIC) and router add up. There is no α. `InputError`: key, value, allowed.
    """
    old = text.lstrip().startswith("{")
    keys, content = (_JSON, parse_json(text, "astra-sim")) if old else (_YAML, _yaml(text))
    content = content if isinstance(content, dict) else {}
    shapes = [str(each) for each in _values(content, keys[0], 0)]
    choices(f"astra-sim: {keys[0]}", shapes, _PEERS)
    read = partial(_numbers, content, length=len(shapes))
    sizes = [int(n) for n in read(keys[1], 2, MOST_RANKS)]
    rates, times = read(keys[2], 1e-6, 1e9), read(keys[3], 0, 1e12)
    peers = [_PEERS[shape](n) for shape, n in zip(shapes, sizes, strict=True)]
    total = math.prod(sizes) * sum(peers)
    ensure(math.prod(sizes) <= MOST_RANKS, f"astra-sim: {keys[1]}", f"{sizes} given", f"{MOST_RANKS} in all")
    ensure(total <= MOST_LINKS // 2, "astra-sim", f"{total} links", f"up to {MOST_LINKS // 2}")
    if old:
        counts = read("links-count", 1, 1e6, default=peers)
        more = (read(f"{name}-latency", 0, 1e12, default=[0] * len(shapes)) for name in ("nic", "router"))
        rates = [rate * count / peer for rate, count, peer in zip(rates, counts, peers, strict=True)]
        times = [sum(each) for each in zip(times, *more, strict=True)]
    links = []
    for d, (shape, rate, time) in enumerate(zip(shapes, rates, times, strict=True)):
        kind = "wire" if len(shapes) == 1 else "network" if d == len(shapes) - 1 else f"dimension {d}"
        values = rate * (1e9 if old else 2.0**30), time * 1e-9, kind
        links += [Link(a, b, *values) for a, b in _ends(shape, sizes, d)]
    return Fabric(
        name=name,
        gpus=tuple(f"GPU{r}" for r in range(math.prod(sizes))),
        switches=tuple(dict.fromkeys(link.target for link in links if link.target.startswith("switch"))),
        links=tuple(links),
        alpha=0.0,
        forwards=len(shapes) > 1 or "Ring" in shapes,
        description=" x ".join(f"{shape} of {n}" for shape, n in zip(shapes, sizes, strict=True)),
        source=f"ASTRA-sim's network file, in ns and in GB/s of {'10^9' if old else '2^30'} bytes",
    )


def _ends(shape: str, sizes: list[int], d: int) -> Iterator[tuple[str, str]]:
    """Yield both ends of each link along dimension ``d``."""
    stride, n = math.prod(sizes[:d]), sizes[d]
    for line, first in enumerate(r for r in range(math.prod(sizes)) if r // stride % n == 0):
        names = [f"GPU{first + k * stride}" for k in range(n)]
        if shape == "Switch":
            switch = f"switch{d}.{line}"
            yield from (pair for gpu in names for pair in ((gpu, switch), (switch, gpu)))
        elif shape == "FullyConnected" or n == 2:
            yield from permutations(names, 2)
        else:
            yield from (pair for a, b in pairwise([*names, names[0]]) for pair in ((a, b), (b, a)))


def _yaml(text: str) -> dict[str, Any]:
    """Return the lists of a YAML file of lines ``key: [ value, … ]  # comment``, as ASTRA-sim's are."""
    content: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line := line.partition("#")[0].strip():
            match = _LINE.fullmatch(line)
            if match is None or match[1] not in _YAML or match[1] in content:
                allowed = f"once each {', '.join(_YAML)}, as in bandwidth: [ 50.0, 25.0 ]"
                raise InputError(f"astra-sim: line {number}: {show(line)}; allowed: {allowed}")
            content[match[1]] = [word.strip() for word in match[2].split(",")]
    return content


def _values(content: dict[str, Any], key: str, length: int, default: list | None = None) -> list[Any]:
    values = content.get(key, default)
    good = isinstance(values, list) and len(values) == (length or len(values)) > 0
    ensure(good, f"astra-sim: {key}", f"{show(values)} given", "a list with a value for each dimension")
    return list(values or ())


def _numbers(
    content: dict[str, Any], key: str, least: float, most: float, length: int, default: list | None = None
) -> list[float]:
    """Return the numbers of a list; sizes and counts, which begin at 1 or 2, are whole."""
    form, words = (r"\d{1,9}", "whole numbers") if least in (1, 2) else (_NUMBER, "numbers")
    values = _values(content, key, length, default)
    for value in values:
        right = re.fullmatch(form, str(value)) and least <= float(value) <= most
        ensure(right, f"astra-sim: {key}", f"{show(value)} given", f"{words} from {least:g} to {most:g}")
    return [float(value) for value in values]
