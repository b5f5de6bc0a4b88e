"""Random unitary mixing inside groups, and its inverse."""

import numpy as np
import pytest
from emulated_device import EmulatedDevice

from wavefabric.base.errors import InputError
from wavefabric.optics.fibre.random_coupling import ModeMixing, haar_unitary, total
from wavefabric.runtime.device import get_device

CPU = get_device("cpu")


def random_field(rows, n=1000, dtype=np.complex128):
    rng = np.random.default_rng(4)
    return (rng.normal(size=(rows, n)) + 1j * rng.normal(size=(rows, n))).astype(dtype)


def test_groups_do_not_mix_with_each_other_and_power_is_kept():
    mixing = ModeMixing.random([1, 2, 3], seed=1)
    assert mixing.blocks == [(0, 2), (2, 6), (6, 12)]
    field = random_field(12)
    field[:6] = 0
    mixing.apply(CPU, field)
    assert not field[:6].any()
    np.testing.assert_allclose((abs(field) ** 2).sum(axis=0), (abs(random_field(12)[6:]) ** 2).sum(axis=0))


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.complex128, 1e-13), (np.complex64, 1e-5)])
def test_inverse_of_two_spans(dtype, tolerance):
    spans = [ModeMixing.random([2, 3], seed=1, span=k) for k in range(2)]
    field = random_field(10, dtype=dtype)
    for span in spans:
        span.apply(CPU, field)
    inverse = total(spans).inverse
    mode = inverse.mode(CPU, field, 3)
    inverse.apply(CPU, field)
    assert field.dtype == dtype
    np.testing.assert_allclose(field, random_field(10, dtype=dtype), atol=tolerance)
    np.testing.assert_allclose(mode, random_field(10, dtype=dtype)[6:8], atol=tolerance)


@pytest.mark.parametrize(
    "where",
    ["cpu", pytest.param("emulated", marks=pytest.mark.slow), pytest.param("cuda", marks=pytest.mark.gpu)],
)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.complex128, 1e-14), (np.complex64, 1e-6)])
@pytest.mark.parametrize(
    ("groups", "n"),
    [
        ([1, 2, 3], 70),
        pytest.param([5], 32, marks=pytest.mark.slow),
        pytest.param([9, 1], 5, marks=pytest.mark.slow),
        ([40], 33),
    ],
)
def test_kernels_against_the_product(where, dtype, tolerance, groups, n):
    """Blocks of 2 to 80 rows; samples that do and do not fill a tile."""
    device = EmulatedDevice() if where == "emulated" else get_device(where)
    mixing, field = ModeMixing.random(groups, seed=2), random_field(2 * sum(groups), n, dtype)
    A = device.empty(field.shape, dtype)
    A[...] = device.asarray(field)
    mixing.apply(device, A)
    wanted = field.astype(complex)
    for (start, stop), u in zip(mixing.blocks, mixing.matrices, strict=True):
        wanted[start:stop] = u @ wanted[start:stop]
    assert abs(device.to_host(A) - wanted).max() < tolerance * abs(wanted).max()


def test_seed_and_span_decide():
    one = ModeMixing.random([2], 1, 0).matrices[0]
    assert (ModeMixing.random([2], 1, 0).matrices[0] == one).all()
    assert abs(ModeMixing.random([2], 1, 1).matrices[0] - one).max() > 0.1
    assert abs(ModeMixing.random([2], 2, 0).matrices[0] - one).max() > 0.1


def test_haar_moments():
    # E|U|⁴ = 2/(n(n+1)); QR without the phase fix passes that but not E tr U = 0 with E|tr U|² = 1.
    drawn = np.array([haar_unitary(4, 9, k) for k in range(3000)])
    assert (abs(drawn) ** 4).mean() == pytest.approx(2 / (4 * 5), rel=0.03)
    traces = np.trace(drawn, axis1=1, axis2=2)
    assert abs(traces.mean()) < 4 / np.sqrt(3000)
    assert (abs(traces) ** 2).mean() == pytest.approx(1, abs=0.1)


def test_bad_input():
    with pytest.raises(InputError, match="not unitary"):
        ModeMixing([2 * np.eye(2)])
    with pytest.raises(InputError, match="square"):
        ModeMixing([np.ones((2, 4))])
    with pytest.raises(InputError, match="10 allowed"):
        ModeMixing.random([2, 3], 1).apply(CPU, random_field(4))
