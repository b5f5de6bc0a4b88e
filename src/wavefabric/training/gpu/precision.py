"""Define the number formats of training: bytes per parameter, gradient, activation and master copy."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Precision:
    """Bytes per element of each kind of data; ``arithmetic``: number format of matrix products."""

    name: str
    arithmetic: str  # "fp32", "tf32" or "bf16"
    parameter: int
    gradient: int
    activation: int
    master: int  # of the fp32 copy of a parameter that the optimizer updates; 0: no copy


PRECISIONS = {
    "fp32": Precision("fp32", "fp32", 4, 4, 4, 0),
    "tf32": Precision("tf32", "tf32", 4, 4, 4, 0),
    "bf16": Precision("bf16", "bf16", 2, 2, 2, 4),
}
