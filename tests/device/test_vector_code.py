"""Emitted vector code: every instruction run, against NumPy."""

import gc
import math
import subprocess
import sys
import threading
import time
from functools import cache

import numba
import numpy as np
import pytest
from vector_calls import bits, call, oldest_processor

from wavefabric.device import vector_code
from wavefabric.device.vector_code import VECTOR_BYTES, VectorCode, execute, kept
from wavefabric.system import numba_cache

both = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def numbers(dtype, vectors, seed=0):
    """Random numbers, so many vectors of them, not aligned to vectors."""
    lanes = VECTOR_BYTES // np.dtype(dtype).itemsize
    space = np.random.default_rng(seed).standard_normal(vectors * lanes + 1).astype(dtype)
    return space[1:].reshape(vectors, lanes)


def computed(dtype, emit, source, shape, operator=None):
    """What ``emit(code)`` gives when it reads ``source``: vectors that are stored one after another."""
    code = VectorCode(dtype)
    for number, vector in enumerate(emit(code)):
        code.store(vector, code.target, number * code.lanes)
    target = np.full(shape, np.nan, dtype)
    call(code.compiled(), None, source, target, operator)
    return target


@both
def test_a_vector_is_32_bytes(dtype):
    assert VectorCode(dtype).lanes == 32 // np.dtype(dtype).itemsize


@both
def test_arithmetic(dtype):
    inputs = numbers(dtype, 3)
    a, b, c = inputs

    def emit(code):
        x, y, z = (code.load(code.source, code.lanes * i) for i in range(3))
        yield code.add(x, y)
        yield code.subtract(x, y)
        yield code.multiply(x, y)
        yield code.multiply_add(x, y, z)
        yield code.multiply_add(y, z, x)
        yield code.constant(0.1)
        yield code.constant(1.5, -0.1)

    got = computed(dtype, emit, inputs, (7, a.size))
    assert np.array_equal(got[0], a + b)
    assert np.array_equal(got[1], a - b)
    assert np.array_equal(got[2], a * b)
    np.testing.assert_allclose(got[3], a * b + c, rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).eps)
    np.testing.assert_allclose(got[4], b * c + a, rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).eps)
    assert np.array_equal(got[5], np.full(a.size, 0.1, dtype))
    assert np.array_equal(got[6], np.tile(np.array([1.5, -0.1], dtype), a.size // 2))


@both
def test_constants_are_better_than_their_roundings(dtype):
    """In single precision, errors of products with 0.1 and 0.7 have no mean."""
    inputs = abs(numbers(dtype, 100)) + 1

    def emit(code):
        for i in range(100):
            x = code.load(code.source, code.lanes * i)
            yield code.multiply_constant(x, 0.1)
            yield code.sum_of_products((x, (0.7,)), (x, (0.1, -0.1)))

    got = computed(dtype, emit, inputs, (200, inputs.shape[1])).astype(np.longdouble)
    wanted = inputs * np.longdouble(0.1), inputs * (np.longdouble(0.7) + np.resize([0.1, -0.1], inputs.shape))
    for result, exact in zip((got[::2], got[1::2]), wanted, strict=True):
        errors = np.array(result / exact - 1, float)
        assert abs(errors).max() < np.finfo(dtype).eps
        assert abs(errors.mean()) < 5 * errors.std() / math.sqrt(errors.size)


@both
def test_negate_changes_signs_and_nothing_else(dtype):
    inputs = numbers(dtype, 1)
    inputs[0, :4] = [0.0, -0.0, np.inf, np.nan]
    which = ((), (True,), (True, False), (False, True), (True, False, False, True))

    def emit(code):
        value = code.load(code.source, 0)
        yield from (code.negate(value, *lanes) for lanes in which)

    got = computed(dtype, emit, inputs, (len(which), inputs.size))
    for row, lanes in zip(got, which, strict=True):
        signs = np.tile(np.array(lanes or (True,)), inputs.size // len(lanes or (True,)))
        assert np.array_equal(np.signbit(row), np.signbit(inputs[0]) ^ signs)
        assert bits(np.abs(row)) == bits(np.abs(inputs[0]))


@both
def test_lanes_picked_repeated_joined(dtype):
    inputs = numbers(dtype, 2)
    lanes = inputs.shape[1]
    order = [lane * 3 % (2 * lanes) for lane in range(lanes)]

    def emit(code):
        a, b = code.load(code.source, 0), code.load(code.source, code.lanes)
        yield code.pick(a, b, order)
        yield code.repeated(code.source, 3)
        yield code.repeated(code.source, 1, 2)
        yield code.repeated(code.source, code.index(2), 4)
        yield code.joined([code.lane(b, lane) for lane in reversed(range(lanes))])
        yield code.joined([code.load_one(code.source, 2 * lane) for lane in range(lanes)])

    got = computed(dtype, emit, inputs, (6, lanes))
    flat = inputs.ravel()
    assert np.array_equal(got[0], flat[order])
    assert np.array_equal(got[1], np.full(lanes, flat[3]))
    assert np.array_equal(got[2], np.tile(flat[1:3], lanes // 2))
    assert np.array_equal(got[3], np.tile(flat[2:6], lanes // 4))
    assert np.array_equal(got[4], inputs[1][::-1])
    assert np.array_equal(got[5], flat[::2])


@both
def test_transposed(dtype):
    lanes = VECTOR_BYTES // np.dtype(dtype).itemsize
    inputs = numbers(dtype, lanes)

    def emit(code):
        return code.transposed([code.load(code.source, row * lanes) for row in range(lanes)])

    assert np.array_equal(computed(dtype, emit, inputs, inputs.shape), inputs.T)


@both
def test_loads_and_stores_reach_no_further_than_they_say(dtype):
    source, target = np.arange(40, dtype=dtype), np.full(40, -1, dtype)
    code = VectorCode(dtype)
    code.store(code.load_one(code.source, 5), code.target, 1)
    code.store(code.load(code.source, 7, 2), code.target, code.index(3))
    code.store(code.load(code.source, code.index(11)), code.target, 7)
    call(code.compiled(), None, source, target)
    wanted = np.full(40, -1, dtype)
    wanted[1], wanted[3:5], wanted[7 : 7 + code.lanes] = 5, [7, 8], np.arange(11, 11 + code.lanes)
    assert np.array_equal(target, wanted)
    assert np.array_equal(source, np.arange(40))


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_loops(count):
    """One inside the other, with what follows them: each index once."""
    code = VectorCode(np.float64)

    def outer(i):
        def inner(j):
            at = code.index((i, 3 * code.lanes), (j, code.lanes))
            value = code.add(code.load(code.source, at), code.load(code.target, at))
            code.store(value, code.target, at)

        code.loop(3, inner)

    code.loop(count, outer)
    code.store(code.load_one(code.source, 5), code.target, 100)
    source, target = np.arange(1.0, 102.0), np.zeros(101)
    call(code.compiled(), None, source, target)
    wanted = np.where(np.arange(101) < 12 * count, source, 0.0)
    wanted[100] = 6
    assert np.array_equal(target, wanted)


def test_an_index_is_a_sum_of_products():
    code, target = VectorCode(np.float64), np.zeros(60)

    def body(i):
        at = code.index(4, (i, 7), (3, 5), i, -2, (2, -1))  # 15 + 8 i
        code.store(code.load_one(code.source, code.index((i, 1))), code.target, at)

    code.loop(5, body)
    call(code.compiled(), None, np.arange(1.0, 6.0), target)
    wanted = np.zeros(60)
    wanted[15 + 8 * np.arange(5)] = np.arange(1, 6)
    assert np.array_equal(target, wanted)


@both
def test_parameters_in_their_order(dtype):
    inputs = [np.full(1, 10.0**i, dtype) for i in range(3)]
    code, target = VectorCode(dtype), np.zeros(3, dtype)
    for i, array in enumerate((code.table, code.source, code.operator)):
        code.store(code.load_one(array, 0), code.target, i)
    table, source, operator = inputs
    function = code.compiled()
    call(function, table, source, target, operator)
    assert target.tolist() == [1, 10, 100]

    @numba.njit
    def from_a_kernel(address, table, source, target, operator):
        execute(address, table.ctypes.data, source.ctypes.data, target.ctypes.data, operator.ctypes.data)
        return target[2]  # read after the call

    target[:] = 0
    assert from_a_kernel(function.address, table, source, target, operator) == 100
    assert target.tolist() == [1, 10, 100]


def test_execute_takes_integers_of_any_kind():
    code, source, target = VectorCode(np.float64), np.array([4.0]), np.zeros(1)
    code.store(code.load_one(code.source, 0), code.target, 0)
    function = code.compiled()

    @numba.njit
    def run(address, source, target):
        execute(address, 0, source, target, 0)

    run(np.uintp(function.address), np.int64(source.ctypes.data), np.uintp(target.ctypes.data))
    assert target[0] == 4


@both
def test_fetch_changes_nothing(dtype):
    """Nor does an address matter that is none."""
    code, source, target = VectorCode(dtype), numbers(dtype, 1), numbers(dtype, 1, 1)
    before = bits(source), bits(target)
    code.fetch(code.source, code.index(3))
    code.fetch(code.operator, code.index(1 << 20))
    call(code.compiled(), None, source, target)
    assert before == (bits(source), bits(target))
    assert str(code._module).count('declare void @"llvm.prefetch.p0i8"') == 1
    # For reading, into the second-level cache, data.
    assert "i32 0, i32 2, i32 1)" in str(code._module)


@both
def test_scratch_lies_on_the_stack_aligned_to_cache_lines(dtype):
    """Each call has its own; two slots share nothing."""
    code = VectorCode(dtype)
    buffers = [code.scratch(5), code.scratch(3)]
    for sign, (space, vectors) in zip((1.0, -1.0), zip(buffers, (5, 3), strict=True), strict=True):
        for i in range(vectors):
            code.store(code.constant(sign * (i + 1)), space, i * code.lanes)
    written = 0
    for space, vectors in zip(buffers, (5, 3), strict=True):
        for i in range(vectors):
            code.store(code.load(space, i * code.lanes), code.target, written * code.lanes)
            written += 1
    assert str(code._module).count("align 64") == 2
    target = np.zeros((8, code.lanes), dtype)
    call(code.compiled(), None, None, target)
    assert np.array_equal(target[:, 0], [1, 2, 3, 4, 5, -1, -2, -3])
    assert (target == target[:, :1]).all()


def test_addresses_last():
    """Those of a kernel may outlive the objects; other functions take no place of theirs."""
    code, target = VectorCode(np.float64), np.zeros(4)
    code.store(code.constant(3.0), code.target, 0)
    function = code.compiled()
    others = []
    for number in range(5):
        other = VectorCode(np.float64)
        other.store(other.constant(10.0 + number), other.target, 0)
        others.append(other.compiled())
    del code
    gc.collect()
    call(function, None, None, target)
    assert (target == 3).all()
    for number, other in enumerate(others):
        call(other, None, None, target)
        assert (target == 10 + number).all()


def test_the_first_functions_may_be_compiled_in_threads_at_once(monkeypatch):
    """All in one engine: a second one would go, and its code with it."""
    create, made = vector_code._compiler.__wrapped__, []

    def compiler():
        time.sleep(0.05)
        made.append(create())
        return made[-1]

    monkeypatch.setattr(vector_code, "_compiler", cache(compiler))
    targets = [np.zeros(4) for _ in range(4)]

    def work(number):
        code = VectorCode(np.float64)
        code.store(code.constant(number + 1.0), code.target, 0)
        call(code.compiled(), None, None, targets[number])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [target.tolist() for target in targets] == [[i + 1.0] * 4 for i in range(4)]
    assert len(made) == 1


@both
def test_a_processor_with_short_vectors_and_no_fma(dtype, monkeypatch):
    """The same code, compiled for the oldest processor of this kind: products and sums are rounded each."""
    oldest_processor(monkeypatch)
    inputs = numbers(dtype, 8)
    lanes = inputs.shape[1]

    def emit(code):
        x, y, z = (code.load(code.source, code.lanes * i) for i in range(3))
        yield code.multiply_add(x, y, z)
        yield from code.transposed([code.load(code.source, row * lanes) for row in range(lanes)])

    got = computed(dtype, emit, inputs, (1 + lanes, lanes))
    assert np.array_equal(got[0], inputs[0] * inputs[1] + inputs[2])
    assert np.array_equal(got[1:], inputs[:lanes].T)


@pytest.fixture
def emptied(tmp_path, monkeypatch):
    """A process that has compiled nothing, and a cache of its own."""
    monkeypatch.setattr(vector_code, "_KEPT", {})
    monkeypatch.setattr(numba_cache, "directory", lambda: tmp_path)
    return tmp_path


def number_writer(number, made):
    """Emits a function that writes a number, and takes note."""

    def compiled(name):
        made.append(name)
        code = VectorCode(np.float64, name)
        code.store(code.constant(number), code.target, 0)
        return code.compiled()

    return compiled


def written(function):
    target = np.zeros(4)
    call(function, None, None, target)
    return target.tolist()


def test_code_is_compiled_once(emptied, monkeypatch):
    """In a process; and in another one read from a file, if that is whole."""
    made = []
    first = kept("writes 3", number_writer(3.0, made))
    assert kept("writes 3", number_writer(4.0, made)) is first
    assert written(kept("writes 5", number_writer(5.0, made))) == [5.0] * 4
    assert written(first) == [3.0] * 4
    assert len(set(made)) == len(made) == 2
    (file,) = emptied.glob(f"vectors/{made[0]}.o")
    assert vector_code._read(made[0]) == first.code
    file.write_bytes(file.read_bytes()[:-1])
    assert vector_code._read(made[0]) is None
    vector_code._write(made[0], first.code)
    assert vector_code._read(made[0]) == first.code
    assert len(list(emptied.glob("vectors/*"))) == 2


def test_another_process_reads_what_one_has_compiled(emptied):
    """Under the name that it has there: an engine finds it by that."""
    made = []
    first = kept("writes 7", number_writer(7.0, made))
    script = (
        "import pathlib, sys, ctypes, numpy as np\n"
        "from wavefabric.device import vector_code\n"
        "from wavefabric.system import numba_cache\n"
        "numba_cache.directory = lambda: pathlib.Path(sys.argv[1])\n"
        "function = vector_code.kept('writes 7', None)\n"
        "target = np.zeros(4)\n"
        "kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)\n"
        "kind(function.address)(None, None, target.ctypes.data, None)\n"
        "print(target.tolist())"
    )
    result = subprocess.run([sys.executable, "-c", script, emptied], capture_output=True, text=True)
    assert result.stdout == f"{written(first)}\n", result.stderr


def test_code_is_made_where_nothing_can_be_kept(emptied, monkeypatch):
    (emptied / "vectors").write_text("no folder")
    made = []
    assert written(kept("writes 9", number_writer(9.0, made))) == [9.0] * 4
