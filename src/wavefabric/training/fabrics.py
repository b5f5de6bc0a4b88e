"""Fabrics of as many GPUs as a training run has, and the ideal switch that they are compared with."""

from wavefabric.collectives.builders.messages import near_square
from wavefabric.errors import InputError
from wavefabric.fabric import AnyFabric, Fabric, PhotonicFabric, load
from wavefabric.fabric.bounds.cuts import port_rates
from wavefabric.fabric.electrical import families


def fabric_for(text: str, gpus: int) -> AnyFabric:
    """A fabric of at least so many GPUs, from text as of `wavefabric.fabric.load`.

    Families without numbers are as large as is asked for: ``"switch"``, ``"ring"``, ``"hypercube"``, and
    ``"mesh"``, ``"torus"``, ``"lightpath"`` of rows and columns that differ as little as they can (32 GPUs:
    4 x 8). `InputError` for an unknown fabric, one that has fewer GPUs, and a hypercube of no power of two.

    Examples
    --------
    >>> from wavefabric.training.fabrics import fabric_for
    >>> fabric_for("lightpath", 32).name, fabric_for("switch", 6).name
    ('lightpath:4x8', 'switch:6')
    """
    fabric = load(f"{text}:{_size(text, gpus)}" if text in families.FAMILIES else text)
    return check_size(fabric, gpus)


def check_size(fabric: AnyFabric, gpus: int) -> AnyFabric:
    """The fabric, if it has at least so many GPUs; else `InputError`."""
    if fabric.ranks < gpus:
        raise InputError(f"gpus: {gpus} given; allowed: up to {fabric.ranks}, the GPUs of {fabric.name}")
    return fabric


def _size(family: str, gpus: int) -> str:
    wanted = families.FAMILIES[family]
    if wanted == "dimensions":
        if gpus & (gpus - 1):
            raise InputError(f"gpus: {gpus} given; allowed: powers of two, on a {family}")
        return str(gpus.bit_length() - 1)
    if wanted == "ranks":
        return str(gpus)
    return "x".join(map(str, near_square(gpus)))


def gpu_bandwidth(fabric: AnyFabric) -> float:
    """B/s that a GPU of the fabric can send in all; the mean, where they differ."""
    return fabric.bandwidth if isinstance(fabric, PhotonicFabric) else float(port_rates(fabric)[0].mean())


def ideal_switch(gpus: int, bandwidth: float, alpha: float) -> Fabric:
    """A switch that never blocks, with one link each way to each GPU, of so many B/s; ``alpha`` in s."""
    return Fabric(
        name=f"ideal switch:{gpus}",
        gpus=tuple(f"GPU{r}" for r in range(gpus)),
        switches=("switch",),
        links=families.make_links("switch", (gpus,), bandwidth, 0.0, "network"),
        alpha=alpha,
    )


def is_ideal_switch(fabric: Fabric) -> bool:
    """Whether every GPU has the same link each way to one switch, and there is nothing else to share."""
    if len(fabric.switches) != 1:
        return False
    switch = fabric.switches[0]
    ends = [(link.source, link.target) for link in fabric.links]
    wanted = {pair for gpu in fabric.gpus for pair in ((gpu, switch), (switch, gpu))}
    values = {(link.bandwidth, link.latency) for link in fabric.links}
    return len(ends) == len(wanted) and set(ends) == wanted and len(values) == 1
