"""Light in a multimode fibre: profile, modes, coupling, signals, integrators, links.

>>> from wavefabric.optics import graded_index_62_5, propagate

Packages: ``fibre`` and ``signal`` know nothing of the others but `ModeMixing`; ``propagation`` knows the
fibre;
``run_file`` what a run file says; ``theory`` what to expect without a run; ``link`` puts all together,
``sweeps`` runs it for many values. None imports acoustics, fabric, bench or cli.
"""

from wavefabric.lazy import lazy

__getattr__, __dir__ = lazy(
    __name__,
    {
        "fibre.fibre": ("Fibre", "at_frequency"),
        "fibre.profile": ("IndexProfile", "TableProfile", "Trench"),
        "fibre.presets": ("coupled_group", "graded_index_62_5", "single_mode"),
        "fibre.tables": ("fibre_from_csv",),
        "fibre.from_profile": ("fibre_from_profile",),
        "fibre.raman": ("power_evolution", "raman_evolution", "raman_tilt"),
        "fibre.spectra": ("LossSpectrum", "RamanGain"),
        "signal.amplifier": ("Amplifier",),
        "signal.constellation": ("Constellation", "gmi", "mutual_information"),
        "signal.equaliser": ("Equaliser",),
        "signal.receiver": ("Receiver",),
        "signal.transmitter": ("Transmitter",),
        "signal.wdm": ("WdmGrid",),
        "propagation.propagate": ("propagate",),
        "propagation.adjoint.gradient": ("DifferentiablePropagator", "propagate_and_gradient"),
        "theory.expected": ("Expectation", "expected_quality"),
        "theory.gaussian_noise": ("Spans", "nonlinear_interference"),
        "link.expected": ("expected_of",),
        "fibre.random_coupling": ("RandomCoupling",),
        "link.run": ("run_link",),
        "link.step_choice": ("choose_step", "verify_step"),
        "sweeps.run": ("sweep",),
    },
)
