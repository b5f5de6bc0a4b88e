"""A made-up MDM result in the layout that a run writes."""

import numpy as np
import pytest

from wavefabric.base.results import Data, ResultWriter


def mdm_payload(groups: int = 5, channels: int = 5, spans: int = 2, seed: int = 0) -> dict:
    """Payload with plausible numbers: the fundamental mode suffers most, back to back is 15.9 dB."""
    rng = np.random.default_rng(seed)
    number = np.repeat(np.arange(1, groups + 1), np.arange(1, groups + 1))
    labels = []
    for g in range(1, groups + 1):
        for l in range((g - 1) % 2, g, 2):  # noqa: E741
            labels += [f"LP{l}{(g - l + 1) // 2}{mark}" for mark in ("ab" if l else ("",))]
    modes = len(number)
    noise = rng.normal(0, 0.04, (modes, channels))
    received = {}
    for k in range(spans + 1):
        q = 15.9 + noise + rng.normal(0, 0.012, (modes, channels)) * k - 0.065 * k / number[:, None] ** 0.7
        spread = np.sqrt(0.5 / 10 ** (q.mean(axis=1) / 10))
        points = (rng.choice([-1, 1], (modes, 600)) + 1j * rng.choice([-1, 1], (modes, 600))) / np.sqrt(2)
        blur = rng.normal(size=(modes, 600)) + 1j * rng.normal(size=(modes, 600))
        points = points + spread[:, None] * blur
        received["back_to_back" if k == 0 else f"span_{k}"] = {
            "attrs": {"distance_m": 80e3 * k},
            "q_squared_db": Data(q, "dB", "Q² per mode and channel"),
            "evm": Data(10 ** (-q / 20), "", "error vector magnitude"),
            "constellation": Data(points, "", "received symbols of the centre channel, x polarisation"),
        }
    return {
        "fibre": {
            "labels": Data(labels, "", "LP modes"),
            "groups": Data(number, "", "mode group of each mode"),
        },
        "received": received,
        "solver": {"attrs": {"integrator": "rk4ip", "steps": 160, "wall_time_s": 12.5}},
    }


@pytest.fixture
def payload():
    return mdm_payload()


@pytest.fixture
def result_file(tmp_path, payload):
    return ResultWriter(tmp_path / "out.h5").write(payload, run_file='title = "x"\n')
