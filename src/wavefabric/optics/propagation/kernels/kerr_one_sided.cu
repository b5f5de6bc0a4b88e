// Kerr operators over ranks, each one kernel: powers go straight into the memory of the other GPUs, and the threads that
// need theirs wait for them. After signals.cu and kerr_formulas.cu; the kernels of kerr_chunks.cu do the same one after
// another, and those of kerr.py are the reference.
//
// A block works on tiles of TILE samples, on all ranks the same block on the same ones. While the powers of one
// tile travel it sums those of the next and updates the rows of the one before, so what a tile needs of the fields
// is read twice within a short time.
//
// A tile is numbered by how many the block has had, in all calls. Powers of tile s go to slot s % SLOTS of each rank. That
// slot is free: before a block writes it, it has seen powers of tile s - 2, or of a later round of tile s - 3, of the
// rank it writes to, which that rank's block sent after it had read all of tile s - 4.
//
// Compiled once per TILE (threadIdx.x), LANES (rows of threads, threadIdx.y) and OUTPUTS (phase rates a thread).

#define SLOTS 4
#define PARTS 32  // whose powers are in shared memory at once
#define KEPT 4  // of an own part in scratch: what an operator keeps, and the rate of its last stage at the end
#define RATE (KEPT - 1)

struct Peers {
    int ranks, rank, rows, own, parts, first;  // parts of phase groups: own, of all ranks, first own one
    int transfers, from, to;                   // whether anything is sent; which parts are coupled
    int padded;                                // own, up to a whole number of OUTPUTS * LANES
    const int *start;                          // (own + 1,) first row of each own part
    const int *row_part;                       // (rows,)
    const int *lane_start, *lane_part;         // which own parts each row of threads sums: (LANES + 1,), (own,)
    const REAL *matrix;                        // (parts, padded) rad/(W m)
    REAL *const *slots;                        // of each rank: (blocks, SLOTS, 2, parts, TILE)
    unsigned *const *sent;                     // of each rank: (blocks, 2, ranks), by sender: tiles that are there
    REAL *scratch;                             // (blocks, 2, KEPT, own, TILE)
    unsigned *tiles;                           // (blocks,) in all calls before
    unsigned *late;
    unsigned long long timeout;
};

// Powers of PARTS parts of a tile, and their weights in the rates of the own parts.
struct alignas(16) Shared {  // doubles are summed here too
    REAL values[PARTS * TILE], weights[PARTS * OUTPUTS * LANES];
};

struct Block {
    const Peers &p;
    Shared &shared;
    Timeout timeout;

    // Powers of all parts in one round of a tile, in a rank's memory: (parts, TILE).
    __device__ __forceinline__ REAL *powers(int rank, unsigned tile, int round) const
    {
        return p.slots[rank] + (((Index)blockIdx.x * SLOTS + tile % SLOTS) * 2 + round) * p.parts * TILE;
    }
    // One of the numbers of the own parts of a tile, (own, TILE).
    __device__ __forceinline__ REAL *numbers(unsigned tile, int which) const
    {
        return p.scratch + (((Index)blockIdx.x * 2 + tile % 2) * KEPT + which) * p.own * TILE;
    }
    // Power of an own part at this thread's sample, to all ranks.
    __device__ __forceinline__ void send(REAL power, int part, unsigned tile, int round) const
    {
        const Index at = (Index)(p.first + part) * TILE + threadIdx.x;
        for (int k = 0; k < p.ranks; ++k)
            if (k == p.rank || p.transfers) powers(k, tile, round)[at] = power;
    }
    __device__ __forceinline__ unsigned *counter(int owner, int round, int sender) const
    {
        return p.sent[owner] + ((Index)blockIdx.x * 2 + round) * p.ranks + sender;
    }
    __device__ __forceinline__ int thread() const { return threadIdx.y * TILE + threadIdx.x; }

    // All threads of the block have sent theirs.
    __device__ __forceinline__ void announce_tile(unsigned tile, int round) const
    {
        __syncthreads();
        if (!p.transfers) return;
        for (int k = thread(); k < p.ranks; k += TILE * LANES)
            if (k != p.rank) announce(counter(k, round, p.rank), tile + 1);
    }
    // False if a rank did not come.
    __device__ __forceinline__ bool await_tile(unsigned tile, int round)
    {
        if (p.transfers)
            for (int k = thread(); k < p.ranks; k += TILE * LANES)
                if (k != p.rank) timeout.wait(counter(p.rank, round, k), tile + 1, k);
        return !__syncthreads_or(timeout.missed);
    }

    // use(part, rate) for the own parts of this row of threads, at this thread's sample: rate = matrix @ powers.
    template <class Use> __device__ __forceinline__ void couple(unsigned tile, int round, Use use) const
    {
        const volatile REAL *const from = powers(p.rank, tile, round);  // other GPUs write here while the kernel runs
        for (int base = 0; base < p.own; base += OUTPUTS * LANES) {
            REAL rate[OUTPUTS] = {};
            for (int d0 = p.from; d0 < p.to; d0 += PARTS) {
                const int here = min(PARTS, p.to - d0);
                __syncthreads();
                for (int i = thread(); i < here * TILE; i += TILE * LANES) shared.values[i] = from[(Index)d0 * TILE + i];
                for (int i = thread(); i < here * OUTPUTS * LANES; i += TILE * LANES) {
                    const int d = i / (OUTPUTS * LANES), c = i % (OUTPUTS * LANES);
                    shared.weights[i] = p.matrix[(d0 + d) * p.padded + base + c];
                }
                __syncthreads();
#pragma unroll 4
                for (int d = 0; d < here; ++d) {
                    const REAL v = shared.values[d * TILE + threadIdx.x];
                    const REAL *const weights = shared.weights + (d * LANES + threadIdx.y) * OUTPUTS;
#pragma unroll
                    for (int c = 0; c < OUTPUTS; ++c) rate[c] += weights[c] * v;
                }
            }
#pragma unroll
            for (int c = 0; c < OUTPUTS; ++c) {
                const int part = base + threadIdx.y * OUTPUTS + c;
                if (part < p.own) use(part, rate[c]);
            }
        }
    }
};

// An operator of one or two stages.
template <class Operator>
__device__ __forceinline__ void kerr(REAL2 *A, REAL2 *K, double h, double *errors, Index n, const Peers *argument)
{
    constexpr int STAGES = Operator::STAGES;
    static_assert(STAGES <= 2 && Operator::NUMBERS <= RATE, "slots and scratch are for so many");
    __shared__ Shared shared;
    const Peers p = *argument;
    Block block = {p, shared, {p.late, p.timeout, false}};
    const int lane = threadIdx.y, x = threadIdx.x;
    const Index tiles = (n + TILE - 1) / TILE;
    const int mine = tiles > blockIdx.x ? (tiles - 1 - blockIdx.x) / gridDim.x + 1 : 0;
    const unsigned before = p.tiles[blockIdx.x];
    const Index stride = (Index)p.own * TILE;  // of the numbers of a part
    const auto sample = [&](int j) { return (blockIdx.x + (Index)j * gridDim.x) * TILE + x; };
    double error = 0;

    const auto begin = [&](int j) {
        const unsigned tile = before + j;
        const Index t = sample(j);
        if (t < n)
            for (int i = p.lane_start[lane]; i < p.lane_start[lane + 1]; ++i) {
                const int part = p.lane_part[i], end = p.start[part + 1];
                Sums sums = {};
#pragma unroll 4
                for (int r = p.start[part]; r < end; ++r) {
                    const REAL2 a = A[r * n + t];
                    sums.add(Operator::row(a, Operator::READS_K ? K[r * n + t] : a, h));
                }
                Operator::begin(sums, block.numbers(tile, 0) + part * TILE + x, stride);
                block.send(sums.yy, part, tile, 0);
            }
        block.announce_tile(tile, 0);
    };
    const auto advance = [&](int j) {
        const unsigned tile = before + j;
        if (!block.await_tile(tile, 0)) return false;
        const REAL *const powers = block.powers(p.rank, tile, 0) + (Index)p.first * TILE;
        block.couple(tile, 0, [&](int part, REAL rate) {
            const int at = part * TILE + x;
            REAL *const numbers = block.numbers(tile, 0) + at;
            numbers[0] = rate;  // the first of the numbers of operators of two stages
            block.send(Operator::advance(0, rate, powers[at], numbers, stride, h), part, tile, 1);
        });
        block.announce_tile(tile, 1);
        return true;
    };
    const auto end = [&](int j) {
        const unsigned tile = before + j;
        if (!block.await_tile(tile, STAGES - 1)) return false;
        REAL *const rates = block.numbers(tile, RATE);
        block.couple(tile, STAGES - 1, [&](int part, REAL rate) { rates[part * TILE + x] = rate; });
        __syncthreads();
        const Index t = sample(j);
        if (t < n)
            for (int r = lane; r < p.rows; r += LANES) {
                const int at = p.row_part[r] * TILE + x;
                const Index here = r * n + t;
                const REAL2 a = __ldcs(A + here), k = Operator::READS_K ? __ldcs(K + here) : a;
                const Row now = Operator::update(a, k, rates[at], block.numbers(tile, 0) + at, stride, h);
                if (Operator::MEASURES && errors) error += 0.01 * h * h * squared_difference(now, h);
                if (Operator::WRITES_A) put(A + here, now.a);
                if (Operator::WRITES_K) put(K + here, now.k);
            }
        return true;
    };

    for (int j = 0; j < mine + STAGES; ++j) {
        if (j < mine) begin(j);
        if (STAGES == 2 && 0 < j && j <= mine && !advance(j - 1)) return;
        if (j >= STAGES && !end(j - STAGES)) return;
    }
    __syncthreads();
    if (block.thread() == 0) p.tiles[blockIdx.x] = before + mine;
    if (Operator::MEASURES && errors) {
        double *const all = (double *)shared.values;
        static_assert(sizeof(shared.values) >= TILE * LANES * sizeof(double), "one a thread");
        all[block.thread()] = error;
        for (int k = TILE * LANES / 2; k > 0; k >>= 1) {
            __syncthreads();
            if (block.thread() < k) all[block.thread()] += all[block.thread() + k];
        }
        if (block.thread() == 0) errors[blockIdx.x] = all[0];
    }
}

// Grid: as many blocks in all calls, all of them resident at once with those of the other ranks. errors: null, or one
// double a block for the squared local error. Operators of more stages go through the kernels of kerr_chunks.cu.
#define KERNEL(name, Operator)                                                                        \
    extern "C" __global__ void __launch_bounds__(TILE * LANES, 2)                                     \
    name(REAL2 *A, REAL2 *K, double h, double *errors, Index n, const Peers *peers)                   \
    {                                                                                                 \
        kerr<Operator>(A, K, h, errors, n, peers);                                                    \
    }
KERR_OPERATORS_UP_TO_TWO_STAGES(KERNEL)
