"""Training of neural networks simulated on a fabric: one iteration, from layers to the time it takes.

Rooms: models (layer graphs), gpu (time and memory of layers), strategies, communication (calls on fabrics),
iteration (tasks and the engine), search, traces, pytorch. Imports everything but cli and bench; optics and
acoustics for their exchanges alone.
"""

from wavefabric.lazy import lazy

#: Public name to the module that defines it.
_EXPORTS = {
    "Call": "iteration.calls",
    "Communication": "communication.times",
    "DeviceModel": "gpu.device_model",
    "FreeCommunication": "iteration.engine",
    "Iteration": "iteration.simulate",
    "Layer": "models.graph",
    "ModelGraph": "models.graph",
    "PRECISIONS": "gpu.precision",
    "Strategy": "strategies.strategy",
    "Workload": "iteration.tasks",
    "compare": "compare",
    "load_device": "gpu.device_file",
    "load_graph": "models.graph_file",
    "load_model": "models",
    "simulate": "iteration.simulate",
    "simulate_tasks": "iteration.simulate",
    "uniform": "strategies.strategy",
}

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
