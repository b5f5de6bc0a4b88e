"""Count what matrix products with operands of 8 bits add: casts, and smaller messages and activations."""

from collections.abc import Sequence
from dataclasses import dataclass

from wavefabric.training.gpu.precision import Precision
from wavefabric.training.gpu.work import parameters_held
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.strategies.strategy import Strategy


@dataclass(frozen=True)
class Quantisation:
    """Counts casts and bytes of a model's layers in a precision; without operands of 8 bits none are cast.

    An operand is cast before it is sent to other GPUs, and once, also if several layers read it: a layer's
    input before its forward pass, the gradient of its output before the backward pass. Experts cast the
    tokens that reach them; casts between their products are fused with the activation function and not
    counted. Parameters are cast once an iteration, after the update, but those that ZeRO stage 3 gathers in
    16 bits after each gather.
    """

    model: ModelGraph
    strategy: Strategy
    precision: Precision

    @property
    def operands(self) -> tuple[float | None, ...]:
        """Return `ModelGraph.operands`, or None for every layer if the precision has none of 8 bits."""
        return self.model.operands if self.precision.operand else (None,) * len(self.model.layers)

    def arithmetic(self, number: int) -> str:
        """Return the number format of the products of a layer."""
        eight = self.operands[number] is not None or not self.precision.operand
        return self.precision.arithmetic if eight else "bf16"

    def cast(self, number: int, backward: bool) -> float:
        """Return the bytes that a GPU reads and writes to cast operands for one pass over a microbatch."""
        operands, layer, tensor = self.operands[number], self.model.layers[number], self._tensor(number)
        if operands is None:
            return 0.0
        elements = layer.copies * layer.features if backward else operands
        divided = ("column", "local") if backward else ("row", "local")
        parts = tensor if layer.split in divided or (self.strategy.sequence and layer.split != "none") else 1
        again = self.strategy.sharded and not (backward and self.strategy.recompute)  # gathered for this pass
        whole = again and self.precision.gathered > self.precision.operand
        parameters = self._parameters(number) if whole else 0.0
        return (elements * self.strategy.samples(number) / parts + parameters) * self.precision.cast

    def cast_parameters(self, numbers: Sequence[int], updated: float) -> float:
        """Return the bytes that a GPU reads and writes to cast parameters to 8 bits after an update.

        ``updated``: how many of these parameters the GPU updates; it casts only these if they are gathered in
        8 bits. If they are gathered in 16 bits, each GPU casts all that it holds: here, or, where parameters
        are sharded, in each pass (`cast`); then the result is 0.
        """
        own = sum(self._parameters(number) for number in numbers)
        cast = sum(self._parameters(number) for number in numbers if self.operands[number] is not None)
        if self.precision.gathered > self.precision.operand:
            return 0.0 if self.strategy.sharded else cast * self.precision.cast
        return cast * self.precision.cast * updated / own if own else 0.0

    def gathered(self, number: int) -> float:
        """Return the bytes that a GPU holds after an all-gather of the parameters of a layer."""
        eight = self.operands[number] is not None
        return self._parameters(number) * (self.precision.gathered if eight else self.precision.activation)

    def ratio(self, numbers: Sequence[int]) -> float:
        """Return the ratio of bytes of operands to those of activations, if all ``numbers`` have 8 bits."""
        eight = all(self.operands[number] is not None for number in numbers)
        return self.precision.operand / self.precision.activation if eight else 1.0

    def _tensor(self, number: int) -> int:
        return self.model.layers[number].divided(self.strategy.layouts[number].tensor)

    def _parameters(self, number: int) -> float:
        layout = self.strategy.layouts[number]
        return parameters_held(self.model.layers[number], layout.tensor, layout.expert)
