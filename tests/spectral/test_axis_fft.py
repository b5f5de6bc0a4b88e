"""The GPU's transforms of one axis: their radices, and the source itself, run by a C++ compiler or on a GPU.

``axis_fft.cu`` is plain C++ but for a few words, so threads of the host can stand for those of a block: what
is tested here without a GPU is every butterfly, every exchange and every layout.
"""

import math
import shutil
import subprocess
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavefabric.acoustics.solver import axis_passes_cuda
from wavefabric.acoustics.solver.axis_passes_cuda import radices

SOURCE = "".join(
    files("wavefabric.spectral").joinpath(name).read_text(encoding="utf-8")
    for name in ("butterflies.cu", "axis_fft.cu")
)
TOLERANCE = {"float": 1e-6, "double": 2e-15}
#: Points, threads a transform, transforms a block, layout: every radix first and last, threads that divide
#: the butterflies and threads that do not, one thread.
CONFIGURATIONS = [
    (8, 1, 1, "Rows"),
    (64, 8, 2, "Columns"),
    (30, 4, 2, "Rows"),
    (35, 3, 2, "Columns"),
    (84, 11, 1, "Rows"),
    (56, 7, 3, "Columns"),
    (2, 1, 2, "Rows"),
    (49, 7, 1, "Columns"),
    (27, 4, 2, "Columns"),
    (100, 7, 1, "Rows"),
]

# One block: forth from the near end to the far end, and back from there without leaving registers.
TRANSFORM = """
template <class L, class FORTH, class BACK>
__device__ void whole(const Complex *in, Complex *there, Complex *again, Complex *shared,
                      const Complex *twiddle) {
    typedef Axis<L, FORTH, BACK> A;
    Complex v[A::values];
    const int first = L::transform() * L::points;
    A::near(v, [&](Complex &value, int n) { value = in[first + n]; });
    A::forth(v, shared, twiddle);
    A::far(v, [&](Complex &value, int n) {
        there[first + n] = value;
        value = swapped(value);
    });
    A::back(v, shared, twiddle);
    A::near(v, [&](Complex &value, int n) { again[first + n] = swapped(value); });
}
"""


def kinds(n, threads, tile, layout):
    """Template arguments of a configuration."""
    found = radices(n)
    forth, back = (", ".join(map(str, r)) for r in (found, found[::-1]))
    return f"{layout}<{n}, {threads}, {tile}>, Radices<{forth}>, Radices<{back}>"


def data(n, tile):
    rng = np.random.default_rng(n)
    return rng.standard_normal((tile, n)) + 1j * rng.standard_normal((tile, n))


def check(sent, there, again, real):
    n, tolerance = sent.shape[1], TOLERANCE[real]
    wanted = np.fft.fft(sent)
    assert abs(there - wanted).max() < tolerance * abs(wanted).max()
    assert abs(again - n * sent).max() < 2 * tolerance * n * abs(sent).max()


# --- Radices ----------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from([2, 3, 5, 7]), min_size=1, max_size=10))
def test_radices_multiply_back(primes):
    n = math.prod(primes)
    found = radices(n)
    assert math.prod(found) == n
    assert set(found) <= {2, 3, 4, 5, 7, 8}
    # The largest are taken first, so a power of two has at most one radix that is not 8.
    assert found == sorted(found, reverse=True)
    assert sum(r in (2, 4) for r in found) <= 1


@given(st.integers(1, 400), st.sampled_from([11, 13, 17, 19, 23, 29, 31, 37, 101]))
def test_other_primes_are_refused(factor, prime):
    assert radices(factor * prime) == []


def test_one_point_is_no_transform():
    assert radices(1) == []


def test_usable_grids():
    assert axis_passes_cuda.usable(256, 256, 256, np.float64)
    assert axis_passes_cuda.usable(35, 27, 21, np.float32)
    for shape in ((22, 24, 24), (24, 26, 24), (24, 24, 34), (1, 24, 24), (2**15, 8, 8), (8, 8, 2**15)):
        assert not axis_passes_cuda.usable(*shape[::-1], np.float32)


@pytest.mark.parametrize("real", [np.float32, np.float64])
@pytest.mark.parametrize("n", [2, 7, 30, 512])
def test_twiddles(n, real):
    found = axis_passes_cuda.twiddles(n, real)
    assert found.dtype == np.result_type(real, np.complex64)
    angle = -2 * np.pi * np.arange(n).astype(np.longdouble) / n
    assert abs(found - (np.cos(angle) + 1j * np.sin(angle))).max() < 3 * np.finfo(real).eps


# --- The source, compiled for this machine ----------------------------------------------------------------

HOST = """
#include <cmath>
#include <cstdio>
#include <pthread.h>
#include <thread>
#include <vector>
#define __device__
#define __host__
#define __forceinline__ inline
#define __align__(n) alignas(n)
#define __restrict__
struct Three { int x; };
static thread_local Three threadIdx;
static pthread_barrier_t barrier;
static void __syncthreads() { pthread_barrier_wait(&barrier); }
"""

MAIN = """
template <class L, class FORTH, class BACK>
static void block(FILE *in, FILE *out) {
    const int n = L::points, all = n * L::tile, threads = L::threads * L::tile;
    std::vector<Complex> twiddle(n), given(all), there(all), again(all), shared(L::tile * (n + n / 8 + 1));
    size_t read = fread(twiddle.data(), sizeof(Complex), n, in);
    read += fread(given.data(), sizeof(Complex), all, in);
    if (read != (size_t)(n + all)) return;
    pthread_barrier_init(&barrier, nullptr, threads);
    std::vector<std::thread> workers;
    for (int i = 0; i < threads; ++i)
        workers.emplace_back([&, i] {
            threadIdx.x = i;
            whole<L, FORTH, BACK>(given.data(), there.data(), again.data(), shared.data(), twiddle.data());
        });
    for (auto &worker : workers) worker.join();
    pthread_barrier_destroy(&barrier);
    fwrite(there.data(), sizeof(Complex), all, out);
    fwrite(again.data(), sizeof(Complex), all, out);
}
"""


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("real", ["float", "double"])
def test_transforms_on_the_host(tmp_path, real):
    calls = "".join(f"    block<{kinds(*c)}>(stdin, stdout);\n" for c in CONFIGURATIONS)
    text = HOST + SOURCE + TRANSFORM + MAIN + "int main() {\n" + calls + "}\n"
    (tmp_path / "host.cpp").write_text(text)
    command = ["c++", "-std=c++17", "-O0", "-w", "-pthread", f"-DREAL={real}", "host.cpp", "-o", "host"]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[-2000:]
    dtype = np.complex64 if real == "float" else np.complex128
    send, inputs = b"", []
    for n, _, tile, _ in CONFIGURATIONS:
        inputs.append(data(n, tile).astype(dtype))
        send += axis_passes_cuda.twiddles(n, inputs[-1].real.dtype).tobytes() + inputs[-1].tobytes()
    done = subprocess.run([tmp_path / "host"], input=send, capture_output=True, timeout=60)
    got, at = np.frombuffer(done.stdout, dtype), 0
    assert got.size == 2 * sum(i.size for i in inputs)
    for sent in inputs:
        there, again = (
            got[at + k * sent.size : at + (k + 1) * sent.size].reshape(sent.shape) for k in (0, 1)
        )
        check(sent.astype(complex), there, again, real)
        at += 2 * sent.size


# --- The source on a GPU ----------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("real", ["float", "double"])
def test_transforms_on_a_gpu(real):
    import cupy

    more = [(512, 64, 1, "Rows"), (384, 24, 8, "Columns"), (1000, 125, 1, "Rows")]
    dtype = np.complex64 if real == "float" else np.complex128
    for n, threads, tile, layout in CONFIGURATIONS + more:
        entry = (
            'extern "C" __global__\n'
            "void run(const Complex *in, Complex *there, Complex *again, const Complex *t) {\n"
            "    extern __shared__ char memory[];\n"
            f"    whole<{kinds(n, threads, tile, layout)}>(in, there, again, (Complex *)memory, t);\n}}\n"
        )
        module = cupy.RawModule(code=SOURCE + TRANSFORM + entry, options=("--std=c++17", f"-DREAL={real}"))
        sent = data(n, tile).astype(dtype)
        there, again = cupy.empty(sent.shape, dtype), cupy.empty(sent.shape, dtype)
        twiddle = cupy.asarray(axis_passes_cuda.twiddles(n, sent.real.dtype))
        shared = tile * (n + n // 8 + 1) * sent.itemsize
        function = module.get_function("run")
        function.max_dynamic_shared_size_bytes = shared
        function((1,), (threads * tile,), (cupy.asarray(sent), there, again, twiddle), shared_mem=shared)
        check(sent.astype(complex), there.get(), again.get(), real)
