"""Read device models by name or from TOML files, and write them to TOML files."""

import os
from functools import partial
from pathlib import Path
from types import GenericAlias
from typing import Annotated

from pydantic import BeforeValidator, Field

from wavefabric.base.errors import InputError, not_one_of
from wavefabric.base.files.input import parse_toml, parsed
from wavefabric.base.files.output import write_text
from wavefabric.base.files.validation_errors import checked
from wavefabric.fabric.io.tables import Seconds, converted, fields_of, make_table
from wavefabric.fabric.io.writing import entries
from wavefabric.training.gpu.device_model import (
    ARITHMETIC,
    DEVICES,
    EFFICIENCY,
    EIGHT_BIT,
    DeviceModel,
    MeasuredTime,
)
from wavefabric.training.models.graph import OPERATORS

#: Largest number of measured times in a file, to reject absurd input.
MOST_ROWS = 10**5

_RATE = BeforeValidator(partial(converted, unit="FLOP/s", least=1.0, most=1e24))
Rate = Annotated[float, "FLOP/s", _RATE]
Fraction = Annotated[float, Field(strict=True, gt=0, le=1)]
Fractions = tuple[Fraction, Fraction]

#: Peak FLOP/s of a device for each number format.
PeakTable = make_table(
    "PeakTable", **dict.fromkeys(ARITHMETIC, (Rate, ...)), **dict.fromkeys(EIGHT_BIT, (Rate | None, None))
)
#: Measured time of one operator.
MeasuredTable = make_table("MeasuredTable", **fields_of(MeasuredTime, "seconds"), time=(Seconds, ...))
#: Fractions of peak and bandwidth per class of operators; classes left out have those of `EFFICIENCY`.
EfficiencyTable = make_table(
    "EfficiencyTable", **dict.fromkeys((*OPERATORS, *EIGHT_BIT), (Fractions | None, None))
)
#: A device in TOML; see `wavefabric.training.gpu.device_model.DeviceModel`.
DeviceTable = make_table(
    "DeviceTable",
    **fields_of(DeviceModel, "peak", "efficiency", "measured"),
    peak=(PeakTable, ...),
    efficiency=(EfficiencyTable, EfficiencyTable()),
    measured=(Annotated[GenericAlias(list, MeasuredTable), Field(max_length=MOST_ROWS)], []),
)


def load_device(text: str | Path) -> DeviceModel:
    """Return a device model by its name, or from a TOML file.

    Parameters
    ----------
    text : str or Path
        A name of `wavefabric.training.gpu.device_model.DEVICES`, or the path of a TOML file, in which
        quantities are text with a unit::

            name = "mine"
            memory = "80 GB"
            bandwidth = "2039 GB/s"
            launch = "5 us"
            half_flops = 1.7e9               # optional
            overlap_slowdown = 1.2           # optional: computation while the GPU communicates
            source = "where that is from"    # optional
            [peak]
            fp32 = "19.5 TFLOP/s"
            tf32 = "156 TFLOP/s"
            bf16 = "312 TFLOP/s"
            fp8 = "1979 TFLOP/s"             # optional, as mxfp8
            [efficiency]                     # optional, each: fractions of peak, bandwidth
            matmul = [0.75, 0.8]
            fp8 = [0.61, 0.8]                # of products in fp8; else those of matmul
            [[measured]]                     # optional, any number of these
            operator = "matmul"
            arithmetic = "bf16"
            flops = 8.6e9
            bytes = 1.3e7
            time = "52 us"

    Raises
    ------
    InputError
        With one line: the key, the value given, the values allowed.

    Examples
    --------
    >>> load_device("a100").peak["bf16"]
    312000000000000.0
    """
    name = str(text)
    if not isinstance(text, Path) and name in DEVICES:
        return DEVICES[name]
    path = Path(text)
    if not (isinstance(text, Path) or name.endswith(".toml") or os.sep in name or (name and path.exists())):
        raise InputError(f"device: {not_one_of(name, DEVICES, 'a TOML file')}")
    return parsed(path, "device", device_from_toml)


def device_from_toml(text: str) -> DeviceModel:
    """Return the device model that TOML text describes, in the format of `load_device`."""
    read = checked(DeviceTable, parse_toml(text, "device"))
    values = read.model_dump(exclude={"efficiency", "measured", "peak"})
    values["peak"] = read.peak.model_dump(exclude_none=True)
    rows = (MeasuredTime(r.operator, r.arithmetic, r.flops, r.bytes, r.time) for r in read.measured)
    efficiency = EFFICIENCY | read.efficiency.model_dump(exclude_none=True)
    return DeviceModel(**values, efficiency=efficiency, measured=tuple(rows))


def device_to_toml(device: DeviceModel) -> str:
    """Return a device model as TOML text; `device_from_toml` converts it back to an equal model."""
    keys = ("name", "source", "memory", "bandwidth", "launch", "half_flops", "overlap_slowdown")
    lines = entries(DeviceTable, {key: getattr(device, key) for key in keys})
    lines += ["", "[peak]", *entries(PeakTable, dict(device.peak)), "", "[efficiency]"]
    lines += [f"{name} = [{float(a)!r}, {float(b)!r}]" for name, (a, b) in device.efficiency.items()]
    for row in device.measured:
        values = vars(row) | {"time": row.seconds}
        lines += ["", "[[measured]]"]
        lines += entries(MeasuredTable, {key: values[key] for key in MeasuredTable.model_fields})
    return "\n".join(lines) + "\n"


def save_device(path: str | Path, device: DeviceModel, force: bool = False) -> Path:
    """Write a device model to a TOML file atomically; ``force`` replaces an existing file.

    Raises `InputError` if the file exists (without ``force``), is a folder, or cannot be written.
    """
    return write_text(path, device_to_toml(device), "device", force)
