"""Static routes as the nodes that they pass."""

import numpy as np

from wavefabric.fabric.electrical.static_routes import static_routes


def uses(fabric, src, dst):
    """Wires of a pair as the names of their ends, each with the fraction of the bytes that crosses it."""
    routes, names = static_routes(fabric), [*fabric.gpus, *fabric.switches]
    _, wires, fractions, _ = routes.wires_of(np.array([src]), np.array([dst]))
    ends = (tuple(names[end[w]] for end in (routes.wires.source, routes.wires.target)) for w in wires)
    return dict(zip(ends, fractions.tolist(), strict=True))


def nodes(fabric, src, dst):
    """Names of the nodes that data from GPU src to GPU dst passes, ends included; of a route that is one."""
    wires = list(uses(fabric, src, dst))
    assert [a for a, _ in wires[1:]] == [b for _, b in wires[:-1]]
    return [fabric.gpus[src], *(b for _, b in wires)]


def route(fabric, src, dst):
    """Nodes between two GPUs, and GB/s of each link of the way."""
    routes = static_routes(fabric)
    wires = routes.wires_of(np.array([src]), np.array([dst])).wire
    speeds = [round(float(routes.wires.bandwidth[w]) / 1e9, 3) for w in wires]
    return nodes(fabric, src, dst)[1:-1], speeds
