"""How long kernels wait for those of other ranks.

Such kernels must all be resident at once, or one waits for what cannot begin: ranks that share a GPU cannot
have them, and a kernel must not have more blocks than its GPU holds.
"""

from typing import Any, ClassVar

import cupy
import numpy as np

from wavefabric.errors import LateRank

#: Seconds that a kernel waits for another rank, which may work on its host for long meanwhile.
TIMEOUT = 600.0


class Timeout:
    """How long kernels wait for other ranks, and whether one did not come.

    ``name`` is what the ranks do together, for messages; ``multiprocessors`` has each rank's GPU at least.
    """

    #: Memory of the host that GPUs write. A kernel may still read it: those that follow get it, not CuPy.
    _free: ClassVar[list[Any]] = []

    def __init__(self, name: str, multiprocessors: int = 1):
        if self._free:
            cupy.cuda.runtime.deviceSynchronize()
        self._memory = self._free.pop() if self._free else cupy.cuda.alloc_pinned_memory(4)
        self._late = np.frombuffer(self._memory, np.uint32, 1)  # 1 + the rank that did not come
        self._late[0] = 0
        self._name, self.multiprocessors = name, multiprocessors
        #: Whether kernels send and wait at all; not where the cost of everything else is measured.
        self.waits = True
        #: Of a kernel: where it says who did not come (see ``signals.cu``), and nanoseconds.
        self.arguments = np.uint64(self._memory.ptr), np.uint64(round(TIMEOUT * 1e9))

    def __del__(self):
        self._free.append(self._memory)

    def check(self) -> None:
        """Raise `LateRank` if a rank did not come in time, as far as is known by now."""
        if late := int(self._late[0]):
            raise LateRank(f"{self._name}: rank {late - 1} did not come to the exchange in time")
