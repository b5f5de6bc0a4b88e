"""k-wave-python's published examples, one import changed: each runs, and equals its own NumPy solver.

Runs where k-wave-python is installed and the folder ``examples`` of its repository is known
(``make test-peers``). Large simulations are compared over their first time steps; their scripts end there.
"""

import os
from pathlib import Path

import pytest

from examples import installed

FOLDER = os.environ.get("KWAVE_EXAMPLES", "")
pytestmark = [
    pytest.mark.skipif(not installed(), reason="k-wave-python is not installed"),
    pytest.mark.skipif(not FOLDER, reason="KWAVE_EXAMPLES is not set"),
    pytest.mark.slow,
]

#: Examples of today's interface, in double precision: simulations, and time steps of them (None: all).
TODAY = {
    "ivp_1D_simulation": (1, None),
    "ivp_3D_simulation": (1, None),
    "ivp_binary_sensor_mask": (1, None),
    "ivp_heterogeneous_medium": (1, None),
    "ivp_homogeneous_medium": (1, None),
    "ivp_loading_external_image": (1, None),
    "ivp_photoacoustic_waveforms": (3, None),
    "ivp_recording_particle_velocity": (1, None),
    "ivp_saving_movie_files": (1, None),
    "na_controlling_the_PML": (4, None),
    "na_filtering_part_1": (1, None),
    "na_filtering_part_2": (1, None),
    "na_filtering_part_3": (1, None),
    "na_modelling_nonlinearity": (1, None),
    "na_optimising_performance": (1, None),
    "na_source_smoothing": (3, None),
    "pr_2D_FFT_line_sensor": (1, None),
    "pr_3D_FFT_planar_sensor": (1, None),
    "sd_directional_array_elements": (1, None),
    "sd_directivity_modelling_2D": (11, None),
    "sd_directivity_modelling_3D": (1, 100),
    "sd_focussed_detector_2D": (2, None),
    "sd_focussed_detector_3D": (2, None),
    "tvsp_3D_simulation": (1, None),
    "tvsp_doppler_effect": (1, None),
    "tvsp_homogeneous_medium_dipole": (1, None),
    "tvsp_homogeneous_medium_monopole": (1, None),
    "tvsp_snells_law": (1, None),
    "tvsp_steering_linear_array": (1, None),
}
#: Of the older functions, in single precision as in k-Wave's programs. The NumPy solver has no axisymmetric
#: grids: these are compared with transforms of the mirrored field.
OLDER = {
    "at_array_as_sensor": (2, None),
    "at_array_as_source": (1, 300),
    "at_circular_piston_3D": (1, 60),
    "at_circular_piston_AS": (1, 200),
    "at_focused_bowl_AS": (1, 200),
    "at_focused_annular_array_3D": (1, 60),
    "at_focused_bowl_3D": (1, 60),
    "at_linear_array_transducer": (1, 60),
    "checkpointing/checkpoint": (1, 60),
    "ivp_photoacoustic_waveforms": (1, 200),
    "pr_2D_FFT_line_sensor": (1, 300),
    "pr_2D_TR_line_sensor": (2, None),
    "pr_3D_FFT_planar_sensor": (1, 60),
    "pr_3D_TR_planar_sensor": (1, 60),
    "sd_directivity_modelling_2D": (1, 300),
    "sd_focussed_detector_2D": (2, None),
    "sd_focussed_detector_3D": (1, 200),
    "us_beam_patterns": (1, 40),
    "us_bmode_phased_array": (1, 100),
    "us_defining_transducer": (1, 90),
}
#: Those that cannot run, and why.
NOT_RUN = {
    "us_bmode_linear_transducer": "imports a module that its repository lacks, and reads a web drive",
}


def _older_name(path: Path) -> str:
    return path.stem if path.parent.name == path.stem else f"{path.parent.name}/{path.stem}"


def test_every_published_example_is_listed():
    folder = Path(FOLDER)
    assert {path.stem for path in folder.glob("*.py")} == set(TODAY)
    older = {_older_name(path) for path in folder.glob("legacy/*/*.py") if path.stem != "example_utils"}
    assert older == set(OLDER) | set(NOT_RUN)


def _check(path: Path, simulations: int, steps: int | None, tolerance: float) -> None:
    from examples import run_example

    comparison = run_example(path, steps)
    print(f"{path.stem}: {comparison.largest:.2e}")
    # One import a function: this one simulates in two and in three dimensions.
    assert comparison.lines_changed == (2 if path.parts[-2:-1] == ("ivp_photoacoustic_waveforms",) else 1)
    assert len(comparison.differences) == simulations
    assert comparison.largest <= tolerance


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", TODAY)
def test_example(name):
    _check(Path(FOLDER, f"{name}.py"), *TODAY[name], 1e-10)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", OLDER)
def test_example_of_the_older_functions(name):
    folder, _, stem = name.rpartition("/")
    _check(Path(FOLDER, "legacy", folder or stem, f"{stem}.py"), *OLDER[name], 2e-5)
