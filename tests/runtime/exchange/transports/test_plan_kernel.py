"""The kernel that runs a plan, on the emulator: all ranks' blocks take turns, thread by thread."""

import numpy as np
import pytest
from emulated_cuda import find_compiler
from emulated_plan import OnOneGpu, Ranks
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_cases import CASES, VARIANTS, everything, noise, verified, wrong

from wavefabric.collectives import build
from wavefabric.collectives.plans.plan import compile_plan
from wavefabric.runtime.exchange.transports.plan_code import RankMemory, encode

DTYPES = ("f4", "f2", "c16", "i4", "f8", "c8", "i8", "u4")


@pytest.fixture(autouse=True)
def compiler(request):
    return None if request.node.get_closest_marker("gpu") else find_compiler()


def wrong_on_noise(plan, dtype, calls=2, seed=0, **options):
    """(call, rank, buffer, chunk) that is wrong to the bit, on new noise in every call."""
    rng, schedule = np.random.default_rng(seed), plan.schedule

    def compare(result, data):
        return wrong(schedule, result, data)

    ranks = Ranks(plan, dtype, **options)
    return ranks.wrong_after(calls, compare, lambda call: noise(schedule, dtype, rng), seed)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["signals", "packets"])
@pytest.mark.parametrize("ranks", [2, 3, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 4))])
def test_every_algorithm(ranks, protocol):
    """Types, blocks, threads and shifts in turn: each algorithm meets some of them."""
    shifts = [(0,), (1, 0, 3), (0, 2), (1,), (3, 1, 2, 0)]
    for n, schedule in enumerate(everything(ranks)):
        slots = 1 if protocol == "signals" and n % 3 == 0 else None
        plan = compile_plan(schedule, protocol, slots)
        size = {"blocks": 1 + n % 4, "threads": (32, 64)[n // 4 % 2], "shifts": shifts[n % len(shifts)]}
        size["keep"] = n % 3 > 0
        assert wrong_on_noise(plan, DTYPES[n % len(DTYPES)], 2, n, **size) == []


@pytest.mark.parametrize("protocol", ["signals", "packets"])
@pytest.mark.parametrize(
    ("name", "collective"), [("ring", "all-reduce"), ("recursive", "all-reduce"), ("direct", "all-to-all")]
)
def test_eight_ranks(name, collective, protocol):
    plan = compile_plan(build(name, collective, 8, 83), protocol)
    assert wrong_on_noise(plan, "f4", blocks=2, shifts=(0, 1, 2)) == []


@pytest.mark.slow
@settings(max_examples=100, derandomize=True)
@given(
    schedule=st.one_of(CASES.filter(lambda s: s.ranks <= 8), verified()),
    variant=st.sampled_from(VARIANTS),
    dtype=st.sampled_from(DTYPES),
    blocks=st.integers(1, 4),
    shifts=st.lists(st.integers(0, 3), min_size=1, max_size=3),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_schedule(schedule, variant, dtype, blocks, shifts, seed):
    plan = compile_plan(schedule, *variant)
    assert wrong_on_noise(plan, dtype, 3, seed, blocks=blocks, shifts=shifts) == []


@pytest.mark.parametrize("protocol", ["signals", "packets"])
@pytest.mark.parametrize(
    "dtype", [pytest.param(each, marks=[pytest.mark.slow] * (each != DTYPES[0])) for each in DTYPES]
)
def test_sizes(dtype, protocol):
    """From nothing, and fewer elements than blocks, to several rounds of vectors of all threads."""
    for elements in (0, 1, 3, 17, 1001, 2500):
        for name, shifts in (("direct", (0,)), ("ring", (0, 1)), ("recursive-exchange", (1,))):
            plan = compile_plan(build(name, "all-reduce", 2, elements), protocol)
            options = {"blocks": 1 + elements % 3, "shifts": shifts}
            assert wrong_on_noise(plan, dtype, 1, elements, **options) == []


@pytest.mark.parametrize("protocol", ["signals", "packets"])
@pytest.mark.parametrize("dtype", ["u1", "u2", "i1", "?", "f4", "c16"])
def test_what_is_only_copied_keeps_its_bits(dtype, protocol):
    """Any bits, of numbers that are none too."""
    rng = np.random.default_rng(1)
    for name, collective in (("ring", "all-gather"), ("direct", "all-to-all"), ("tree", "broadcast")):
        schedule = build(name, collective, 3, 3 * 41)
        plan = compile_plan(schedule, protocol)

        def bits(_, schedule=schedule):
            drawn = noise(schedule, np.dtype(dtype), rng)
            for array in (array for rank in drawn for array in rank):
                raw = array.view(np.uint8)
                raw[...] = rng.integers(0, 2 if dtype == "?" else 256, raw.size)
            return drawn

        ranks = Ranks(plan, dtype, blocks=2, shifts=(0, 3, 1))
        result = ranks.wrong_after(2, lambda out, data, s=schedule: wrong(s, out, data), bits)
        assert result == []


def test_a_program_is_kept_whole():
    """In as much shared memory as it takes, and not in less."""
    plan = compile_plan(build("ring", "all-reduce", 3, 50))
    inputs = noise(plan.schedule, "f4", np.random.default_rng(0))
    ranks = Ranks(plan, "f4", blocks=2)
    ranks._shared -= 8
    with pytest.raises(AssertionError, match="outside dynamic shared memory"):
        ranks.run(inputs)
    short, apart = (
        encode(plan, 0, "f4", [RankMemory([0], 0, 0)] * 3).arguments(np.zeros(24), n) for n in (8, 192)
    )
    assert (int(short[-1]), int(apart[-1])) == (0, 1)


@pytest.mark.gpu
@pytest.mark.parametrize("protocol", ["signals", "packets"])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_every_algorithm_on_one_gpu(ranks, protocol):
    """All ranks share it: their kernels are resident together."""
    for n, schedule in enumerate(everything(ranks)):
        plan = compile_plan(schedule, protocol)
        size = {"blocks": 1 + n % 4, "threads": (64, 512)[n % 2], "shifts": [(0,), (1, 0, 3)][n % 2]}
        assert wrong_on_noise(plan, DTYPES[n % len(DTYPES)], 3, n, **size, backend=OnOneGpu) == []


@pytest.mark.gpu
@pytest.mark.parametrize("protocol", ["signals", "packets"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_large_arrays_on_one_gpu(dtype, protocol):
    for elements in (1, 1001, 1 << 20):
        plan = compile_plan(build("recursive", "all-reduce", 4, elements), protocol)
        for blocks in (1, 16):
            options = {"blocks": blocks, "threads": 512, "backend": OnOneGpu}
            assert wrong_on_noise(plan, dtype, 5, elements, **options) == []


# --- 16-bit numbers ----------------------------------------------------------------------------------------


def bfloat16(values):
    """Bits of the nearest bfloat16, ties to even: from the definition, in double precision."""
    mantissa, exponent = np.frexp(np.asarray(values, np.float64))
    rounded = np.ldexp(np.rint(mantissa * 256) / 256, exponent)
    with np.errstate(over="ignore"):
        return (rounded.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def of_bfloat16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def add_bfloat16(a, b):
    bits_a, bits_b = (np.ascontiguousarray(x).view(np.uint16) for x in (a, b))
    return bfloat16(of_bfloat16(bits_a) + of_bfloat16(bits_b)).view(np.float16)


@pytest.mark.parametrize("protocol", ["signals", "packets"])
@pytest.mark.parametrize("name", ["ring", "recursive", "direct"])
def test_sums_of_bfloat16(name, protocol):
    """NumPy has no such type: its bits travel as those of float16."""
    schedule, rng = build(name, "all-reduce", 4, 45), np.random.default_rng(5)
    plan = compile_plan(schedule, protocol)

    def numbers(_):
        return [[bfloat16(a).view(np.float16) for a in rank] for rank in noise(schedule, "f8", rng)]

    ranks = Ranks(plan, "f2", blocks=2, shifts=(0, 1), element="bfloat16")
    result = ranks.wrong_after(2, lambda out, data: wrong(schedule, out, data, add_bfloat16), numbers)
    assert result == []


def pair_sums(bits, element):
    """Bits of a + b for all pairs of 16-bit numbers, by two ranks."""
    a, b = (array.ravel() for array in np.meshgrid(bits, bits))
    plan = compile_plan(build("direct", "all-reduce", 2, a.size))
    ranks = Ranks(plan, "f2", threads=64, element=element)
    buffers = [[np.zeros(array.size, np.float16) for array in rank] for rank in ranks.buffers]
    buffers[0][0][...], buffers[1][0][...] = a.view(np.float16), b.view(np.float16)
    return a, b, ranks.run(buffers)[0][0].view(np.uint16)


def test_bfloat16_at_its_ends():
    """Ties, subnormal numbers, overflow, infinities and what is no number."""
    ends = np.array(
        [0x0000, 0x8000, 0x0001, 0x007F, 0x0080, 0x3F80, 0x3F81, 0x3B80, 0x3B00, 0x3C00], np.uint16
    )
    large = np.array([0x7F7F, 0xFF7F, 0x7B00, 0x7780, 0x7F80, 0xFF80, 0x7FC0, 0x7F81], np.uint16)
    random = np.random.default_rng(0).integers(0, 2**16, 40).astype(np.uint16)
    a, b, result = pair_sums(np.concatenate([ends, ends ^ 0x8000, large, random]), "bfloat16")
    with np.errstate(invalid="ignore"):
        exact = of_bfloat16(a) + of_bfloat16(b)
    none, got = np.isnan(exact), of_bfloat16(result)
    assert (result[none] == 0x7FC0).all()
    small = np.abs(exact) < 2.0**-126
    normal = ~none & ~small
    assert np.array_equal(result[normal], bfloat16(exact[normal]))
    assert np.array_equal(got[small], exact[small])  # subnormal numbers add up exactly


@pytest.mark.slow
def test_float16_at_its_ends():
    ends = np.array(
        [0x0000, 0x8000, 0x0001, 0x03FF, 0x0400, 0x3C00, 0x3C01, 0x1000, 0x1400, 0x7BFF], np.uint16
    )
    large = np.array([0xFBFF, 0x7000, 0x4C00, 0x4BFF, 0x7C00, 0xFC00, 0x7E00], np.uint16)
    random = np.random.default_rng(0).integers(0, 2**16, 40).astype(np.uint16)
    a, b, result = pair_sums(np.concatenate([ends, ends ^ 0x8000, large, random]), "float16")
    with np.errstate(all="ignore"):
        exact = (a.view(np.float16).astype(np.float64) + b.view(np.float16)).astype(np.float16)
    none = np.isnan(exact)
    assert np.isnan(result.view(np.float16)[none]).all()
    assert np.array_equal(result[~none], exact.view(np.uint16)[~none])
