"""Light in a multimode fibre: profile, modes, coupling, signals, integrators, links.

>>> from wavefabric.optics import graded_index_62_5, propagate

Rooms: ``fibre`` and ``signal`` know nothing of the others but `ModeMixing`; ``propagation`` knows the fibre;
``run_file`` what a run file says; ``link`` puts all together. None imports acoustics, fabric, bench or cli.
"""

from wavefabric.lazy import lazy

#: Public name to the module that defines it.
_EXPORTS = {
    "Fibre": "fibre.fibre",
    "IndexProfile": "fibre.profile",
    "TableProfile": "fibre.profile",
    "Trench": "fibre.profile",
    "at_frequency": "fibre.fibre",
    "coupled_group": "fibre.presets",
    "fibre_from_csv": "fibre.tables",
    "fibre_from_profile": "fibre.from_profile",
    "graded_index_62_5": "fibre.presets",
    "single_mode": "fibre.presets",
    "Amplifier": "signal.amplifier",
    "Constellation": "signal.constellation",
    "Receiver": "signal.receiver",
    "Transmitter": "signal.transmitter",
    "WdmGrid": "signal.wdm",
    "propagate": "propagation.propagate",
    "run_link": "link.run",
}

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
