"""Models written in PyTorch as layer graphs, by symbolic tracing with the shapes of an example."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wavefabric.errors import InputError, MissingExtra
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.pytorch.nodes import GraphReader


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
    """The layer graph of a PyTorch module.

    Layers are counted by the rules of `wavefabric.training.models.layers.GraphBuilder`. Views and dropout are
    no layers. A parameter used twice is counted at its first use. All layers have ``split`` "none", since how
    tensor parallelism divides them cannot be told from the module: change it in the graph's JSON. Blocks are
    modules with a number in their path, such as ``layers.3``.

    Parameters
    ----------
    module : torch.nn.Module
        Not changed. One on the device ``meta`` takes no memory; it then needs inputs that are there too.
    example_inputs : torch.Tensor or tuple of torch.Tensor
        As the module takes them. The first dimension of the first is the number of samples, N; a tensor whose
        first dimension no multiple of N is belongs to all samples.
    name, sample, batch, optimizer, source
        As in `ModelGraph`; ``name`` is the module's class if empty.

    Raises
    ------
    MissingExtra
        Without PyTorch.
    InputError
        For a module that cannot be traced or run, or one in it that has parameters and is not known, by name.

    Warns
    -----
    UserWarning
        For an operation that is not known, by name: it is taken as elementwise.
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
        except Exception as error:  # its own code again, with inputs
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
    """The module as for evaluation, so that running statistics stay as they are."""
    training = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, was in training.items():
            part.training = was


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
