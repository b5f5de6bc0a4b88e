"""Define the number formats of training: bytes per parameter, gradient, activation and master copy.

With ``fp8`` and ``mxfp8``, matrix products except those of the logits have operands of 8 bits, as in
Transformer Engine and torchtitan; attention, norms, embeddings, gradients and activations between layers stay
in bf16, and master copies in fp32. ``fp8``: one scale a tensor, from its current maximum. ``mxfp8``: one
scale of a byte for each 32 values (OCP Microscaling Formats, version 1.0).
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Precision:
    """Bytes per element of each kind of data; ``arithmetic``: number format of matrix products.

    The last three are of products with operands of 8 bits, else 0. ``operand``: bytes of an element with its
    scale. ``cast``: bytes read and written to quantise an element. ``gathered``: bytes of a parameter in
    all-gathers; FP8 parameters travel as such (float8 all-gather of torchtitan, ``--fp8-param-gather`` of
    Megatron-LM), MXFP8 ones in bf16, since their scales differ by rows and by columns (Megatron-LM).
    """

    name: str
    arithmetic: str  # one of `device_model.ARITHMETIC` or `EIGHT_BIT`
    parameter: float
    gradient: float
    activation: float
    master: float  # of the fp32 copy of a parameter that the optimizer updates; 0: no copy
    operand: float = 0.0
    cast: float = 0.0
    gathered: float = 0.0


_SCALED = 1 + 1 / 32
PRECISIONS = {
    "fp32": Precision("fp32", "fp32", 4, 4, 4, 0),
    "tf32": Precision("tf32", "tf32", 4, 4, 4, 0),
    "bf16": Precision("bf16", "bf16", 2, 2, 2, 4),
    # Stored are the quantised values and their transpose. FP8 reads an element once more, for the maximum.
    "fp8": Precision("fp8", "fp8", 2, 2, 2, 4, 1.0, 2 + 2 + 2, 1.0),
    "mxfp8": Precision("mxfp8", "mxfp8", 2 * _SCALED, 2, 2, 4, _SCALED, 2 + 2 * _SCALED, 2.0),
}
