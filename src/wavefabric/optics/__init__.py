"""Light in a multimode fibre: profile, modes, coupling, signals, integrators, links.

>>> from wavefabric.optics import graded_index_62_5, propagate
"""

from importlib import import_module

_PLACES = {
    "Fibre": "fibre.fibre",
    "coupled_group": "fibre.fibre",
    "fibre_from_csv": "fibre.tables",
    "fibre_from_profile": "fibre.fibre",
    "graded_index_62_5": "fibre.presets",
    "single_mode": "fibre.fibre",
    "IndexProfile": "fibre.profile",
    "TableProfile": "fibre.profile",
    "propagate": "propagation.propagate",
    "run_link": "link.run",
}


def __getattr__(name: str):
    # Late, so that reading a run file does not pay for Numba.
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__():
    return sorted({*globals(), *_PLACES})
