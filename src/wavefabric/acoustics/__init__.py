"""Ultrasound in tissue: grid, medium, sources, sensors and the k-space pseudospectral solver.

What a user meets is here; `solver` takes the time steps, `parallel` shares them over ranks, `recording` keeps
what is measured, `kwave` reads and writes k-Wave's files, `check` and `stability` say what would go wrong
before a run does.

>>> from wavefabric.acoustics import Grid, Medium, Sensor, Source, simulate
"""

from wavefabric.lazy import lazy

#: Public name to the module that defines it.
_EXPORTS = {
    "Grid": "grid",
    "Medium": "medium",
    "Results": "result",
    "Sensor": "sensor",
    "Source": "source",
    "Transducer": "source",
    "bowl": "transducers.elements",
    "disc": "transducers.elements",
    "from_kwave": "kwave.objects",
    "linear_array": "transducers.elements",
    "max_frequency": "check.warnings",
    "rectangle": "transducers.elements",
    "run_kwave_file": "kwave.run_input",
    "simulate": "simulation",
    "simulate_kwave": "kwave.objects",
    "smooth": "source",
    "to_problem": "simulation",
}

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
