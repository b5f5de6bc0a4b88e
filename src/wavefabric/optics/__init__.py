"""Light in a multimode fibre: profile, modes, coupling, signals, integrators, links.

>>> from wavefabric.optics import graded_index_62_5, propagate
"""

from importlib import import_module

_PLACES = {
    "Fibre": "fibre",
    "coupled_group": "fibre",
    "fibre_from_profile": "fibre",
    "graded_index_62_5": "fibre",
    "single_mode": "fibre",
    "IndexProfile": "profile",
    "TableProfile": "profile",
    "propagate": "propagate",
    "run_link": "link",
}

__all__ = list(_PLACES)


def __getattr__(name: str):
    # Late, so that reading a run file does not pay for Numba.
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
