"""Static routes as the nodes that they pass."""

import numpy as np

from wavefabric.fabric.electrical.static_routes import static_routes


def nodes(fabric, src, dst):
    """Names of the nodes that data from GPU src to GPU dst passes, ends included."""
    routes, names = static_routes(fabric), [*fabric.gpus, *fabric.switches]
    _, wires = routes.wires_of(np.array([src]), np.array([dst]))
    return [names[src], *(names[routes.wires.target[w]] for w in wires)]


def route(fabric, src, dst):
    """Nodes between two GPUs, and GB/s of each link of the way."""
    routes = static_routes(fabric)
    _, wires = routes.wires_of(np.array([src]), np.array([dst]))
    speeds = [round(float(routes.wires.bandwidth[w]) / 1e9, 3) for w in wires]
    return nodes(fabric, src, dst)[1:-1], speeds
