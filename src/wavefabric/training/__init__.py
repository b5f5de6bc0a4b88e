"""Simulate one iteration of neural-network training on a fabric, from layers to the iteration time.

Packages: models (layer graphs), gpu (time of layers), strategies (how GPUs divide a model), communication
(time of collective calls on fabrics), iteration (tasks, event simulation, memory), search, traces, pytorch.
Training may import all packages but cli, kwave, report; optics and acoustics only for time steps of solvers.
"""

from wavefabric.base.lazy import lazy

__getattr__, __dir__ = lazy(
    __name__,
    {
        "iteration.task_graph": ("Call",),
        "communication.times": ("Communication",),
        "gpu.device_model": ("DeviceModel",),
        "iteration.engine": ("FreeCommunication",),
        "iteration.simulate": ("Iteration", "simulate", "simulate_tasks"),
        "models.graph": ("Layer", "ModelGraph"),
        "gpu.precision": ("PRECISIONS",),
        "strategies.strategy": ("Strategy", "uniform"),
        "iteration.workload": ("Workload",),
        "compare": ("compare",),
        "gpu.device_file": ("load_device",),
        "models.graph_file": ("load_graph",),
        "models": ("load_model",),
    },
)
