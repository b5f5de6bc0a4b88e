"""Memory that ranks need together: which of them share a device."""

from types import SimpleNamespace

import pytest

from wavefabric.base.errors import InputError
from wavefabric.runtime.lifecycle import collective_checks

GIB = 1 << 30


@pytest.mark.parametrize(
    ("visible", "identity", "host", "shared"),
    [
        ("0", "0000:1b:00.0", "here", True),
        ("1,0", "0000:1b:00.0", "here", True),  # the same GPU, under another number
        ("0", "0000:43:00.0", "here", False),  # each task sees its own GPU, and calls it cuda:0
        ("0", "0000:1b:00.0", "elsewhere", False),
    ],
)
def test_ranks_share_a_gpu_by_its_address(monkeypatch, visible, identity, host, shared):
    def of(identity):
        return SimpleNamespace(name="cuda:0", identity=identity, memory=lambda: (3 * GIB, 4 * GIB))

    def told(name, environment, device):
        monkeypatch.setattr(collective_checks.platform, "node", lambda: name)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", environment)
        return collective_checks.device_identity(device)

    other = told(host, visible, of(identity))
    told("here", "0", own := of("0000:1b:00.0"))
    control = SimpleNamespace(all_gather=lambda mine: [mine, (other, *mine[1:])])
    comm = SimpleNamespace(size=2, control=control)
    if shared:
        with pytest.raises(InputError, match=r"needs 4\.00 GiB on cuda:0 for 2 ranks, where 3\.00 of"):
            collective_checks.check_memory(comm, own, 2 * GIB, "run", "less")
    else:
        collective_checks.check_memory(comm, own, 2 * GIB, "run", "less")
