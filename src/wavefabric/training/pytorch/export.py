"""Convert models written in PyTorch to layer graphs, by symbolic tracing with the shapes of an example.

Nodes of the graph that ``torch.fx`` traces become layers; modules and functions are recognised by name.
"""

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

from wavefabric.base.errors import InputError, MissingExtra, show
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.models.layers import (
    FROM_OUTPUT,
    FUNCTION_FLOPS,
    NORMALISATION_FLOPS,
    SOFTMAX_FLOPS,
    GraphBuilder,
)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Operations that do not become layers: they move no data, or are never counted (dropout).
_VIEWS = _names(
    "view viewas reshape flatten unflatten permute transpose t swapaxes unsqueeze squeeze expand expandas "
    "contiguous chunk split unbind getitem identity dropout dropout1d dropout2d alphadropout to float half "
    "bfloat16 double type typeas detach narrow select movedim"
)
#: Elementwise functions; functions that are not in `FUNCTION_FLOPS` count one FLOP per element.
_ELEMENTWISE = _names(
    "add sub rsub mul multiply div truediv iadd isub imul itruediv addcmul maximum minimum where maskedfill "
    "neg abs exp log sqrt rsqrt pow square clamp relu relu6 leakyrelu prelu elu selu gelu silu mish "
    "hardswish hardsigmoid hardtanh softplus tanh sigmoid mean sum amax amin max min var std cumsum norm "
    "normalize pad zeropad2d roll interpolate upsample repeat clone indexselect gather tril triu pixelshuffle"
)
_PRODUCTS = _names("mul multiply imul div truediv itruediv")
#: Elementwise functions whose gradient does not depend on their input.
_LINEAR = _names(
    "add sub rsub iadd isub neg mean sum pad zeropad2d clone repeat roll cumsum gather indexselect"
)


@dataclass
class _Operation:
    """A traced node that computes: operation, and shapes of inputs and output for the whole batch."""

    node: Any
    kind: str
    module: Any
    shapes: list[tuple[int, ...]]
    output: tuple[int, ...]
    samples: int
    of_input: bool  # whether the node reads only model inputs, which need no gradient

    @property
    def size(self) -> int:
        return prod(self.output)

    @property
    def weight(self) -> tuple[int, ...]:
        """Return the shape of a module's weight, or of a function's second operand."""
        return self.shapes[1] if self.module is None else tuple(self.module.weight.shape)


#: Arguments of `GraphBuilder.add` except shapes: FLOPs and saved elements for all samples, and whether the
#: backward pass reads the inputs (``keep``).
_Numbers = dict[str, Any]


def _matrix(op: _Operation, operator: str, flops: float, saved: float = 0.0) -> _Numbers:
    back = 1.0 if op.of_input else 2.0
    return {"operator": operator, "flops": flops, "keep": True, "saved": saved, "backward": back}


def _convolution(op: _Operation) -> _Numbers:
    # A transposed convolution applies the kernel to each element of its input, not of its output.
    elements = prod(op.shapes[0]) if "transpose" in op.kind else op.size
    return _matrix(op, "convolution", 2.0 * elements * prod(op.weight[1:]))


def _product(op: _Operation) -> _Numbers:
    if op.kind == "einsum":
        return _matrix(op, "matmul", _einsum_flops(op))
    left = op.shapes[1] if op.kind in ("addmm", "baddbmm") else op.shapes[0]
    return _matrix(op, "matmul", 2.0 * op.size * left[-1])


def _einsum_flops(op: _Operation) -> float:
    terms = str(op.node.args[0]).replace(" ", "").split("->")[0].split(",")
    if any("." in term or len(term) != len(shape) for term, shape in zip(terms, op.shapes, strict=False)):
        actual = show(op.node.args[0])
        raise InputError(f"{op.node.name}: einsum of {actual} given; allowed: a letter for each dimension")
    sizes = {
        letter: n for term, s in zip(terms, op.shapes, strict=True) for letter, n in zip(term, s, strict=True)
    }
    return 2.0 * prod(sizes.values())


def _scaled_attention(op: _Operation) -> _Numbers:
    query, key, value = op.shapes[:3]
    scores = prod(query[:-1]) * key[-2]
    flops = 2.0 * scores * (query[-1] + value[-1]) + SOFTMAX_FLOPS * scores
    return {"operator": "attention", "flops": flops, "keep": True, "keep_output": True, "backward": 2.5}


def _multihead_attention(op: _Operation) -> _Numbers:
    """Count the work of ``torch.nn.MultiheadAttention``, including the four projections."""
    if len(op.shapes) < 3:
        where = f"module: {op.node.target} is called with {len(op.shapes)} tensors"
        raise InputError(f"{where}; allowed: query, key and value")
    query, key, value = op.shapes[:3]
    width, heads = op.module.embed_dim, op.module.num_heads
    others = key[0] if len(key) == 3 and not op.module.batch_first else key[-2]
    scores = prod(query[:-1]) * others
    projected = (prod(key) // key[-1] + prod(value) // value[-1]) * width
    flops = 2.0 * width * (2 * prod(query) + prod(key) + prod(value))
    flops += 4.0 * scores * width + SOFTMAX_FLOPS * scores * heads
    return _matrix(op, "matmul", flops, 2 * prod(query) + projected + scores * heads)


def _embedding(op: _Operation) -> _Numbers:
    used = min(1.0, prod(op.shapes[0]) / op.samples / op.weight[0])
    return {"operator": "embedding", "flops": 0.0, "backward": 1.0, "used": used}


def _pooling(op: _Operation) -> _Numbers:
    maximum = "max" in op.kind
    numbers = {"flops": prod(op.shapes[0]), "keep": maximum, "saved": maximum * op.size, "backward": 1.0}
    return {"operator": "pooling", **numbers}


def _normalisation(op: _Operation) -> _Numbers:
    back = 5 / 3 if "batch" in op.kind else 1.5
    flops = NORMALISATION_FLOPS * op.size
    return {"operator": "normalisation", "flops": flops, "keep": True, "backward": back}


def _softmax(op: _Operation) -> _Numbers:
    if op.kind.startswith("crossentropy"):
        flops = SOFTMAX_FLOPS * prod(op.shapes[0])
        return {"operator": "softmax", "flops": flops, "keep": True, "backward": 2.0}
    return {"operator": "softmax", "flops": SOFTMAX_FLOPS * op.size, "keep_output": True, "backward": 1.5}


def _elementwise(op: _Operation) -> _Numbers:
    if op.kind not in _ELEMENTWISE:
        if op.module is not None and any(True for _ in op.module.parameters()):
            where = f"module: {op.node.target} of the class {type(op.module).__name__} given"
            raise InputError(f"{where}; allowed: modules that are known, or made of those that are")
        warnings.warn(f"{op.node.name}: {op.kind} is not known and taken as elementwise", stacklevel=7)
    after = op.kind in FROM_OUTPUT
    scaled = op.kind in _PRODUCTS and len(op.shapes) < 2
    kept = not (after or scaled or op.kind in _LINEAR)
    flops, back = FUNCTION_FLOPS.get(op.kind, 1) * op.size, 1.5 if kept or after else 1.0
    return {"operator": "elementwise", "flops": flops, "keep": kept, "keep_output": after, "backward": back}


#: Counting rules by operation name; the first match applies, `_elementwise` to the rest.
_RULES: tuple[tuple[str, Callable[[_Operation], _Numbers]], ...] = (
    ("linear", lambda op: _matrix(op, "matmul", 2.0 * op.size * op.shapes[0][-1])),
    (r"conv(transpose)?[123]d", _convolution),
    ("matmul|bmm|mm|addmm|baddbmm|einsum", _product),
    ("scaleddotproductattention", _scaled_attention),
    ("multiheadattention", _multihead_attention),
    ("embedding(bag)?", _embedding),
    (r"((sync)?batch|instance|layer|group|rms)norm([123]d)?", _normalisation),
    ("(log)?softmax|crossentropy(loss)?", _softmax),
    (r"(adaptive)?(avg|max)pool[123]d", _pooling),
    ("cat|concat|concatenate|stack", lambda op: {"operator": "elementwise", "flops": 0.0, "backward": 1.0}),
    (".*", _elementwise),
)


class GraphReader:
    """Converts nodes of a traced module to layers, one per node that computes; does not import PyTorch.

    ``modules``: all submodules of the traced module by path, the module itself as ``""``. ``samples``: number
    of samples in the example from which the shapes come.
    """

    def __init__(self, modules: Mapping[str, Any], samples: int):
        self.modules, self.samples = modules, samples
        self.builder = GraphBuilder(prefixed=False)
        self._layer: dict[Any, str] = {}  # by node: layer whose output the node is, or is a view of
        self._weights: dict[Any, list[Any]] = {}  # by node: parameters that the node is, or is a view of
        self._counted: set[int] = set()
        self._kept: set[Any] = set()  # inputs of the model that the backward pass reads

    def read(self, nodes: Iterable[Any]) -> None:
        """Add the layers of all nodes, in order; skip nodes without a tensor result, which compute shapes."""
        for node in nodes:
            if node.op == "get_attr":
                self._weights[node] = self._attribute(node.target)
            elif node.op not in ("placeholder", "output") and "tensor_meta" in node.meta:
                self._node(node)

    def _attribute(self, path: str) -> list[Any]:
        """Return the trained parameter at ``path`` in a list; an empty list for constants."""
        owner, _, name = path.rpartition(".")
        value = getattr(self.modules[owner], name)
        return [value] if getattr(value, "requires_grad", False) else []

    def _node(self, node: Any) -> None:
        module = self.modules[node.target] if node.op == "call_module" else None
        kind = _kind(node, module)
        sources = _operands([*node.args, *node.kwargs.values()])
        weights = [weight for source in sources for weight in self._weights.get(source, [])]
        if kind in _VIEWS:
            self._weights[node] = weights
            if sources and sources[0] in self._layer:
                self._layer[node] = self._layer[sources[0]]
            return
        of_input = not any(source in self._layer for source in sources)
        shapes = list(map(_shape, sources))
        operation = _Operation(node, kind, module, shapes, _shape(node), self.samples, of_input)
        weights += list(module.parameters()) if module is not None else []
        self._add(operation, sources, weights)

    def _add(self, operation: _Operation, sources: list[Any], weights: list[Any]) -> None:
        numbers = next(rule for form, rule in _RULES if re.fullmatch(form, operation.kind))(operation)
        node, operator, keep = operation.node, numbers.pop("operator"), numbers.get("keep", False)
        tensors = [s for s in dict.fromkeys(sources) if s in self._layer or s.op == "placeholder"]
        layers = list(dict.fromkeys(self._layer[s] for s in tensors if s in self._layer))
        inputs = [s for s in tensors if keep and s.op == "placeholder" and s not in self._kept]
        self._kept.update(inputs)
        read = [] if operator == "embedding" else tensors  # indices are no activations
        elements = (1 + ("batchnorm" in operation.kind)) * operation.size + sum(map(_size, read))
        saved = numbers.get("saved", 0.0) + sum(map(_size, inputs))
        counts = {"flops": numbers["flops"], "elements": elements, "saved": saved}
        numbers |= {key: count / self.samples for key, count in counts.items()}
        numbers |= {"keep": layers if keep else [], "parameters": self._count(weights)}
        self.builder.block = _block(node, self.builder.block)
        output = self._per_sample(operation.output)
        self._layer[node] = self.builder.add(str(node.name), operator, layers, output, **numbers)

    def _per_sample(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        first, *rest = shape or (1,)
        if first == self.samples:
            return tuple(rest) or (1,)
        return (first // self.samples if first % self.samples == 0 else first, *rest)

    def _count(self, weights: list[Any]) -> int:
        """Return the number of elements of the trained ``weights`` that no earlier layer has counted."""
        trained = {id(weight): weight for weight in weights if weight.requires_grad}
        new = {key: weight for key, weight in trained.items() if key not in self._counted}
        self._counted.update(new)
        return sum(int(weight.numel()) for weight in new.values())


def _kind(node: Any, module: Any) -> str:
    """Return the name of a node's operation: module class or function, lower-case, without underscores."""
    target = type(module).__name__ if module is not None else node.target
    name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
    return name.replace("_", "").lower()


def _operands(arguments: Iterable[Any]) -> list[Any]:
    """Return the nodes in ``arguments``, also in nested lists and tuples, in order, with repetitions."""
    result = []
    for argument in arguments:
        if isinstance(argument, tuple | list):
            result += _operands(argument)
        elif hasattr(argument, "all_input_nodes"):
            result.append(argument)
    return result


def _shape(node: Any) -> tuple[int, ...]:
    """Return the shape of a node's tensor, or of its first tensor if there are several."""
    meta: Any = node.meta.get("tensor_meta")
    while meta is not None and not hasattr(meta, "shape"):
        meta = meta[0]
    return tuple(meta.shape) if meta is not None else ()


def _size(node: Any) -> int:
    """Return the number of elements of a node's tensor."""
    return prod(_shape(node))


def _block(node: Any, last: str) -> str:
    """Return the path of a node's module up to the first number (``layers.3``); without a path, ``last``."""
    if node.op != "call_module" and "nn_module_stack" not in node.meta:
        return last
    path = node.target if node.op == "call_module" else next(reversed(node.meta["nn_module_stack"]), "")
    parts = path.split("@")[0].split(".")
    numbers = [position for position, part in enumerate(parts) if part.isdigit()]
    return ".".join(parts[: numbers[0] + 1]) if numbers else ""


def from_torch(
    module: Any,
    example_inputs: Any,
    *,
    name: str = "",
    sample: str = "sample",
    batch: int = 1,
    optimizer: str = "adam",
    source: str = "",
) -> ModelGraph:
    """Return the layer graph of a PyTorch module.

    Layers are counted by the rules of `wavefabric.training.models.layers.GraphBuilder`. Views and dropout do
    not become layers. A parameter used twice is counted at its first use. All layers have ``split`` "none",
    because the module does not define how tensor parallelism divides them: change it in the graph's JSON.
    Blocks are modules with a number in their path, such as ``layers.3``.

    Parameters
    ----------
    module : torch.nn.Module
        Module to convert; not changed. Module and inputs on the device ``meta`` need no memory.
    example_inputs : torch.Tensor or tuple of torch.Tensor
        Arguments for the module. The first dimension of the first tensor is the number of samples, N. A
        tensor whose first dimension is not a multiple of N is common to all samples.
    name, sample, batch, optimizer, source
        As in `ModelGraph`; an empty ``name`` means the name of the module's class.

    Raises
    ------
    MissingExtra
        If PyTorch is not installed.
    InputError
        If the module cannot be traced or run, or a submodule with parameters has an unknown class.

    Warns
    -----
    UserWarning
        If an operation is unknown; it is counted as elementwise.
    """
    try:
        import torch
        from torch import fx
        from torch.fx.passes.shape_prop import ShapeProp
    except ImportError:
        raise MissingExtra("a model from PyTorch", "torch") from None
    inputs = example_inputs if isinstance(example_inputs, tuple) else (example_inputs,)
    if not inputs or not isinstance(inputs[0], torch.Tensor) or inputs[0].dim() < 1 or not len(inputs[0]):
        raise InputError("example_inputs: no batch of samples first; allowed: a tensor, or a tuple of them")
    with _evaluation(module):
        try:
            traced = fx.symbolic_trace(module)
        except Exception as error:  # the module's own code runs, which may raise anything
            fault = f"module: cannot be traced ({_first_line(error)})"
            raise InputError(f"{fault}; allowed: no control flow on inputs") from None
        try:
            with torch.no_grad():
                ShapeProp(traced).propagate(*inputs)
        except Exception as error:  # the module's own code again
            fault = f"example_inputs: the module fails ({_first_line(error)})"
            raise InputError(f"{fault}; allowed: inputs it takes") from None
    reader = GraphReader(dict(traced.named_modules()), len(inputs[0]))
    reader.read(traced.graph.nodes)
    return ModelGraph(
        name or type(module).__name__,
        tuple(reader.builder.layers),
        sample=sample,
        batch=batch,
        optimizer=optimizer,
        description=f"{type(module).__name__} of PyTorch",
        source=source,
    )


@contextmanager
def _evaluation(module: Any) -> Iterator[None]:
    """Put the module in evaluation mode within a ``with`` block, so that running statistics stay the same."""
    training = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, was in training.items():
            part.training = was


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
