"""Build neural-network models as layer graphs: `MODELS` by name, `load_model` for names and JSON files.

`layers` has the operators and counting rules; `transformers`, `deepseek`, `inception`, `recommendation` have
the models. Imports no other package of training.
"""

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wavefabric.base.errors import InputError, not_one_of, show
from wavefabric.training.models import deepseek, inception, recommendation, transformers
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.models.graph_file import load_graph


@dataclass(frozen=True)
class ModelFactory:
    """Describes how to build a named model; ``number``: the argument that ``NAME:5`` sets to 5, or empty."""

    make: Callable[..., ModelGraph]
    summary: str
    number: str = ""


#: Models by name.
MODELS = {
    "bert-base": ModelFactory(transformers.bert, "BERT, 12 encoders, 110 M parameters", "tokens"),
    "bert-large": ModelFactory(transformers.bert, "BERT, 24 encoders, 340 M parameters", "tokens"),
    "inception-v3": ModelFactory(inception.inception_v3, "Inception-v3, 23.8 M parameters"),
    "ncf": ModelFactory(recommendation.ncf, "NeuMF on MovieLens-20M, 31.8 M parameters", "factors"),
    "dlrm": ModelFactory(recommendation.dlrm, "DLRM on Criteo Terabyte, 24 G parameters"),
    "dlrm-kaggle": ModelFactory(recommendation.dlrm, "DLRM on Criteo Kaggle, 541 M parameters"),
    "gpt-7b": ModelFactory(transformers.llama2, "Llama 2 7B", "tokens"),
    "gpt-70b": ModelFactory(transformers.llama2, "Llama 2 70B", "tokens"),
    "llama3-8b": ModelFactory(transformers.llama3, "Llama 3 8B", "tokens"),
    "llama3-70b": ModelFactory(transformers.llama3, "Llama 3 70B", "tokens"),
    "llama3-405b": ModelFactory(transformers.llama3, "Llama 3 405B", "tokens"),
    "gpt3-6.7b": ModelFactory(transformers.gpt3, "GPT-3 6.7B", "tokens"),
    "gpt3-175b": ModelFactory(transformers.gpt3, "GPT-3 175B", "tokens"),
    "mixtral-8x7b": ModelFactory(transformers.mixtral, "8 experts, 2 a token, 46.7 G parameters", "tokens"),
    "deepseek-v3": ModelFactory(
        deepseek.deepseek_v3, "256 experts and a shared one, 8 a token, 671 G parameters", "tokens"
    ),
    "switch-base": ModelFactory(
        transformers.switch_base, "128 experts, 1 a token, 7.4 G parameters", "tokens"
    ),
}


def load_model(text: str | Path, **options: Any) -> ModelGraph:
    """Return a model by its name, or from a JSON file (see `wavefabric.training.models.graph_file`).

    A name is one of `MODELS`; some accept a number, such as the tokens per sequence (``"bert-large:512"``).
    ``options`` go to the function that builds the model, such as ``auxiliary=True`` for Inception-v3; files
    accept no options. Raises `InputError` for an unknown name, number or option, and lists those allowed.

    >>> from wavefabric.training.models import load_model
    >>> load_model("bert-large").parameters
    336226108
    >>> load_model("bert-base:512").sample
    'sequence of 512 tokens'
    """
    name, colon, number = str(text).partition(":")
    if isinstance(text, Path) or name.endswith(".json") or "/" in name or os.sep in name:
        if options:
            raise InputError(f"{min(options)}: given for a file; allowed: options of models by name")
        return load_graph(text)
    if name not in MODELS:
        raise InputError(f"model: {not_one_of(str(text), MODELS, 'a JSON file')}")
    factory = MODELS[name]
    if colon and factory.number in options:
        raise InputError(f"{factory.number}: given twice, with {show(str(text))}; allowed: once")
    if colon and not factory.number:
        raise InputError(f"model: {show(f'{name}:{number}')} given; allowed: {name} without a number")
    if colon and not (number.isascii() and number.isdigit() and len(number) < 9):
        allowed = f"{name}:N with N {factory.number}, a whole number"
        raise InputError(f"model: {show(f'{name}:{number}')} given; allowed: {allowed}")
    if colon:
        options[factory.number] = int(number)
    allowed = list(inspect.signature(factory.make).parameters)[1:]
    for key in options:
        if key not in allowed:
            raise InputError(f"{key}: given for {name}; allowed: {', '.join(allowed) or 'no options'}")
    return factory.make(name, **options)
