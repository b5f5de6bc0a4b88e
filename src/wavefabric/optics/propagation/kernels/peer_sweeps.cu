// Sweeps of the Kerr operator over ranks, each one kernel: powers go straight into the memory of the other GPUs, and the
// threads that need theirs wait for them. After signals.cu and kerr_formulas.cu; the kernels of kerr_ranks.py, which do
// the same one after another, are the reference.
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
#define THETA 2
#define RATE 3

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
    REAL *scratch;                             // (blocks, 2, 4, own, TILE)
    unsigned *tiles;                           // (blocks,) in all calls before
    unsigned *late;
    unsigned long long timeout;
};

enum Kind { DERIVATIVE, ROTATE, MIDDLE, LAST };

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
    // Numbers of the own parts of a tile: |x|^2, Im x*y, theta or rate, (own, TILE).
    __device__ __forceinline__ REAL *numbers(unsigned tile, int which) const
    {
        return p.scratch + (((Index)blockIdx.x * 2 + tile % 2) * 4 + which) * p.own * TILE;
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

template <int KIND>
__device__ __forceinline__ void sweep(REAL2 *A, REAL2 *K, double h, double *errors, Index n, const Peers *given)
{
    constexpr int ROUNDS = KIND == MIDDLE || KIND == LAST ? 2 : 1;
    __shared__ Shared shared;
    const Peers p = *given;
    Block block = {p, shared, {p.late, p.timeout, false}};
    const int lane = threadIdx.y, x = threadIdx.x;
    const Index tiles = (n + TILE - 1) / TILE;
    const int mine = tiles > blockIdx.x ? (tiles - 1 - blockIdx.x) / gridDim.x + 1 : 0;
    const unsigned before = p.tiles[blockIdx.x];
    const auto sample = [&](int j) { return (blockIdx.x + (Index)j * gridDim.x) * TILE + x; };
    double error = 0;

    const auto begin = [&](int j) {
        const unsigned tile = before + j;
        const Index t = sample(j);
        if (t < n)
            for (int i = p.lane_start[lane]; i < p.lane_start[lane + 1]; ++i) {
                const int part = p.lane_part[i], end = p.start[part + 1];
                Sums sums;
#pragma unroll 4
                for (int r = p.start[part]; r < end; ++r) {
                    const REAL2 a = A[r * n + t];
                    if (ROUNDS == 1) {
                        sums.yy += power(a);
                    } else {
                        const REAL2 k = K[r * n + t];
                        if (KIND == MIDDLE) sums.add(a, ahead(a, k, REAL(0.5 * h)));
                        else sums.add(k, a);
                    }
                }
                if (ROUNDS == 2) {
                    block.numbers(tile, 0)[part * TILE + x] = sums.xx;
                    block.numbers(tile, 1)[part * TILE + x] = sums.xy;
                }
                block.send(sums.yy, part, tile, 0);
            }
        block.announce_tile(tile, 0);
    };
    const auto second_round = [&](int j) {
        const unsigned tile = before + j;
        if (!block.await_tile(tile, 0)) return false;
        const REAL factor = KIND == MIDDLE ? REAL(h) : REAL(h / 6.0);
        const REAL *const yy = block.powers(p.rank, tile, 0) + (Index)p.first * TILE;
        block.couple(tile, 0, [&](int part, REAL theta) {
            const int at = part * TILE + x;
            block.numbers(tile, THETA)[at] = theta;
            block.send(next_power(block.numbers(tile, 0)[at], yy[at], block.numbers(tile, 1)[at], factor * theta,
                                  KIND == MIDDLE ? REAL(0.25) : REAL(1), KIND == MIDDLE ? REAL(1) : REAL(2)),
                       part, tile, 1);
        });
        block.announce_tile(tile, 1);
        return true;
    };
    const auto end = [&](int j) {
        const unsigned tile = before + j;
        if (!block.await_tile(tile, ROUNDS - 1)) return false;
        REAL *const rates = block.numbers(tile, RATE);
        block.couple(tile, ROUNDS - 1, [&](int part, REAL rate) { rates[part * TILE + x] = rate; });
        __syncthreads();
        const Index t = sample(j);
        if (t < n)
            for (int r = lane; r < p.rows; r += LANES) {
                const int at = p.row_part[r] * TILE + x;
                const Index here = r * n + t;
                const REAL rate = rates[at];
                if (KIND == DERIVATIVE) put(K + here, times_i(__ldcs(A + here), rate));
                if (KIND == ROTATE) put(A + here, rotated(__ldcs(A + here), REAL(h) * rate));
                if (ROUNDS == 2) {
                    const REAL theta = block.numbers(tile, THETA)[at];
                    const REAL2 a = __ldcs(A + here), k = __ldcs(K + here);
                    Last now;
                    if (KIND == MIDDLE) now = {middle(a, scaled(k, REAL(0.5 * h)), REAL(h) * theta, REAL(h) * rate)};
                    else now = last(a, k, REAL(h / 6.0) * theta, rate);
                    if (KIND == LAST && errors) error += 0.01 * h * h * squared_difference(now, h);
                    put(A + here, now.a);
                    put(K + here, now.k);
                }
            }
        return true;
    };

    for (int j = 0; j < mine + ROUNDS; ++j) {
        if (j < mine) begin(j);
        if (ROUNDS == 2 && 0 < j && j <= mine && !second_round(j - 1)) return;
        if (j >= ROUNDS && !end(j - ROUNDS)) return;
    }
    __syncthreads();
    if (block.thread() == 0) p.tiles[blockIdx.x] = before + mine;
    if (errors) {
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

// Grid: as many blocks in all calls, all of them resident at once with those of the other ranks.
#define SWEEP extern "C" __global__ void __launch_bounds__(TILE * LANES, 2)

SWEEP derivative(REAL2 *A, REAL2 *K, Index n, const Peers *peers) { sweep<DERIVATIVE>(A, K, 0, nullptr, n, peers); }

SWEEP rotate(REAL2 *A, double h, Index n, const Peers *peers) { sweep<ROTATE>(A, nullptr, h, nullptr, n, peers); }

SWEEP rk4ip_middle(REAL2 *A, REAL2 *K, double h, Index n, const Peers *peers)
{
    sweep<MIDDLE>(A, K, h, nullptr, n, peers);
}

// errors: null, or one double a block for the squared local error.
SWEEP rk4ip_last(REAL2 *A, REAL2 *K, double h, double *errors, Index n, const Peers *peers)
{
    sweep<LAST>(A, K, h, errors, n, peers);
}
