"""A product and a sum rounded once, in kernels: an instruction of its own on CPUs that have it.

Left to the compiler (``fastmath={"contract"}``) it depends on what was inlined where, and so do the last bits
of an answer. Asked for by name it is always the same.
"""

import platform
from typing import Any

from llvmlite import binding
from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic


def _has_instruction() -> bool:
    """Without one each call would go to a library, fifty times as slow."""
    if platform.machine().lower() in ("x86_64", "amd64", "i386", "i686"):
        return bool(binding.get_host_cpu_features().get("fma"))
    return True


#: On other CPUs product and sum are rounded each.
FUSED = _has_instruction()


@intrinsic
def _fma(typing_context, a, b, c):  # pyright: ignore
    """a b + c for three numbers of one type, float32 or float64."""
    if not (isinstance(a, types.Float) and a == b == c):
        raise TypingError(f"fma takes three numbers of one floating type, not {a}, {b}, {c}")

    def generate(context, builder, signature, values):
        if FUSED:
            return builder.fma(*values)
        return builder.fadd(builder.fmul(values[0], values[1]), values[2])

    return a(a, b, c), generate


#: Call from compiled code: ``fma(a, b, c)``.
fma: Any = _fma
