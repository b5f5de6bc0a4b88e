"""Build the layers of a model, with FLOPs and elements counted by one set of rules (`GraphBuilder`)."""

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from wavefabric.training.models.graph import Layer

#: An input of a layer: the name of another layer, or the shape of an input of the model.
Source = str | tuple[int, ...]

#: FLOPs per element of elementwise functions, as Clark et al. count them for BERT and ELECTRA
#: (arXiv:2003.10555, flops_computation.py of the code); other functions by their arithmetic operations.
FUNCTION_FLOPS = {"gelu": 8, "silu": 5, "tanh": 8, "sigmoid": 4, "relu": 1, "add": 1, "multiply": 1}
SOFTMAX_FLOPS = NORMALISATION_FLOPS = 5
#: Functions whose backward pass reads the output; the backward pass of all others reads the input.
FROM_OUTPUT = frozenset({"relu", "sigmoid", "tanh"})


class GraphBuilder:
    """Builds a model graph; a method adds a layer and returns its name (in a block: ``"BLOCK NAME"``).

    The counting rules, per sample:

    - *FLOPs*: a multiplication and an addition are two; biases do not count; functions as `FUNCTION_FLOPS`.
    - *Elements*: each input is read once and the output written once, unless the operator needs more.
      Parameters do not count. Batch normalisation reads its input twice; attention that is not fused also
      writes and reads scores and probabilities.
    - *Saved*: a tensor that the backward pass reads is counted once, at the first layer that needs it. These
      are inputs of matrix products, convolutions, normalisations and GELU; outputs of ReLU, tanh and sigmoid;
      probabilities of softmax. Dropout is left out. A transformer block with s tokens, width h and a heads
      thus has 16 s h + a s² elements (arXiv:2205.05198, table 2, without dropout masks).
    - *Ratio of backward to forward*: 2 if the gradients of inputs and of parameters are one product each (1
      if the input is the model's input); 2.5 for fused attention, which recomputes its scores
      (FlashAttention, arXiv:2205.14135). For other operators, the ratio of the elements: 3 to 2 for a
      function that reads a saved tensor and a gradient and writes a gradient.
    - *Tensor parallelism*: as in Megatron-LM (arXiv:1909.08053), by the `split` of each layer.

    Attributes
    ----------
    block : str
        Block of the next layers.
    prefixed : bool
        Whether layer names begin with their block.
    """

    def __init__(self, prefixed: bool = True):
        self.prefixed = prefixed
        self.layers: list[Layer] = []
        self.block = ""
        self._outputs: dict[str, tuple[int, ...]] = {}
        self._kept: set[str] = set()

    def shape(self, source: Source) -> tuple[int, ...]:
        """Return the shape of a layer's output, or of an input of the model."""
        return self._outputs[source] if isinstance(source, str) else source

    def add(
        self,
        name: str,
        operator: str,
        sources: Sequence[Source],
        output: tuple[int, ...],
        *,
        keep: Iterable[Source] = (),
        keep_output: bool = False,
        saved: float = 0.0,
        **numbers: Any,
    ) -> str:
        """Add a layer that reads ``sources``, and return its name; ``numbers``: other fields of `Layer`.

        ``keep``: the sources that the backward pass reads, so that they are saved. ``keep_output``: whether
        it also reads the layer's output. ``saved``: number of elements saved besides these.
        """
        name = f"{self.block} {name}" if self.block and self.prefixed else name
        sizes = [prod(self.shape(source)) for source in sources]
        saved += sum(self._keep(source, prod(self.shape(source))) for source in keep)
        saved += self._keep(name, prod(output)) if keep_output else 0.0
        numbers.setdefault("elements", float(sum(sizes) + prod(output)))
        numbers.setdefault("parameters", sum(numbers.get("tensors", ())))
        inputs = tuple(dict.fromkeys(source for source in sources if isinstance(source, str)))
        self.layers.append(Layer(name, operator, inputs, output, saved=saved, block=self.block, **numbers))
        self._outputs[name] = output
        return name

    def _keep(self, source: Source, size: int) -> float:
        """Return the elements that storing ``source`` adds: ``size``, or 0 if an earlier layer stores it."""
        if isinstance(source, str):
            if source in self._kept:
                return 0.0
            self._kept.add(source)
        return float(size)

    def _alike(self, name: str, operator: str, sources: Sequence[Source], flops: int, **numbers: Any) -> str:
        """Add a layer whose output has the shape of its first source; ``flops`` is per element."""
        shape = self.shape(sources[0])
        return self.add(name, operator, sources, shape, flops=float(flops * prod(shape)), **numbers)

    def _weighted(
        self, name: str, operator: str, source: Source, output: tuple[int, ...], **numbers: Any
    ) -> str:
        """Add a product of ``source`` with weights; ``source`` is saved for the backward pass."""
        back = 2.0 if isinstance(source, str) else 1.0
        return self.add(name, operator, [source], output, keep=[source], backward=back, **numbers)

    def linear(
        self,
        name: str,
        source: Source,
        features: int,
        *,
        bias: bool = True,
        split: str = "none",
        tied: bool = False,
    ) -> str:
        """Add a linear layer on the last axis; ``tied``: the matrix is counted in another layer."""
        shape = self.shape(source)
        tensors = tuple(size for size in (0 if tied else shape[-1] * features, bias * features) if size)
        flops, output = 2.0 * prod(shape) * features, (*shape[:-1], features)
        return self._weighted(name, "matmul", source, output, flops=flops, tensors=tensors, split=split)

    def convolution(
        self,
        name: str,
        source: Source,
        channels: int,
        kernel: tuple[int, int] = (1, 1),
        *,
        stride: int = 1,
        padding: tuple[int, int] = (0, 0),
    ) -> str:
        """Add a convolution of (channels, height, width); tensor parallelism divides the output channels."""
        output = (channels, *self._window(source, kernel, stride, padding))
        weights = self.shape(source)[0] * channels * prod(kernel)
        numbers = {"flops": 2.0 * weights * prod(output[1:]), "tensors": (weights,), "split": "column"}
        return self._weighted(name, "convolution", source, output, **numbers)

    def pooling(
        self,
        name: str,
        source: Source,
        kernel: tuple[int, int],
        *,
        stride: int = 1,
        padding: tuple[int, int] = (0, 0),
        maximum: bool = False,
    ) -> str:
        """Add a mean or maximum over windows; with ``maximum``, input and positions of maxima are saved."""
        output = (self.shape(source)[0], *self._window(source, kernel, stride, padding))
        flops, split = float(prod(output) * prod(kernel)), "local"
        kept: dict[str, Any] = {"keep": [source], "saved": float(prod(output))} if maximum else {}
        return self.add(name, "pooling", [source], output, flops=flops, split=split, backward=1.0, **kept)

    def _window(self, source: Source, kernel, stride: int, padding) -> tuple[int, ...]:
        """Return the output height and width of a sliding window of size ``kernel``."""
        sides = zip(self.shape(source)[1:], kernel, padding, strict=True)
        return tuple((side + 2 * edge - window) // stride + 1 for side, window, edge in sides)

    def normalisation(self, name: str, source: Source, *, scales: int = 2, split: str = "none") -> str:
        """Add a norm over the last axis; ``scales`` 2: layer norm (scale, shift), 1: RMS norm (scale)."""
        tensors = (self.shape(source)[-1],) * scales
        return self._alike(
            name, "normalisation", [source], NORMALISATION_FLOPS,
            tensors=tensors, keep=[source], split=split, backward=1.5,
        )  # fmt: skip

    def batch_normalisation(self, name: str, source: Source) -> str:
        """Add a batch normalisation of the channels, including its statistics; GPUs exchange nothing."""
        shape = self.shape(source)
        return self._alike(
            name, "normalisation", [source], NORMALISATION_FLOPS,
            tensors=(shape[0],) * 2, elements=3.0 * prod(shape), keep=[source], split="local", backward=5 / 3,
        )  # fmt: skip

    def function(self, name: str, source: Source, kind: str, *, split: str = "none") -> str:
        """Add the elementwise function ``kind``, a key of `FUNCTION_FLOPS`."""
        after = kind in FROM_OUTPUT
        return self._alike(
            name, "elementwise", [source], FUNCTION_FLOPS[kind],
            keep=[] if after else [source], keep_output=after, split=split, backward=1.5,
        )  # fmt: skip

    def sum(self, name: str, sources: Sequence[Source], *, split: str = "none") -> str:
        """Add a sum of tensors of one shape; the backward pass sums the gradients of a tensor that forks."""
        return self._alike(name, "elementwise", sources, len(sources) - 1, split=split, backward=1.0)

    def product(self, name: str, sources: Sequence[Source], *, split: str = "none") -> str:
        """Add an elementwise product of two tensors of one shape; both are saved."""
        return self._alike(name, "elementwise", sources, 1, keep=sources, split=split, backward=5 / 3)

    def concatenation(
        self, name: str, sources: Sequence[Source], axis: int = -1, *, split: str = "none"
    ) -> str:
        """Add a concatenation of tensors along ``axis``, counted as a copy."""
        output = list(self.shape(sources[0]))
        output[axis] = sum(self.shape(source)[axis] for source in sources)
        return self.add(name, "elementwise", sources, tuple(output), split=split, backward=1.0)

    def attention(
        self, name: str, query: Source, key: Source, value: Source, heads: int, *, fused: bool = False
    ) -> str:
        """Add softmax(query · key) · value per head; tensors have the shape (tokens, heads × width).

        Groups of query heads share keys and values if these have fewer heads (arXiv:2305.13245). All scores
        count, even if a causal mask hides half of them, as in Megatron-LM and PaLM (arXiv:2204.02311,
        appendix B).
        """
        (tokens, width), (others, narrow) = self.shape(query), self.shape(key)
        scores = float(heads * tokens * others)
        traffic = 2 * tokens * width + 2 * others * narrow + (0.0 if fused else 4 * scores)
        return self.add(
            name,
            "attention",
            [query, key, value],
            (tokens, width),
            flops=4.0 * tokens * others * width + SOFTMAX_FLOPS * scores,
            keep=[query, key, value],
            keep_output=fused,
            saved=0.0 if fused else scores,
            again=None if fused else scores,
            keys_values=2.0 * others * narrow,
            elements=float(traffic),
            split="local",
            backward=2.5 if fused else 2.0,
        )

    def embedding(
        self, name: str, tokens: Source, rows: int, features: int, *, split: str = "row", trained: bool = True
    ) -> str:
        """Add a look-up of one table row per token; ``split``: ``row`` divides rows, ``column`` features."""
        output = (*self.shape(tokens), features)
        return self.add(
            name,
            "embedding",
            [tokens],
            output,
            parameters=rows * features if trained else 0,
            elements=float(prod(output)),
            split=split,
            backward=1.0,
            used=min(1.0, prod(self.shape(tokens)) / rows),
        )

    def loss(self, name: str, source: Source, *, split: str = "none") -> str:
        """Add softmax with cross-entropy over the last axis; the backward pass writes all gradients."""
        shape = self.shape(source)
        flops, output = float(SOFTMAX_FLOPS * prod(shape)), (*shape[:-1], 1)
        return self.add(
            name, "softmax", [source], output, flops=flops, keep=[source], split=split, backward=2.0
        )

    def stack(
        self, name: str, source: Source, widths: Sequence[int], last: str = "relu", first: str = "column"
    ) -> str:
        """Add linear layers of ``widths`` features, the last followed by function ``last``, others by ReLU.

        Tensor parallelism splits by ``column`` and ``row`` alternately, beginning with ``first``; the last
        layer, if its turn is ``column``, is not split.
        """
        split = first
        for number, width in enumerate(widths, 1):
            ends = number == len(widths)
            split = "none" if ends and split == "column" else split
            source = self.linear(f"{name} {number}", source, width, split=split)
            kind, after = last if ends else "relu", "local" if split == "column" else "none"
            source = self.function(f"{name} {number} {kind}", source, kind, split=after)
            split = "row" if split == "column" else "column"
        assert isinstance(source, str)
        return source
