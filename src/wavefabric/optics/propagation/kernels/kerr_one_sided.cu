// Kerr operators over several ranks, one kernel each: threads store powers directly in the memory of the other GPUs, and
// wait for the powers that they need. After signals.cu; the kernels of kerr_chunks.cu do the same in several launches.
//
// A block works on tiles of TILE samples, one after another; a block works on the same tiles on all ranks. All rows of a
// tile stay in shared memory, so that a field is read and written once. While the powers of one block are in transit, the
// other blocks of the multiprocessor compute: BLOCKS of them are resident.
//
// A round is the exchange for one phase rate. A block numbers the tiles of a round consecutively over all calls. Powers
// of tile s go to slot s % SLOTS of each rank. The last bit of a power is a mark, which flips each time that a slot is
// written: it shows the reader whether the power has been stored, so that no fence is needed. All ranks use the power
// without that bit, whatever the mark.
//
// A slot is free when a block writes it: the block has seen the target rank's powers of the previous tile, which that
// rank's block sent after it had read all powers of the tile before.
//
// Compiled once per TILE (threadIdx.x), LANES (rows of threads, threadIdx.y), OUTPUTS (phase rates per thread), PARTS (parts
// with powers in shared memory at once), BLOCKS, and FIELDS: for the operators that read one field, or two.

#include "kerr.h"

#define SLOTS 2
#define KEPT 4  // numbers per own part: those that an operator keeps, and its first power, later its last rate
#define RATE (KEPT - 1)

// Word: unsigned integer in which a power is sent to other ranks.
template <int BYTES> struct Traveling { typedef unsigned long long Word; };
template <> struct Traveling<4> { typedef unsigned Word; };
typedef Traveling<sizeof(REAL)>::Word Word;

__device__ __forceinline__ Word bits_of(double power) { return (Word)__double_as_longlong(power); }
__device__ __forceinline__ Word bits_of(float power) { return (Word)__float_as_uint(power); }
// Round a power so that its last bit is 0, ties to even: truncation errors are alike in every step and would add up.
__device__ __forceinline__ Word word_of(REAL power)
{
    const Word bits = bits_of(power);
    return power == power ? bits + (bits >> 1 & 1) : bits;  // a NaN must stay a NaN
}
__device__ __forceinline__ REAL power_of(unsigned long long word) { return REAL(__longlong_as_double((long long)word)); }
__device__ __forceinline__ REAL power_of(unsigned word) { return REAL(__uint_as_float(word)); }
__device__ __forceinline__ Word marked(Word word, unsigned tile) { return (word & ~Word(1)) | (~(tile / SLOTS) & 1); }

struct Peers {
    int ranks, rank, rows, own, parts, first;  // numbers of parts of phase groups: own, of all ranks; first own part
    int transfers, from, to;                   // whether anything is sent; which parts are coupled
    int padded;                                // own, rounded up to a multiple of OUTPUTS * LANES
    const int *start;                          // (own + 1,) first row of each own part
    const int *row_part;                       // (rows,)
    const int *lane_start, *lane_part;         // which own parts each row of threads sums: (LANES + 1,), (own,)
    const int *part_rank;                      // (parts,) rank that owns each part
    const REAL *matrix;                        // (parts, padded) rad/(W m)
    Word *const *slots;                        // per rank: (blocks, 2 rounds, SLOTS, parts, TILE), initially 0
    unsigned *tiles;                           // (blocks, 2 rounds) tiles in all previous calls
    unsigned *late;
    unsigned long long timeout;
};

// Start copying one sample to shared memory, asynchronously; `copied` waits for the copies of this thread.
__device__ __forceinline__ void copy_ahead(REAL2 *shared, const REAL2 *from)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    if constexpr (sizeof(REAL2) == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(from) : "memory");
#else
    *shared = __ldcs(from);
#endif
}
__device__ __forceinline__ void copied()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

extern __shared__ __align__(16) unsigned char shared_bytes[];

struct Block {
    const Peers &p;
    Timeout timeout;
    // In shared memory.
    REAL2 *a, *k;     // (rows, TILE); k only for two fields
    REAL *values;     // (PARTS, TILE) powers
    REAL *weights;    // (PARTS, OUTPUTS * LANES) weights of powers in the rates of own parts
    REAL *numbers;    // (KEPT, own, TILE)
    bool whole;       // whether all weights fit, so that they are loaded once

    __device__ __forceinline__ explicit Block(const Peers &peers) : p(peers), timeout{peers.late, peers.timeout, false}
    {
        a = reinterpret_cast<REAL2 *>(shared_bytes);
        k = a + p.rows * TILE;
        values = reinterpret_cast<REAL *>(a + FIELDS * p.rows * TILE);
        weights = values + PARTS * TILE;
        numbers = weights + PARTS * OUTPUTS * LANES;
        whole = p.parts <= PARTS && p.own <= OUTPUTS * LANES;
        if (whole) load_weights(0, 0, p.parts);
    }
    // Address of the powers of all parts in one round of a tile, in a rank's memory: (parts, TILE).
    __device__ __forceinline__ volatile Word *powers(int rank, unsigned tile, int round) const
    {
        return p.slots[rank] + (((Index)blockIdx.x * 2 + round) * SLOTS + tile % SLOTS) * p.parts * TILE;
    }
    // Store the power of an own part at this thread's sample in the memory of all ranks.
    __device__ __forceinline__ void send(REAL power, int part, unsigned tile, int round) const
    {
        const Index at = (Index)(p.first + part) * TILE + threadIdx.x;
        for (int r = 0; r < p.ranks; ++r)
            if (r == p.rank || p.transfers) powers(r, tile, round)[at] = marked(word_of(power), tile);
    }
    __device__ __forceinline__ int thread() const { return threadIdx.y * TILE + threadIdx.x; }

    // Wait for the powers of `here` parts from `first` on, and copy them to `values`.
    __device__ __forceinline__ void await(int first, int here, unsigned tile, int round)
    {
        const volatile Word *const from = powers(p.rank, tile, round) + (Index)first * TILE;
        constexpr int BATCH = 4, THREADS = TILE * LANES;
        for (int begin = thread(); begin < here * TILE; begin += BATCH * THREADS) {
            Word word[BATCH];
            int missing;
            Watch watch;
            do {
                missing = -1;
#pragma unroll
                for (int b = 0; b < BATCH; ++b)
                    if (begin + b * THREADS < here * TILE) word[b] = from[begin + b * THREADS];
#pragma unroll
                for (int b = 0; b < BATCH; ++b) {
                    if (begin + b * THREADS >= here * TILE || word[b] == marked(word[b], tile)) continue;
                    const int rank = p.part_rank[first + (begin + b * THREADS) / TILE];
                    if (p.transfers || rank == p.rank) missing = rank;
                }
            } while (missing >= 0 && timeout.lasts(watch, missing));
#pragma unroll
            for (int b = 0; b < BATCH; ++b)
                if (begin + b * THREADS < here * TILE) values[begin + b * THREADS] = power_of(word[b] & ~Word(1));
        }
    }

    __device__ __forceinline__ void load_weights(int base, int first, int here) const
    {
        for (int i = thread(); i < here * OUTPUTS * LANES; i += TILE * LANES) {
            const int d = i / (OUTPUTS * LANES), c = i % (OUTPUTS * LANES);
            weights[i] = p.matrix[(first + d) * p.padded + base + c];
        }
    }
    // Call use(part, rate) for the own parts of this row of threads, at this thread's sample: rate = matrix @ powers. Return
    // false, without any such call, if a rank did not send its powers in time.
    template <class Use> __device__ __forceinline__ bool couple(unsigned tile, int round, Use use)
    {
        for (int base = 0; base < p.own; base += OUTPUTS * LANES) {
            REAL rate[OUTPUTS] = {};
            for (int first = 0; first < p.parts; first += PARTS) {
                const int here = min(PARTS, p.parts - first), end = min(here, p.to - first);
                __syncthreads();
                if (!whole) load_weights(base, first, here);
                await(first, here, tile, round);
                if (__syncthreads_or(timeout.missed)) return false;
#pragma unroll 4
                for (int d = max(0, p.from - first); d < end; ++d) {
                    const REAL v = values[d * TILE + threadIdx.x];
                    const REAL *const weight = weights + (d * LANES + threadIdx.y) * OUTPUTS;
#pragma unroll
                    for (int c = 0; c < OUTPUTS; ++c) rate[c] += weight[c] * v;
                }
            }
#pragma unroll
            for (int c = 0; c < OUTPUTS; ++c) {
                const int part = base + threadIdx.y * OUTPUTS + c;
                if (part < p.own) use(part, rate[c]);
            }
        }
        return true;
    }
};

// Run an operator of one or two stages.
template <class Operator>
__device__ __forceinline__ void kerr(REAL2 *A, REAL2 *K, double h, double *errors, Index n, const Peers *argument)
{
    constexpr int STAGES = Operator::STAGES;
    static_assert(FIELDS == 1 + Operator::READS_K, "shared memory is for so many");
    static_assert(STAGES <= 2 && Operator::NUMBERS <= RATE, "slots and numbers are for so many");
    const Peers p = *argument;
    Block block(p);
    REAL2 *const a = block.a, *const k = block.k;
    const int lane = threadIdx.y, x = threadIdx.x;
    const Index tiles = (n + TILE - 1) / TILE;
    const int mine = tiles > blockIdx.x ? (tiles - 1 - blockIdx.x) / gridDim.x + 1 : 0;
    unsigned *const tiles_before = p.tiles + 2 * blockIdx.x;
    const unsigned before[2] = {tiles_before[0], tiles_before[1]};
    const int stride = p.own * TILE;  // between the numbers of a part
    double error = 0;

    // Each thread loads the samples that it updates, so it may load those of the next tile once it has updated this tile.
    const auto load = [&](int j) {
        const Index t = (blockIdx.x + (Index)j * gridDim.x) * TILE + x;
        if (j >= mine || t >= n) return;
        for (int r = lane; r < p.rows; r += LANES) {
            copy_ahead(a + r * TILE + x, A + r * n + t);
            if (Operator::READS_K) copy_ahead(k + r * TILE + x, K + r * n + t);
        }
    };
    load(0);
    for (int j = 0; j < mine; ++j) {
        const Index t = (blockIdx.x + (Index)j * gridDim.x) * TILE + x;
        copied();
        __syncthreads();
        for (int i = p.lane_start[lane]; i < p.lane_start[lane + 1]; ++i) {
            const int part = p.lane_part[i], end = t < n ? p.start[part + 1] : 0;
            Sums sums = {};
#pragma unroll 4
            for (int r = p.start[part]; r < end; ++r) {
                const REAL2 first = a[r * TILE + x];
                sums = sums + Operator::row(first, Operator::READS_K ? k[r * TILE + x] : first, h);
            }
            REAL *const numbers = block.numbers + part * TILE + x;
            Operator::begin(sums, numbers, stride);
            numbers[RATE * stride] = sums.yy;
            block.send(sums.yy, part, before[0] + j, 0);
        }
        if (STAGES == 2) {
            const bool complete = block.couple(before[0] + j, 0, [&](int part, REAL rate) {
                REAL *const numbers = block.numbers + part * TILE + x;
                numbers[0] = rate;  // two-stage operators expect the first rate as number 0
                block.send(Operator::advance(0, rate, numbers[RATE * stride], numbers, stride, h), part, before[1] + j, 1);
            });
            if (!complete) return;
        }
        REAL *const rates = block.numbers + RATE * stride;  // TURNS: factor less 1, real part; imaginary part in numbers[0]
        const auto keep = [&](int part, REAL rate) {
            const int at = part * TILE + x;
            if constexpr (Operator::TURNS)  // once for all rows of the part
                Operator::turn(rate, block.numbers + at, stride, h, &rates[at], &block.numbers[at]);
            else
                rates[at] = rate;
        };
        if (!block.couple(before[STAGES - 1] + j, STAGES - 1, keep)) return;
        __syncthreads();
        if (t < n)
            for (int r = lane; r < p.rows; r += LANES) {
                const int at = p.row_part[r] * TILE + x;
                const REAL2 first = a[r * TILE + x], second = Operator::READS_K ? k[r * TILE + x] : first;
                Row now;
                if constexpr (Operator::TURNS) now.a = turned(first, rates[at], block.numbers[at]);
                else now = Operator::update(first, second, rates[at], block.numbers + at, stride, h);
                if (Operator::MEASURES && errors) error += 0.01 * h * h * squared_difference(now, h);
                if (Operator::WRITES_A) __stcs(A + r * n + t, now.a);
                if (Operator::WRITES_K) __stcs(K + r * n + t, now.k);
            }
        load(j + 1);
    }
    __syncthreads();
    if (block.thread() < STAGES) tiles_before[block.thread()] += mine;
    if (Operator::MEASURES && errors) {
        double *const all = reinterpret_cast<double *>(shared_bytes);
        all[block.thread()] = error;
        for (int half = TILE * LANES / 2; half > 0; half >>= 1) {
            __syncthreads();
            if (block.thread() < half) all[block.thread()] += all[block.thread() + half];
        }
        if (block.thread() == 0) errors[blockIdx.x] = all[0];
    }
}

// Grid: all calls use the same number of blocks, and the blocks of all ranks must be resident at the same time. errors: null,
// or one double per block for the squared local error. Operators of more stages use the kernels of kerr_chunks.cu.
#define KERNEL(name, Operator)                                                                        \
    extern "C" __global__ void __launch_bounds__(TILE * LANES, BLOCKS)                                \
    name(REAL2 *A, REAL2 *K, double h, double *errors, Index n, const Peers *peers)                   \
    {                                                                                                 \
        kerr<Operator>(A, K, h, errors, n, peers);                                                    \
    }
#if FIELDS == 1
KERR_OPERATORS_OF_ONE_FIELD(KERNEL)
#else
KERR_OPERATORS_OF_TWO_FIELDS(KERNEL)
#endif
