"""Build fabrics with as many GPUs as a training run uses, and an ideal switch to compare with."""

from wavefabric.base.errors import InputError
from wavefabric.collectives.builders.messages import near_square
from wavefabric.fabric import AnyFabric, Fabric, PhotonicFabric, load
from wavefabric.fabric.bounds.cuts import port_rates
from wavefabric.fabric.electrical import families


def fabric_for(text: str, gpus: int) -> AnyFabric:
    """Return the fabric that ``text`` names (as for `wavefabric.fabric.load`), with at least ``gpus`` GPUs.

    A family without numbers gets exactly ``gpus`` GPUs: ``"switch"``, ``"ring"``, ``"hypercube"``, and
    ``"mesh"``, ``"torus"``, ``"lightpath"`` with nearly equal rows and columns (32 GPUs: 4 x 8). Raises
    `InputError` for an unknown fabric, one with fewer GPUs, or a hypercube whose size is no power of two.

    Examples
    --------
    >>> from wavefabric.training.fabrics import fabric_for
    >>> fabric_for("lightpath", 32).name, fabric_for("switch", 6).name
    ('lightpath:4x8', 'switch:6')
    """
    fabric = load(f"{text}:{_size(text, gpus)}" if text in families.FAMILIES else text)
    return check_size(fabric, gpus)


def check_size(fabric: AnyFabric, gpus: int) -> AnyFabric:
    """Return ``fabric``; raise `InputError` if it has fewer than ``gpus`` GPUs."""
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
    """Return the total send bandwidth per GPU in B/s; the mean over GPUs if they differ."""
    return fabric.bandwidth if isinstance(fabric, PhotonicFabric) else float(port_rates(fabric)[0].mean())


def ideal_switch(gpus: int, bandwidth: float, alpha: float) -> Fabric:
    """Return a non-blocking switch with one link each way to each GPU.

    ``bandwidth`` is the rate of each link in B/s, ``alpha`` the start-up time of a round in s.
    """
    return Fabric(
        name=f"ideal switch:{gpus}",
        gpus=tuple(f"GPU{r}" for r in range(gpus)),
        switches=("switch",),
        links=families.make_links("switch", (gpus,), bandwidth, 0.0, "network"),
        alpha=alpha,
    )


def is_ideal_switch(fabric: Fabric) -> bool:
    """Return whether ``fabric`` is one switch with equal links, one each way per GPU, and no other link."""
    if len(fabric.switches) != 1:
        return False
    switch = fabric.switches[0]
    ends = [(link.source, link.target) for link in fabric.links]
    wanted = {pair for gpu in fabric.gpus for pair in ((gpu, switch), (switch, gpu))}
    values = {(link.bandwidth, link.latency) for link in fabric.links}
    return len(ends) == len(wanted) and set(ends) == wanted and len(values) == 1
