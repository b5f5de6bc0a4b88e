// Code that the kernels of the fused time step share: columns, and rows with space in shared memory; see
// axis_kernels_cuda.py. Real grids are (NZ, NY, NX), spectra (NZ, NY, HALF) with rows padded to PITCH, whole cache lines.
// Formulas are those of kernels/cpu/planes.cpp. Spectrum s0 holds F{u_y} or d/dy, s2 the same of x, s1 of z; the
// factors dx, dy, dz include the 1/N of the transforms. An axis is transformed with MX, MY, MZ or MG points
// (`OfLength`). WITH_X, WITH_Y, WITH_Z, WITH_G choose the kernels to compile.

#define HALF (NX / 2 + 1)
#define ROWS ((Index)NY * NZ)
#define INLINE __device__ __forceinline__
// Registers must suffice for at least `blocks` blocks per multiprocessor, so that one loads while another computes.
#define KERNEL_OF(axis, blocks) extern "C" __global__ void __launch_bounds__(P##axis *T##axis, blocks)
#define KERNEL(axis) KERNEL_OF(axis, B##axis)
#define TABLE const Complex *__restrict__
#define REALS const REAL *__restrict__
extern __shared__ __align__(16) char memory[];

// --- Columns along y and z -------------------------------------------------------------------------------

// Column of this thread: along y in plane blockIdx.y, or along z at y = blockIdx.y. With PLANE the axis z of the kernels
// is the y of plane blockIdx.y, and NY is 1. The first point of the thread is `lane`. With FEW (registers), offsets
// count from that point: they are constants, so that addresses are computed for each access and not kept in registers
// between loads and stores.
template <bool FEW>
struct Column {
    int kx, lane;
    bool here;
    Index first, step;
    INLINE Column(int tile, bool along_y)
        : kx(blockIdx.x * tile + threadIdx.x % tile), lane(FEW ? threadIdx.x / tile : 0), here(kx < HALF),
          step(along_y || PLANE ? PITCH : (Index)NY * PITCH) {
        first = plane(along_y) + kx + lane * step;
    }
    static INLINE Index plane(bool along_y) {
        return (Index)blockIdx.y * (along_y ? NY * PITCH : PLANE ? NZ * PITCH : PITCH);
    }
    template <class T>
    INLINE T *of(T *s) const { return FEW ? fresh(s + first) : fresh(s); }
    INLINE Index at(int n) const { return FEW ? (n - lane) * step : first + n * step; }
    template <class T>
    INLINE T get(const T *column, int n) const { return here ? column[at(n)] : T(); }
    INLINE void put(Complex *column, int n, Complex value) const { if (here) column[at(n)] = value; }
};

// Target of a column: an array of this GPU. With SPLIT, `Scattered` (parallel/scatter.cu) stores to all ranks instead.
template <class C>
struct Array {
    const C &c;
    Complex *column;
    INLINE Array(const C &c, Complex *s) : c(c), column(c.of(s)) {}
    INLINE void put(int n, Complex value) const { c.put(column, n, value); }
};
#if SPLIT
#define TO(c, s, number) Scattered<decltype(c)>(c, scatter[number])
#define SCATTER const Scatter *scatter,
#define SENT(number) sent(scatter[number])
#else
#define TO(c, s, number) Array<decltype(c)>(c, s)
#define SCATTER
#define SENT(number)
#endif

INLINE Complex *columns_memory() { return (Complex *)memory; }

// --- Rows along x ------------------------------------------------------------------------------------------

#if WITH_X
template <bool LATE>
using InnerX = Axis<Rows<MX, PX, TX, LATE>, Radices<RADICES_X>, Radices<REVERSED_X>>;
#if NX % 2 && MX == NX
template <bool LATE>
using RowsOf = OddRows<InnerX<LATE>, NX>;
#elif NX % 2
template <bool LATE>
using RowsOf = ConvolvedOddRows<EverySecond<InnerX<LATE>, NX>>;
#else
template <bool LATE>
using RowsOf = RealRows<typename OfLength<InnerX<LATE>, NX / 2>::Type>;
#endif
typedef RowsOf<true> RowsX;
typedef RowsX::A AxisX;
typedef AxisX::Layout LayoutX;

// Points 2j and 2j + 1 of a row. With an odd number of points rows are not aligned to pairs, and the last pair has one point.
INLINE Complex pair_at(const REAL *row, int j) {
    if constexpr (NX % 2 == 0) return *(const Complex *)(row + 2 * j);
    else return {row[2 * j], 2 * j + 1 < NX ? row[2 * j + 1] : (REAL)0};
}
INLINE void put_pair(REAL *row, int j, Complex value) {
    if constexpr (NX % 2 == 0) *(Complex *)(row + 2 * j) = value;
    else {
        row[2 * j] = value.x;
        if (2 * j + 1 < NX) row[2 * j + 1] = value.y;
    }
}

// Row that this thread works on: one of all rows, or an entry of a list of `count` row numbers. With PLANE it lies in plane
// blockIdx.z, so that kernels do not depend on the number of planes.
struct Row {
    Index number;
    bool here;
    int y, z;
    INLINE Row(const int *list = nullptr, int count = 0) {
        const Index entry = (Index)blockIdx.x * TX + threadIdx.x / PX;
        here = entry < (list == nullptr ? ROWS : (Index)count);
        number = !here ? 0 : list == nullptr ? entry : (Index)list[entry];
        y = number % NY;
        z = PLANE ? blockIdx.z : number / NY;
        if (PLANE) number += (Index)z * NY;
    }
    INLINE Index at(int j) const { return number * NX + 2 * j; }
    INLINE Complex get(const REAL *field, int j) const {
        return here ? pair_at(field + at(0), j) : Complex{0, 0};
    }
    INLINE void put(REAL *field, int j, Complex value) const {
        if (here) put_pair(field + at(0), j, value);
    }
};

// Shared memory for one row per transform of this block; `entry` numbers these spaces. Rows are copied there
// asynchronously: many loads are in flight without registers while other threads compute. A transform then exchanges
// values where its spectrum was; values of points also stay there while registers are used for others.
struct Space {
    Complex *all, *mine;
    INLINE Space(int entry)
        : all((Complex *)memory + entry * TX * LayoutX::space), mine(all + LayoutX::transform() * LayoutX::space) {}
    template <int BYTES>
    static INLINE void copy(void *target, const void *source) {
#ifdef __CUDA_ARCH__
        const unsigned to = (unsigned)__cvta_generic_to_shared(target);
        if constexpr (BYTES == 1) *(char *)target = *(const char *)source;
        else if constexpr (BYTES == 2) *(short *)target = *(const short *)source;
        else if constexpr (BYTES == 16)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(source) : "memory");
        else asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(source), "n"(BYTES) : "memory");
#else
        memcpy(target, source, BYTES);
#endif
    }
    template <int BYTES>
    INLINE void fill(const void *source, int bytes) const {
        char *target = (char *)mine;
        for (int at = LayoutX::lane() * BYTES; at < bytes; at += PX * BYTES)
            copy<BYTES>(target + at, (const char *)source + at);
    }
    // Copy a row of a spectrum, with padding to whole 16-byte words.
    INLINE void spectrum(const Complex *s, const Row &row) const {
        constexpr int bytes = HALF * sizeof(Complex);
        fill<16>(s + row.number * PITCH, (bytes + 15) / 16 * 16);
    }
    INLINE void field(const REAL *f, const Row &row) const {
        constexpr int bytes = NX * sizeof(REAL), word = NX % 2 ? sizeof(REAL) : bytes % 16 ? sizeof(Complex) : 16;
        fill<word>(f + row.at(0), bytes);
    }
    static INLINE void commit() {
#ifdef __CUDA_ARCH__
        asm volatile("cp.async.commit_group;" ::: "memory");
#endif
    }
    // Wait until all groups of copies but the last `LATER` are complete, also those of the row's other threads.
    template <int LATER>
    static INLINE void wait() {
#ifdef __CUDA_ARCH__
        asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
#endif
        LayoutX::sync();
    }
    INLINE void back(Complex *v, const Complex *twiddle) const {
        RowsX::back(v, all, twiddle, [&](int k) { return mine[k]; });
    }
    template <class R = RowsX>
    INLINE void forth(Complex *v, const Row &row, Complex *spectrum, const Complex *twiddle) const {
        Complex *entries = spectrum + row.number * PITCH;
        R::forth(v, all, twiddle, [&](int k, Complex value) { if (row.here) entries[k] = value; });
    }
};
#endif
