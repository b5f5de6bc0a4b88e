"""Simulate light in multimode fibres: profiles, modes, coupling, signals, integrators, links.

>>> from wavefabric.optics import graded_index_62_5, propagate

The module docstring of each subpackage says what the subpackage contains and may import; none imports
acoustics, fabric, bench or cli.
"""

from wavefabric.base.lazy import lazy

__getattr__, __dir__ = lazy(
    __name__,
    {
        "fibre.fibre": ("Fibre", "at_frequency"),
        "fibre.profile": ("IndexProfile", "TableProfile", "Trench"),
        "fibre.multicore": ("Multicore", "multicore"),
        "fibre.presets": ("coupled_group", "graded_index_62_5", "single_mode", "standard_fibre"),
        "fibre.sources": ("fibre_from_csv", "fibre_from_profile"),
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
        "link.movie": ("PulseMovie",),
        "fibre.random_coupling": ("RandomCoupling",),
        "link.run": ("run_link",),
        "link.step_choice": ("choose_step", "verify_step"),
        "sweeps.run": ("sweep",),
    },
)
