"""Training of neural networks simulated on a fabric: one iteration, from layers to the time it takes.

Rooms: models (layer graphs), gpu (time and memory of layers), strategies, communication (calls on fabrics),
iteration (tasks and the engine), search, traces, pytorch. Imports everything but cli and bench; optics and
acoustics for their exchanges alone.
"""

from wavefabric.lazy import lazy

#: Public name to the module that defines it.
_EXPORTS = {
    "Call": "calls",
    "Communication": "communication.times",
    "DeviceModel": "device_model",
    "FreeCommunication": "engine",
    "Iteration": "simulate",
    "Layer": "graph",
    "ModelGraph": "graph",
    "PRECISIONS": "precision",
    "Strategy": "strategy",
    "Workload": "tasks",
    "compare": "compare",
    "load_device": "device_file",
    "load_graph": "graph_file",
    "load_model": "models",
    "simulate": "simulate",
    "simulate_tasks": "simulate",
    "uniform": "strategy",
}

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
