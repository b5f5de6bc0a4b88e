"""Simulates ultrasound in tissue: grid, medium, sources, sensors and the k-space pseudospectral solver.

This package exports the public names. `solver` takes the time steps, `parallel` splits the grid among ranks,
`recording` stores the recorded quantities, `kwave` reads and writes k-Wave files, `check` and `stability`
find errors before a run, `reconstruction` computes images from recorded data.

>>> from wavefabric.acoustics import Grid, Medium, Sensor, Source, simulate
"""

from wavefabric.base.lazy import lazy

__getattr__, __dir__ = lazy(
    __name__,
    {
        "grid": ("Grid",),
        "exposure": ("mean_intensity", "mechanical_index"),
        "medium": ("Medium",),
        "result": ("Results",),
        "sensor": ("Sensor",),
        "smoothing": ("smooth",),
        "source": ("ContinuousWave", "Source", "Transducer"),
        "shapes.material": ("Material",),
        "shapes.media": ("averaged_medium", "layered_medium", "shaped_medium"),
        "heating.dose": ("cem43",),
        "reconstruction.time_reversal": ("Reconstruction", "time_reversal"),
        "heating.heat": ("Heated", "heat"),
        "heating.tissue": ("ThermalMedium", "absorbed_power"),
        "transcranial.ct": ("CT", "BeamFrame", "along_beam", "read_ct", "resample", "write_ct"),
        "transcranial.focus": ("Focus", "focus_of"),
        "transcranial.hounsfield": ("media_from_hounsfield",),
        "transcranial.phantom": ("synthetic_head",),
        "transcranial.plan": ("Plan", "plan_sonication"),
        "transcranial.sonication": ("Sonication",),
        "transducers.beamforming": ("delay_and_sum", "frequency_response", "log_compress", "time_gain"),
        "transducers.arrays": ("annular_array", "join", "linear_array", "spherical_array"),
        "transducers.elements": ("annulus", "bowl", "disc", "line", "rectangle", "surfaces"),
        "pictures.recorded_result": ("read_any_result",),
        "kwave.objects": ("from_kwave", "simulate_kwave"),
        "kwave.run_input": ("run_kwave_file",),
        "check.warnings": ("max_frequency",),
        "gradients.autograd": ("simulate_jax", "simulate_torch"),
        "gradients.gradient": ("Gradient", "Linearization", "linearize", "simulate_and_gradient"),
        "gradients.many_sources": ("simulate_and_gradients",),
        "simulation": ("PreparedSimulation", "prepare", "simulate", "to_problem"),
    },
)
