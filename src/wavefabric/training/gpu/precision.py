"""Bytes of parameters, gradients, activations and optimizer states."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Precision:
    """Bytes of one element of each kind; ``arithmetic`` names the peak of a device that matrices run at."""

    name: str
    arithmetic: str  # "fp32", "tf32" or "bf16"
    parameter: int
    gradient: int
    activation: int
    master: int  # B a parameter, of the copy in fp32 that the optimizer changes; 0: it changes the parameter


PRECISIONS = {
    "fp32": Precision("fp32", "fp32", 4, 4, 4, 0),
    "tf32": Precision("tf32", "tf32", 4, 4, 4, 0),
    "bf16": Precision("bf16", "bf16", 2, 2, 2, 4),
}
