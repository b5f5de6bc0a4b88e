"""Implement `wavefabric train models` and `measure`: list models, and time their operators on this device."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wavefabric.base.units import amount, binary_bytes, time_words
from wavefabric.cli.common.options import Json, OutputOptions, argument, option, options
from wavefabric.cli.common.show import conclude, rate_text, status_line, table
from wavefabric.runtime.device import get_device
from wavefabric.training.gpu.device_file import save_device
from wavefabric.training.gpu.device_model import DeviceModel
from wavefabric.training.gpu.operator_times import measure
from wavefabric.training.models import MODELS, load_model
from wavefabric.training.models.graph import ModelGraph


@options()
class MeasuredOptions(OutputOptions):
    """Options of the model and device to measure, and of the device file."""

    model: str = argument("Name, such as bert-large (`wavefabric train models`), or a file.", "MODEL")
    device_file: Path | None = option(
        "Device (TOML), which --device of `wavefabric train` reads.", endings=(".toml",)
    )
    samples: int | None = option(
        "Of a microbatch on one GPU. [default: the model's recipe]",
        limits=(1, 10**9),
    )
    precision: str = option("{wavefabric.training.gpu.precision:PRECISIONS}.", default="tf32")
    device: str = option("auto, cpu, cuda or cuda:N.", default="auto")
    repeats: int = option("Samples of each time, whose median counts.", default=5, limits=(1, 1000))
    name: str = option("Of the device.", default="measured")


def measure_model(options: MeasuredOptions) -> None:
    """Time each operator of a model on this machine's GPU or CPU, and write a device.

    Example: wavefabric train measure bert-large --device-file mine.toml
    """
    graph = load_model(options.model)
    samples = graph.batch if options.samples is None else options.samples
    device = get_device(options.device)
    with status_line(options.as_json) as say:
        result = measure(
            graph, samples, options.precision, device, repeats=options.repeats, name=options.name, say=say
        )
    written = []
    if options.device_file is not None:
        written.append(save_device(options.device_file, result, options.force))
    keys = ("name", "source", "peak", "bandwidth", "memory", "launch")
    facts = {key: getattr(result, key) for key in keys} | {"measured": [vars(row) for row in result.measured]}
    conclude(options.as_json, facts, written, _show(result))


def _show(device: DeviceModel) -> Iterator[Any]:
    rows = [
        (
            row.operator,
            row.arithmetic,
            amount(row.flops),
            binary_bytes(row.bytes, 3),
            time_words(row.seconds),
            f"{amount(row.flops / row.seconds)}FLOP/s" if row.flops else "-",
            rate_text(row.bytes / row.seconds),
        )
        for row in sorted(device.measured, key=lambda row: -row.seconds)
    ]
    headings = ("|operator", "|arithmetic", "FLOPs", "bytes", "time", "arithmetic", "memory")
    yield table(headings, rows, device.source)
    peaks = ", ".join(f"{key} {amount(value)}FLOP/s" for key, value in device.peak.items())
    copies = f"large copies: {rate_text(device.bandwidth)}"
    yield f"large products: {peaks}; {copies}; launch: {time_words(device.launch)}"


def list_models(as_json: Json = False) -> None:
    """List the models: parameters, FLOPs, and the batch and optimizer of their published recipes.

    Example: wavefabric train models
    """
    models = {name: load_model(name) for name in MODELS}
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
    line = "FLOPs: forward, of one sample; batch: samples per GPU, by the recipe; [:n]: another number"
    facts = {name: _facts(name, model) for name, model in models.items()}
    conclude(as_json, {"models": facts}, shown=[table(headings, rows), line])


def _facts(name: str, model: ModelGraph) -> dict[str, Any]:
    facts = {"summary": MODELS[name].summary, "number": MODELS[name].number or None}
    keys = ("parameters", "flops", "batch", "optimizer", "sample", "description", "source")
    return facts | {key: getattr(model, key) for key in keys} | {"layers": len(model.layers)}
