"""The cases that k-wave-python and Wavefabric both solve. NumPy only; attributes by k-wave-python's names."""

from __future__ import annotations

import numpy as np


def noise(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Numbers from 0 to 1 without pattern, the same in every version of NumPy."""
    index = np.arange(np.prod(shape), dtype=np.uint64) + np.uint64(seed * 7919 + 1)
    for multiplier in (2654435761, 2246822519, 3266489917):
        index = (index * np.uint64(multiplier)) % np.uint64(2**32)
        index ^= index >> np.uint64(15)
    return (index.astype(np.float64) / 2**32).reshape(shape)


def blob(shape: tuple[int, ...], centre: tuple[float, ...], width: float) -> np.ndarray:
    """A Gaussian, 1 at its centre; lengths in points."""
    axes = np.ogrid[tuple(slice(n) for n in shape)]
    return np.exp(-sum((x - c) ** 2 for x, c in zip(axes, centre, strict=True)) / width**2)


def mask(shape: tuple[int, ...], part: float, seed: int, margin: int) -> np.ndarray:
    """Scattered points, none within a margin of the edges."""
    points = noise(shape, seed) < part
    inside = np.zeros(shape, bool)
    inside[tuple(slice(margin, n - margin) for n in shape)] = True
    return points & inside


def tones(rows: int, steps: int, seed: int, amplitude: float) -> np.ndarray:
    """Signals (rows, steps), each with its own frequency and phase, rising from 0."""
    t = np.arange(steps)
    frequency, phase = 0.15 + 0.35 * noise((rows, 1), seed), 6 * noise((rows, 1), seed + 1)
    return amplitude * np.sin(frequency * t + phase) * np.minimum(t / 6, 1)


def layers(shape: tuple[int, ...], low: float, high: float, seed: int) -> np.ndarray:
    """A medium with a step, a smooth change and a little roughness."""
    field = low + (high - low) * blob(shape, tuple(0.4 * n for n in shape), 0.3 * shape[0])
    field[shape[0] // 2 :] += 0.3 * (high - low)
    return field * (1 + 0.01 * (noise(shape, seed) - 0.5))


def cases() -> dict[str, dict]:
    """Name to grid, time, medium, source, sensor and options."""
    odd, flat, even = (31, 27, 25), (45, 37), (24, 22, 20)
    out: dict[str, dict] = {}

    out["p0_absorbing_nonlinear_3d"] = {
        "grid": (odd, (1e-4, 1.1e-4, 1.2e-4)),
        "time": (40, 1.6e-8),
        "medium": {
            "sound_speed": layers(odd, 1450.0, 1800.0, 1),
            "density": layers(odd, 950.0, 1300.0, 2),
            "alpha_coeff": layers(odd, 0.3, 2.0, 3),
            "alpha_power": 1.5,
            "BonA": layers(odd, 5.0, 9.0, 4),
        },
        "source": {"p0": 4e6 * (blob(odd, (15, 12, 13), 3.0) > 0.4)},
        "sensor": {
            "mask": mask(odd, 0.005, 5, 4),
            "record": ["p", "u", "u_staggered", "p_max", "p_min", "p_rms"],
        },
        "options": {"pml_size": (6, 5, 4), "pml_inside": True},
    }
    out["p0_cartesian_pml_outside_2d"] = {
        "grid": (flat, (1e-4, 0.8e-4)),
        "time": (90, 1.5e-8),
        "medium": {
            "sound_speed": layers(flat, 1480.0, 1700.0, 6),
            "density": layers(flat, 1000.0, 1200.0, 7),
        },
        "source": {"p0": 1e5 * (blob(flat, (20, 15), 4.0) > 0.5)},
        "sensor": {
            "mask": np.stack([4.4e-3 * noise((30,), 8) - 2.2e-3, 2.8e-3 * noise((30,), 9) - 1.44e-3]),
            "record": ["p", "p_final", "ux_staggered"],
        },
        "options": {"pml_size": (10, 13), "pml_inside": False},
    }
    points = mask(flat, 0.02, 10, 9)
    out["p_additive_stokes_2d"] = {
        "grid": (flat, (1e-4, 1e-4)),
        "time": (80, 1.5e-8),
        "medium": {
            "sound_speed": layers(flat, 1480.0, 1700.0, 11),
            "density": 1020.0,
            "alpha_coeff": 0.8,
            "alpha_power": 2.0,
            "alpha_mode": "stokes",
        },
        "source": {"p_mask": points, "p": tones(points.sum(), 50, 12, 1e5)},
        "sensor": {"mask": mask(flat, 0.02, 13, 2), "record": ["p", "u"]},
        "options": {"pml_size": 8, "pml_inside": True},
    }
    points = mask(flat, 0.02, 14, 9)
    out["p_dirichlet_no_dispersion_2d"] = {
        "grid": (flat, (1e-4, 1.3e-4)),
        "time": (80, 1.5e-8),
        "medium": {
            "sound_speed": 1500.0,
            "density": layers(flat, 1000.0, 1500.0, 15),
            "alpha_coeff": layers(flat, 0.5, 3.0, 16),
            "alpha_power": 1.3,
            "alpha_mode": "no_dispersion",
        },
        "source": {"p_mask": points, "p": tones(points.sum(), 60, 17, 2e5), "p_mode": "dirichlet"},
        "sensor": {"mask": mask(flat, 0.02, 18, 2), "record": ["p", "u"], "record_start_index": 21},
        "options": {"pml_size": 8, "pml_inside": True, "pml_alpha": (1.5, 2.5)},
    }
    points = mask(even, 0.01, 19, 6)
    many = int(points.sum())
    out["u_additive_many_3d"] = {
        "grid": (even, (1e-4, 1.2e-4, 0.9e-4)),
        "time": (50, 1.4e-8),
        "medium": {
            "sound_speed": layers(even, 1500.0, 1900.0, 20),
            "density": layers(even, 1000.0, 1900.0, 21),
            "alpha_coeff": 0.75,
            "alpha_power": 0.8,
        },
        "source": {
            "u_mask": points,
            "ux": tones(many, 40, 22, 0.1),
            "uy": tones(many, 40, 24, 0.2),
            "uz": tones(many, 40, 26, 0.3),
        },
        "sensor": {"mask": mask(even, 0.006, 28, 3), "record": ["p", "u", "u_max", "u_min", "u_rms"]},
        "options": {"pml_size": 5, "pml_inside": True},
    }
    points = mask(flat, 0.015, 29, 8)
    out["u_dirichlet_2d"] = {
        "grid": (flat, (1e-4, 1e-4)),
        "time": (70, 1.5e-8),
        "medium": {
            "sound_speed": layers(flat, 1450.0, 1650.0, 30),
            "density": layers(flat, 1000.0, 1100.0, 31),
            "alpha_coeff": 0.5,
            "alpha_power": 2.4,
        },
        "source": {
            "u_mask": points,
            "ux": tones(points.sum(), 45, 32, 0.1),
            "uy": tones(points.sum(), 45, 34, 0.1),
            "u_mode": "dirichlet",
        },
        "sensor": {"mask": mask(flat, 0.02, 36, 2), "record": ["p", "p_final", "u_final", "uy"]},
        "options": {"pml_size": 8, "pml_inside": False},
    }
    # The sound has left at the end: k-wave-python's intensity takes time to be periodic.
    t = np.arange(40)
    burst = 5e6 * np.sin(0.3 * t) * np.sin(np.pi * t / 40) ** 2
    slab = np.zeros(even, bool)
    slab[7, 6:-6, 6:-6] = True
    out["p_no_correction_nonlinear_3d"] = {
        "grid": (even, (1e-4, 1e-4, 1e-4)),
        "time": (150, 1.4e-8),
        "medium": {"sound_speed": 1540.0, "density": 1000.0, "BonA": 6.0},
        "source": {"p_mask": slab, "p": burst[None], "p_mode": "additive-no-correction"},
        "sensor": {"mask": mask(even, 0.003, 39, 3), "record": ["p", "I", "I_avg"]},
        "options": {"pml_size": 5, "pml_inside": True},
    }
    return out
