"""Write quantities of a result for other programs: CSV, NetCDF, MATLAB, VTK (ParaView), NIfTI."""

import csv
import gzip
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.base.errors import MissingExtra, ensure, not_one_of
from wavefabric.base.files.output import check_output, replacing
from wavefabric.base.results.file import Data, Result, ResultWriter, real_parts

#: Rows of a CSV file that are formatted at once; bytes that an array in MATLAB's format 5 must stay below.
_ROWS, _MOST_MATLAB = 1 << 16, 1 << 31


def export(
    result: Result, path: str | Path, quantities: Sequence[str] = (), force: bool = False
) -> list[str]:
    """Write quantities of a result to a file, whole or not at all, in the format of its ending (`FORMATS`).

    ``quantities`` are keys or parts of keys, by default all that fit the format. Return the keys that were
    written. `InputError`: unknown ending or quantity, a quantity that does not fit, or a file that exists
    (without ``force``).
    """
    path = Path(path)
    ending = next((each for each in FORMATS if path.name.lower().endswith(each)), None)
    ensure(ending, "--output", f"{path} given", f"a name that ends in {', '.join(FORMATS)}")
    check_output(path, force, "--output", inputs=[result.path])
    choose, write = FORMATS[str(ending)]
    keys = choose(result, selected(result, quantities))
    with replacing(path, "--output") as partial:
        write(result, keys, partial)
    return keys


def selected(result: Result, quantities: Iterable[str]) -> list[str]:
    """Return the keys that have one of ``quantities`` as a part; `InputError` for one that no key has."""
    keys: dict[str, None] = {}
    for name in quantities:
        matches = [key for key in result if f"/{name}/" in f"/{key}/"]
        ensure(matches, "--quantity", *not_one_of(name, result.quantities()).split("; allowed: ", 1))
        keys |= dict.fromkeys(matches)
    return list(keys)


def spacing_of(result: Result, key: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the first point and the spacing of a field along x, y(, z), m; None for other quantities."""
    names = [result.coordinate(key, dim) for dim in result.dims(key)]
    if not (0 < len(names) < 4) or any(at is None or result.attrs(at).get("units") != "m" for at in names):
        return None
    if [at.rpartition("/")[2][0] for at in names if at] != list("xyz")[: len(names)]:
        return None
    along = [np.asarray(result[at]) for at in names if at]
    steps = [float(each[1] - each[0]) if each.size > 1 else 0.0 for each in along]
    return np.array([each[0] for each in along]), np.array([step or max(steps) for step in steps])


def _everything(result: Result, keys: list[str]) -> list[str]:
    return keys or [key for key in result if key not in _coordinates(result, result)]


def _coordinates(result: Result, keys: Iterable[str]) -> dict[str, None]:
    """Return the keys of all coordinates along the dimensions of ``keys``."""
    names = (result.coordinate(key, dim) for key in keys for dim in result.dims(key))
    return dict.fromkeys(name for name in names if name)


def fields(result: Result, keys: Sequence[str] = (), dimensions: Sequence[int] = (1, 2, 3)) -> list[str]:
    """Return fields over the same points, from ``keys`` or by default from all; `InputError` without any."""
    fit = [key for key in result.quantities() if len(result.shape(key)) in dimensions]
    fit = [key for key in fit if spacing_of(result, key) is not None]
    over = "x, y, z" if dimensions == (3,) else "x, y(, z)"
    ensure(fit, "--output", f"{result.path} holds no field over {over}", ".csv, .nc, .mat")
    for key in keys:
        ensure(
            key in fit, "--quantity", f"{key} ({', '.join(result.dims(key))})", f"fields: {', '.join(fit)}"
        )
    return result.alike(keys, fit)


def _volume(result: Result, keys: list[str]) -> list[str]:
    keys = fields(result, keys, (3,))
    ensure(len(keys) == 1, "--quantity", f"{len(keys)} fields for one file", f"one of {', '.join(keys)}")
    return keys


def _write_csv(result: Result, keys: list[str], path: Path) -> None:
    def heading(name: str) -> str:
        key = next((each for each in keys if name in (each, f"{each}_real", f"{each}_imag")), None)
        key = key or result.coordinate(keys[0], name)
        unit = result.attrs(key).get("units") if key else ""
        return f"{name} ({unit})" if unit else name

    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        for number, table in enumerate(result.tables(keys, _ROWS)):
            if not number:
                writer.writerow(map(heading, table))
            writer.writerows(zip(*(column.tolist() for column in table.values()), strict=True))


def _write_netcdf(result: Result, keys: list[str], path: Path) -> None:
    """Write an HDF5 file that netCDF-4 reads: complex numbers as two variables, bool as bytes."""
    data = dict[str, Any]()
    for key in [*_coordinates(result, keys), *keys]:
        value, about = result[key], result.attrs(key)
        value = value.astype(np.int8) if np.asarray(value).dtype.kind == "b" else value
        texts = str(about.get("units", "")), str(about.get("description", key))
        data |= {name: Data(part, *texts, result.dims(key)) for name, part in real_parts(key, value).items()}
    content = _nested(data)
    groups = {"": content}
    for key in keys:
        *parents, _ = key.split("/")
        for depth in range(1, len(parents) + 1):
            name = "/".join(parents[:depth])
            groups[name] = groups[name.rpartition("/")[0]][parents[depth - 1]]
            groups[name]["attrs"] = result.attrs(name)
    ResultWriter(path, force=True).write(content, attributes=result.attrs())


def _write_matlab(result: Result, keys: list[str], path: Path) -> None:
    """Write MATLAB's format 5: groups as structures, of which ``units`` and ``dimensions`` have the same."""
    from scipy.io import savemat

    keys = [*_coordinates(result, keys), *keys]
    names = {key: "/".join(map(_plain_name, key.split("/"))) for key in keys}
    values = dict[str, Any]()
    for key, name in names.items():
        value = result[key]
        values[name] = np.array(value, object) if isinstance(value, list) else value
        fault = f"{key} takes {np.asarray(value).nbytes / 2**30:.3g} GiB"
        ensure(np.asarray(value).nbytes < _MOST_MATLAB, "--quantity", fault, "below 2 GiB in .mat, or .nc")
    texts = {
        "units": {name: str(result.attrs(key).get("units", "")) for key, name in names.items()},
        "dimensions": {name: " ".join(result.dims(key)) for key, name in names.items()},
    }
    content = _nested(values) | {kind: _nested(each) for kind, each in texts.items()}
    savemat(path, content, appendmat=False, long_field_names=True, oned_as="column")


def _plain_name(name: str) -> str:
    name = re.sub(r"\W", "_", name, flags=re.ASCII)[:60]
    return name if name[:1].isalpha() else f"x{name}"


def _nested(items: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested dictionaries of items whose keys are paths."""
    result: dict[str, Any] = {}
    for key, value in items.items():
        *groups, name = key.split("/")
        inside = result
        for group in groups:
            inside = inside.setdefault(group, {})
        inside[name] = value
    return result


def _write_vtk(result: Result, keys: list[str], path: Path) -> None:
    """Write the legacy format of VTK, big-endian, as an image in mm (VTK file formats, version 3.0)."""
    first, step = (np.append(each * 1e3, [0, 0])[:3] for each in spacing_of(result, keys[0]) or ())
    shape, step = (*result.shape(keys[0]), 1, 1)[:3], np.where(step > 0, step, step.max())
    with path.open("wb") as file:

        def put(text: str) -> None:
            file.write(text.encode())

        put("# vtk DataFile Version 3.0\nwavefabric, lengths in mm\nBINARY\nDATASET STRUCTURED_POINTS\n")
        put("DIMENSIONS {} {} {}\n".format(*shape) + "ORIGIN {:.9g} {:.9g} {:.9g}\n".format(*first))
        put("SPACING {:.9g} {:.9g} {:.9g}\n".format(*step) + f"POINT_DATA {np.prod(shape)}\n")
        for key in keys:
            values = np.asarray(result[key])
            kind = "double" if values.dtype == np.float64 else "float"
            put(f"SCALARS {_plain_name(key)} {kind} 1\nLOOKUP_TABLE default\n")
            file.write(values.astype(">f8" if kind == "double" else ">f4").tobytes(order="F"))
            put("\n")


def _write_nifti(result: Result, keys: list[str], path: Path, compressed: bool = False) -> None:
    """Write a volume in mm, in world coordinates if the result has the position of its grid in the world."""
    try:
        import nibabel
    except ImportError:
        raise MissingExtra("NIfTI", "nifti") from None
    first, step = spacing_of(result, keys[0]) or (np.zeros(3), np.ones(3))
    directions, origin = np.asarray(result.get("grid/axes", np.eye(3))), result.get("grid/origin", 0.0)
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = directions.T * step * 1e3, (origin + first @ directions) * 1e3
    values = np.asarray(result[keys[0]])
    image = nibabel.Nifti1Image(values.astype(np.uint8) if values.dtype.kind == "b" else values, affine)
    image.header.set_xyzt_units("mm")
    content = image.to_bytes()
    path.write_bytes(gzip.compress(content) if compressed else content)


def _write_packed_nifti(result: Result, keys: list[str], path: Path) -> None:
    _write_nifti(result, keys, path, compressed=True)


_Choice = Callable[[Result, list[str]], list[str]]
#: For each ending of a file the function that chooses quantities and the one that writes them.
FORMATS: dict[str, tuple[_Choice, Callable[[Result, list[str], Path], None]]] = {
    ".csv": (Result.alike, _write_csv),
    ".nc": (_everything, _write_netcdf),
    ".mat": (_everything, _write_matlab),
    ".vtk": (fields, _write_vtk),
    ".nii": (_volume, _write_nifti),
    ".nii.gz": (_volume, _write_packed_nifti),
}
