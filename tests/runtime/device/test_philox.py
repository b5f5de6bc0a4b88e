"""Philox against the published answers, its statistics, and CPU against CUDA."""

import numpy as np
import pytest
from emulated_device import EmulatedDevice

from wavefabric.base.errors import InputError
from wavefabric.runtime.device import get_device, philox
from wavefabric.runtime.kernels.cpu_launch import call_kernel

# Random123, kat_vectors: philox4x32 10.
KNOWN = [
    (0, 0, 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (2**64 - 1, 2**64 - 1, 2**64 - 1, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        0x85A308D3_243F6A88,
        0x03707344_13198A2E,
        0x299F31D0_A4093822,
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def block(index, high, key):
    """Philox4x32-10 in Python's integers: the four words of a counter under a key."""
    mask = 2**32 - 1
    c0, c1, c2, c3 = index & mask, index >> 32, high & mask, high >> 32
    k0, k1 = key & mask, key >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & mask, (p0 >> 32) ^ c3 ^ k1, p0 & mask
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
    return c0, c1, c2, c3


@pytest.mark.parametrize(("index", "high", "key", "words"), KNOWN)
def test_published_answers(index, high, key, words):
    assert block(index, high, key) == words


@pytest.mark.parametrize("offset", [0, 3, 2**40 + 2, 2**63 - 20])
@pytest.mark.parametrize(
    ("stream", "seed"), [(0, 0), (2**63 - 1, 2**63 - 1), (0x03707344_13198A2E, 0x299F31D0)]
)
def test_words_are_those_of_the_counters(offset, stream, seed):
    out = np.empty(19, np.uint32)
    philox.philox_uint32(out, seed, stream, offset)
    positions = range(offset, offset + out.size)
    assert out.tolist() == [block(at // 4, stream, seed)[at % 4] for at in positions]


def test_words_in_order_of_the_counter():
    out = np.empty(9, np.uint32)
    philox.philox_uint32(out, 0, 0, 0)
    assert tuple(out[:4]) == KNOWN[0][3]
    again = np.empty(5, np.uint32)
    philox.philox_uint32(again, 0, 0, 3)
    assert (again == out[3:8]).all()


def normal(n, seed=7, stream=3, offset=0, dtype=np.complex128, sigma=1.0):
    out = np.zeros(n, dtype)
    philox.add_complex_normal(out, sigma, seed, stream, offset)
    return out


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing(threads):
    words, again, out = np.empty(1001, np.uint32), np.empty(1001, np.uint32), np.zeros(1001, complex)
    philox.philox_uint32(words, 7, 3, 1)
    call_kernel("philox_uint32_double", again, 7, 3, 1, threads=threads)
    call_kernel("add_complex_normal_double", out, 1.0, 7, 3, 0, threads=threads)
    assert (again == words).all()
    assert (out == normal(1001)).all()


def test_any_window_can_be_made_again():
    whole = normal(1000)
    assert (normal(300, offset=421) == whole[421:721]).all()


def test_noise_is_added_and_scaled():
    out = np.full(50, 2 - 1j)
    philox.add_complex_normal(out, 0.5, 7, 3, 0)
    np.testing.assert_allclose(out, 2 - 1j + 0.5 * normal(50), rtol=1e-14)


def test_moments_of_the_complex_normal():
    n = 400_000
    z = normal(n)
    sigma = 1 / np.sqrt(n)
    assert abs(z.mean()) < 4 * sigma
    assert abs((abs(z) ** 2).mean() - 1) < 4 * sigma
    assert abs((z**2).mean()) < 5 * sigma
    assert abs((abs(z) ** 4).mean() - 2) < 5 * np.sqrt(20) * sigma
    # The square of the modulus is exponential: tails as far as this sample reaches.
    assert abs((abs(z) ** 2 > 6).mean() - np.exp(-6)) < 5 * np.sqrt(np.exp(-6)) * sigma


@pytest.mark.parametrize("other", [{"seed": 8}, {"stream": 4}, {"offset": 1}])
def test_seeds_streams_and_neighbours_are_independent(other):
    n = 200_000
    assert abs((normal(n) * normal(n, **other).conj()).mean()) < 4 / np.sqrt(n)


def test_bits_are_balanced():
    words = np.empty(100_000, np.uint32)
    philox.philox_uint32(words, 1, 2, 0)
    ones = np.unpackbits(words.view(np.uint8)).reshape(-1, 32).mean(axis=0)
    assert abs(ones - 0.5).max() < 5 * 0.5 / np.sqrt(words.size)


def test_single_precision_is_the_rounded_double():
    np.testing.assert_array_equal(normal(500, dtype=np.complex64), normal(500).astype(np.complex64))


def test_streams_of_different_uses_differ():
    numbers = {philox.stream(d, a, b) for d in range(1, 6) for a in range(4) for b in range(4)}
    assert len(numbers) == 80
    assert max(numbers) < 2**63
    with pytest.raises(InputError, match="stream"):
        philox.stream(1, 1 << 28)


@pytest.mark.parametrize("seed", [-1, 1 << 63, 1.5, True, "1"])
def test_bad_seeds(seed):
    with pytest.raises(InputError, match="seed"):
        philox.check_seed(seed)


@pytest.mark.parametrize("dtype", [np.complex128, pytest.param(np.complex64, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["emulated", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_cuda_gives_the_same_numbers(cpu, name, dtype):
    cuda = EmulatedDevice() if name == "emulated" else get_device("cuda")
    for offset in (0, 5, 2**40 + 1):
        words, normals = [], []
        for device in (cpu, cuda):
            kernels = device.kernels(philox.TABLE)
            w, z = device.zeros((1001,), np.uint32), device.zeros((1001,), dtype)
            kernels.philox_uint32(w, 2**62 + 11, philox.stream(3, 5, 7), offset)
            kernels.add_complex_normal(z, 0.3, 2**62 + 11, philox.stream(3, 5, 7), offset)
            words.append(device.to_host(w))
            normals.append(device.to_host(z))
        assert (words[0] == words[1]).all()
        np.testing.assert_allclose(normals[1], normals[0], atol=10 * np.finfo(dtype).eps)
