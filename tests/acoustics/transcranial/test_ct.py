"""CTs: files there and back, and resampling onto grids along a beam."""

import sys

import numpy as np
import pytest

from wavefabric.acoustics import Grid, Medium, along_beam, read_ct, resample, synthetic_head, write_ct
from wavefabric.acoustics.transcranial import ct as module
from wavefabric.acoustics.transcranial.ct import CT, BeamFrame
from wavefabric.base.errors import InputError, MissingExtra

SKEW = along_beam((0.03, -0.02, 0.05), ("-4 mm", "5 mm", "2 mm"), at=-0.01)
WORLD = BeamFrame(np.zeros(3), np.eye(3))


def oblique(values):
    """A CT whose voxels are neither cubes nor along the world's axes."""
    turn = along_beam((0, 0, 0), (1, 0.3, 0.2)).axes.T
    affine = np.eye(4)
    affine[:3, :3] = turn * (0.8, 0.9, 1.3)
    affine[:3, 3] = affine[:3, :3] @ (-np.array(values.shape) / 2)
    return CT(values, affine)


# --- Frames ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [(0, 0, 0.1), (0.01, 0.02, -0.03), (-1, 0, 0), (1, 1, 1)])
def test_x_is_the_beam_axis(target):
    start = np.array([0.01, 0.02, 0.04])
    frame = along_beam(start, start + target, at="-30 mm")
    distance = np.linalg.norm(target)
    np.testing.assert_allclose(frame.to_world((-0.03, 0, 0)), start, atol=1e-15)
    np.testing.assert_allclose(frame.to_world((distance - 0.03, 0, 0)), start + target, atol=1e-15)
    np.testing.assert_allclose(frame.axes @ frame.axes.T, np.eye(3), atol=1e-15)
    assert np.linalg.det(frame.axes) == pytest.approx(1)  # no mirror image


def test_a_beam_needs_two_points():
    with pytest.raises(InputError, match="target: gives no direction"):
        along_beam((0, 0, 1), (0, 0, 1))


# --- Resampling --------------------------------------------------------------------------------------


def test_on_its_own_points_a_ct_stays_as_it_is():
    values = np.random.default_rng(1).uniform(-1000, 2000, (9, 8, 7)).astype(np.float32)
    grid = Grid(values.shape, 5e-4, pml_size=0)
    result = resample(CT.of(values, 5e-4), grid, WORLD)
    assert result.flags.f_contiguous
    np.testing.assert_allclose(result, values, atol=1e-3)


@pytest.mark.parametrize("spacing", [0.4e-3, (2.1e-3, 1.2e-3, 3e-3)])
def test_linear_fields_are_exact(spacing, monkeypatch):
    """Interpolation and means over cells leave a linear field as it is, wherever the grid lies."""
    monkeypatch.setattr(module, "_SLAB", 100)  # several slabs, the last one thinner
    gradient = np.array([30.0, -20.0, 10.0])  # HU/mm
    index = np.stack(np.indices((40, 40, 40)), axis=-1)
    ct = oblique(np.zeros((40, 40, 40), np.float32))
    world = index @ ct.affine[:3, :3].T + ct.affine[:3, 3]
    ct = CT((world @ gradient).astype(np.float32), ct.affine)
    grid = Grid((6, 7, 5), spacing, pml_size=0)
    frame = along_beam((0.002, 0.001, -0.001), (0.02, 0.03, 0.01))
    points = np.stack(np.meshgrid(*grid.coordinates, indexing="ij"), axis=-1)
    expected = frame.to_world(points) * 1e3 @ gradient
    np.testing.assert_allclose(resample(ct, grid, frame), expected, atol=0.01)


def test_coarse_points_are_means_of_their_cells():
    values = np.random.default_rng(2).uniform(-1000, 2000, (8, 12, 6)).astype(np.float32)
    ct = CT.of(values, 1e-3)
    grid = Grid((4, 3, 3), (2e-3, 4e-3, 2e-3), pml_size=0)
    # Grid point 0 lies amid the first voxels of its cell.
    first = ct.affine[:3, 3] * 1e-3 + (0.5e-3, 1.5e-3, 0.5e-3)
    frame = BeamFrame(first + np.array(grid.spacing) * grid.origin, np.eye(3))
    means = values.reshape(4, 2, 3, 4, 3, 2).mean(axis=(1, 3, 5))
    np.testing.assert_allclose(resample(ct, grid, frame), means, rtol=1e-5, atol=1e-2)


def test_bone_is_neither_made_nor_lost_when_it_is_turned():
    head = synthetic_head(5e-4, semi_axes=(0.016, 0.019, 0.017), thickness=(2e-3, 1e-3, 1.5e-3, 1e-3))
    grid = Grid((52, 52, 52), 0.9e-3, pml_size=0)
    frame = along_beam((0, 0, 0), (0.01, 0.02, 0.015))
    before, after = (
        float(np.sum(hounsfield + 1000, dtype=float)) * step**3
        for hounsfield, step in ((head.values, 5e-4), (resample(head, grid, frame), 0.9e-3))
    )
    assert after == pytest.approx(before, rel=1e-3)


@pytest.mark.parametrize("dtype", [np.int16, np.uint8, np.float16, ">f4", np.float64])
def test_values_of_any_type(dtype):
    values = np.random.default_rng(4).integers(0, 255, (5, 6, 7)).astype(dtype)
    grid = Grid((4, 5, 3), 1e-3, pml_size=0)
    frame = along_beam((0, 0, 0), (1, 0.2, 0.1))
    expected = resample(CT.of(values.astype(float), 1e-3), grid, frame)
    np.testing.assert_array_equal(resample(CT.of(values, 1e-3), grid, frame), expected)


def test_a_plane_and_what_lies_outside():
    ct = CT.of(np.full((5, 5, 5), 7.0, np.float32), 1e-3)
    flat = resample(ct, Grid((4, 9), 1e-3, pml_size=0), WORLD, outside=-500.0)
    assert flat.shape == (4, 9)
    np.testing.assert_allclose(flat[:, 2:7], 7, atol=1e-4)
    np.testing.assert_array_equal(flat[:, [0, 8]], -500)
    with pytest.raises(InputError, match=r"grid\.axisymmetric"):
        resample(ct, Grid((4, 9), 1e-3, pml_size=0, axisymmetric=True), WORLD)


def test_a_medium_of_it_needs_no_copy():
    head = synthetic_head(2e-3, semi_axes=(0.016, 0.019, 0.017), thickness=(2e-3, 1e-3, 1.5e-3, 1e-3))
    grid = Grid((12, 11, 10), 2e-3, pml_size=0)
    values = resample(head, grid, SKEW)
    assert np.shares_memory(grid.to_memory(Medium(values, 1.0).sound_speed, "c"), values)


# --- Files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["head.nii", "head.nii.gz"])
def test_nifti_there_and_back(tmp_path, name):
    nibabel = pytest.importorskip("nibabel")
    ct = oblique(np.random.default_rng(3).integers(-1024, 3000, (5, 6, 7)).astype(np.float32))
    path = write_ct(ct, tmp_path / name)
    back = read_ct(path)
    np.testing.assert_array_equal(back.values, ct.values)
    assert back.values.dtype == np.float32
    np.testing.assert_allclose(back.affine, ct.affine, atol=1e-6)
    np.testing.assert_allclose(back.spacing, (0.8e-3, 0.9e-3, 1.3e-3), rtol=1e-6)
    assert nibabel.load(path).get_data_dtype() == np.int16
    with pytest.raises(InputError, match="exists"):
        write_ct(ct, path)


def test_scaled_volumes_in_metres_with_a_fourth_axis(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    image = nibabel.Nifti1Image(np.arange(24, dtype=np.int16).reshape(2, 3, 4, 1), np.diag([1e-3] * 3 + [1]))
    image.header.set_slope_inter(2.0, -1024.0)
    image.header.set_xyzt_units("meter")
    nibabel.save(image, tmp_path / "ct.nii")
    ct = read_ct(tmp_path / "ct.nii")
    np.testing.assert_allclose(ct.values.ravel(), image.header["scl_slope"] * np.arange(24) - 1024)
    np.testing.assert_allclose(ct.spacing, (1e-3,) * 3)


def test_without_nibabel_the_error_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "nibabel", None)
    for call in (
        lambda: read_ct("a.nii.gz"),
        lambda: write_ct(oblique(np.zeros((2, 2, 2))), tmp_path / "a.nii"),
    ):
        with pytest.raises(MissingExtra, match=r"^NIfTI needs an optional package: .*\[nifti\]"):
            call()


def test_numpy_files(tmp_path):
    values = np.arange(60, dtype=np.int16).reshape(3, 4, 5)
    np.save(tmp_path / "ct.npy", values)
    ct = read_ct(tmp_path / "ct.npy", ("1 mm", 1e-3, 0.002))
    np.testing.assert_array_equal(ct.values, values)
    np.testing.assert_allclose(ct.spacing, (1e-3, 1e-3, 2e-3))
    np.testing.assert_allclose(ct.affine @ (1, 2, 2, 1), (0, 0, 0, 1))  # point N // 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: read_ct(p / "none.npy", 1e-3), "none.npy cannot be read .No such file"),
        (lambda p: read_ct(p / "text.npy", 1e-3), "text.npy cannot be read"),
        (lambda p: read_ct(p / "flat.npy", 1e-3), "spacing: .*three"),
        (lambda p: read_ct(p / "flat.npy"), "spacing: null; allowed: for .npy"),
        (lambda p: read_ct(p / "a.nii", 1e-3), "spacing: 0.001; allowed: for .npy"),
        (lambda p: CT(np.zeros((2, 2, 2)), np.zeros((4, 4))), "ct.affine"),
        (lambda p: CT(np.zeros((2, 2)), np.eye(4)), r"ct.values.shape: \[2, 2\]; allowed: three axes"),
        (lambda p: CT(np.zeros((2, 2, 2), bool), np.eye(4)), "ct.values: is of type bool"),
    ],
)
def test_what_is_refused(call, message, tmp_path):
    (tmp_path / "text.npy").write_text("no array")
    np.save(tmp_path / "flat.npy", np.zeros((3, 3)))
    with pytest.raises(InputError, match=message):
        call(tmp_path)


def test_damaged_nifti(tmp_path):
    pytest.importorskip("nibabel")
    (tmp_path / "a.nii.gz").write_bytes(b"\x1f\x8b nothing")
    with pytest.raises(InputError, match=r"a\.nii\.gz cannot be read"):
        read_ct(tmp_path / "a.nii.gz")


# --- Where and what ----------------------------------------------------------------------------------


def head_values():
    """Air, soft tissue, and bone at one side alone, that of small x."""
    values = np.full((12, 10, 8), -1000, np.int16)
    values[2:10, 2:8, 2:6] = 40
    values[2:4, 2:8, 2:6] = 1500
    return values


def save_nifti(path, values, affine=None, codes=(0, 0), units="mm", pixdim=None, qform=None):
    """A file whose header says just this, which nibabel would mend."""
    nibabel = pytest.importorskip("nibabel")
    affine = np.diag([2.0, 3.0, 4.0, 1.0]) if affine is None else affine
    header = nibabel.Nifti1Header()
    header.set_data_dtype(values.dtype)
    header.set_data_shape(values.shape)
    header.set_xyzt_units(units)
    header.set_qform(affine if qform is None else qform, codes[1])
    header["srow_x"], header["srow_y"], header["srow_z"] = affine[:3]
    header["sform_code"], header["qform_code"] = codes
    header["vox_offset"], header["magic"] = 352, b"n+1"
    if pixdim is not None:
        header["pixdim"][1:4] = pixdim
    path.write_bytes(header.binaryblock + bytes(4) + values.tobytes(order="F"))
    return path


@pytest.mark.parametrize(
    ("orientation", "axis", "bone"),
    [
        ("RAS", 0, -7),
        ("LAS", 0, 7),
        ("las", 0, 7),
        ("LPS", 0, 7),
        ("RPI", 0, -7),
        ("PRS", 1, 7),
        ("SAR", 2, -7),
    ],
)
def test_a_stated_orientation_says_where_bone_is(tmp_path, orientation, axis, bone):
    """The middle of bone is 2.5 voxels of 2 mm from the start of x, the world's origin 12 // 2."""
    ct = read_ct(save_nifti(tmp_path / "ct.nii", head_values()), orientation=orientation)
    index = np.argwhere(ct.values > 1000).mean(axis=0)
    assert (ct.affine @ [*index, 1])[axis] == pytest.approx(bone)
    np.testing.assert_allclose(ct.spacing, (2e-3, 3e-3, 4e-3))


def test_an_orientation_for_arrays(tmp_path):
    np.save(tmp_path / "ct.npy", head_values())
    one, other = (read_ct(tmp_path / "ct.npy", 1e-3, o) for o in (None, "LPS"))
    np.testing.assert_array_equal(other.affine, np.diag([-1, -1, 1, 1]) @ one.affine)
    np.testing.assert_array_equal(CT.of(head_values(), 1e-3).affine, one.affine)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (
            {},
            {},
            r"ct: .*says no orientation \(sform_code and qform_code are 0\): left and right.*such as RAS",
        ),
        ({}, {"orientation": "RAR"}, "orientation: .*RAR.*; allowed: three letters, R or L, A or P, S or I"),
        ({}, {"orientation": 3}, "orientation: 3; allowed: three letters"),
        ({"codes": (1, 0)}, {"orientation": "RAS"}, r"orientation: .*RAS.*; allowed: none: .* says its own"),
        ({"pixdim": (0, 0, 0)}, {"orientation": "RAS"}, r"says no voxel size; allowed: pixdim and units"),
        ({"pixdim": (1, 1, 1), "units": "unknown"}, {"orientation": "RAS"}, "says no voxel size"),
        ({"pixdim": (np.nan, 1, 1)}, {"orientation": "RAS"}, "says no voxel size"),
        (
            {"codes": (1, 1), "units": "meter"},
            {},
            r"ct\.spacing: .2\.0, 3\.0, 4\.0.; allowed: 2e-05 to 0\.02 m",
        ),
        ({"codes": (1, 1), "units": "micron"}, {}, r"ct\.spacing: .2e-06, "),
        ({"codes": (1, 0), "qform": np.eye(4), "affine": np.diag([2.0, 3.0, 0.0, 1.0])}, {}, r"ct\.affine"),
        ({"codes": (1, 0), "qform": np.eye(4), "affine": np.full((4, 4), np.nan)}, {}, r"ct\.affine"),
        (
            {
                "codes": (1, 0),
                "affine": np.array([[2, 1.9, 0, 0], [0, 0.5, 0, 0], [0, 0, 4, 0], [0, 0, 0, 1]]),
            },
            {},
            r"ct\.affine: .*sheared.*; allowed: axes at 30°",
        ),
        ({"codes": (1, 1), "values": head_values() / 1000}, {}, r"from -1 to 1\.5.*may be in 1000 HU"),
        (
            {"codes": (1, 1), "values": head_values() + 1024},
            {},
            r"from 24 to 2524.*may be MRI, or HU \+ 1024",
        ),
        ({"codes": (1, 1), "values": np.where(head_values() < 0, np.nan, 40.0)}, {}, r"not finite somewhere"),
        ({"codes": (1, 1), "values": np.zeros((3, 3, 3, 2))}, {}, r"ct\.values\.shape: \[3, 3, 3, 2\]"),
    ],
)
def test_files_that_do_not_say_where_or_what_they_are(tmp_path, change, options, message):
    change = {"values": head_values().astype(np.float32), **change}
    change["values"] = np.asarray(change["values"], np.float32)
    path = save_nifti(tmp_path / "ct.nii", **change)
    with pytest.raises(InputError, match=message):
        read_ct(path, **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"qform": np.diag([-2.0, 3.0, 4.0, 1.0]), "codes": (1, 1)}, "qform and sform differ by up to 44 mm"),
        ({"pixdim": (1, 3, 4), "codes": (1, 0)}, r"voxels of 1 x 3 x 4 mm by pixdim, of 2 x 3 x 4 mm"),
        ({"affine": np.eye(4), "codes": (1, 1), "units": "unknown"}, "units are unknown.*mm are taken"),
    ],
)
def test_contradictions_are_warned_of(tmp_path, change, message):
    path = save_nifti(tmp_path / "ct.nii", head_values(), **change)
    with pytest.warns(UserWarning, match=message):
        read_ct(path)


@pytest.mark.parametrize(
    ("values", "lines"),
    [
        (head_values(), []),
        (np.minimum(head_values(), 200), ["no bone: the highest value is 200 HU"]),
        (np.maximum(head_values(), 0), ["no air: the lowest value is 0 HU"]),
        (np.arange(0, 255).reshape(3, 5, 17), ["no air", "no bone: the highest value is 254 HU"]),
        (np.minimum(head_values(), 1000), ["clipped: many values are 1000 HU"]),
    ],
)
def test_what_a_head_lacks_is_said(values, lines):
    said = module.content_warnings(values)
    assert len(said) == len(lines)
    assert all(line in text for line, text in zip(lines, said, strict=True))


@pytest.mark.parametrize(
    ("values", "spacing", "message"),
    [
        (head_values() / 1000, 1e-3, "may be in 1000 HU"),
        (np.where(head_values() < 0, np.inf, 40.0), 1e-3, "not finite"),
        (head_values() + 1024, 1e-3, r"HU \+ 1024"),
        (head_values(), "1 m", r"ct\.spacing"),
        (head_values() > 0, 1e-3, r"ct\.values: is of type bool"),
    ],
)
def test_arrays_that_are_no_hounsfield_units(tmp_path, values, spacing, message):
    np.save(tmp_path / "ct.npy", values)
    with pytest.raises(InputError, match=message):
        read_ct(tmp_path / "ct.npy", spacing)


@pytest.mark.parametrize("path", [None, 3, b"ct.nii", ["ct.nii"]])
def test_a_path_is_a_path(path):
    with pytest.raises(InputError, match=r"ct: .*; allowed: \.nii"):
        read_ct(path)
