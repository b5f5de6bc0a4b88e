"""Ultrasound in tissue: grid, medium, sources, sensors and the k-space pseudospectral solver.

>>> from wavefabric.acoustics import Grid, Medium, Sensor, Source, simulate
"""

from importlib import import_module

_PLACES = {
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
    "max_frequency": "check.source_band",
    "rectangle": "transducers.elements",
    "simulate": "simulation",
    "simulate_kwave": "kwave.objects",
    "smooth": "smoothing",
    "to_problem": "simulation",
}


def __getattr__(name: str):
    # Late, so that reading a file does not pay for Numba.
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__():
    return sorted({*globals(), *_PLACES})
