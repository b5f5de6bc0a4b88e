"""`wavefabric train models`: the models that are known by name."""

from typing import Any

from wavefabric.cli.common.options import option, options
from wavefabric.cli.common.show import console, print_json, table
from wavefabric.training.models import MODELS, load_model
from wavefabric.training.models.graph import ModelGraph
from wavefabric.units import amount


@options()
class ModelsOptions:
    """How the list is printed."""

    as_json: bool = option("Print as JSON and nothing else.", "--json", default=False)


def command(options: ModelsOptions) -> None:
    """List the models: parameters, FLOPs, and the batch and optimizer of their published recipes.

    Example: wavefabric train models
    """
    models = {name: load_model(name) for name in MODELS}
    if options.as_json:
        print_json({"models": {name: _facts(name, model) for name, model in models.items()}})
        return
    rows = [
        (
            f"{name}[:{MODELS[name].number}]" if MODELS[name].number else name,
            amount(model.parameters),
            amount(model.flops),
            f"{model.batch}",
            model.optimizer,
            model.sample,
            MODELS[name].summary,
        )
        for name, model in models.items()
    ]
    headings = ("|model", "parameters", "FLOPs", "batch", "|optimizer", "<sample", "<what it is")
    out = console()
    out.print(table(headings, rows))
    out.print("FLOPs: forward, of one sample; batch: samples a GPU, by the recipe; [:n]: another number")


def _facts(name: str, model: ModelGraph) -> dict[str, Any]:
    facts = {"summary": MODELS[name].summary, "number": MODELS[name].number or None}
    keys = ("parameters", "flops", "batch", "optimizer", "sample", "description", "source")
    return facts | {key: getattr(model, key) for key in keys} | {"layers": len(model.layers)}
