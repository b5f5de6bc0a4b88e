// CUDA C++ on a CPU, for tests of what kernels compute: emulated_cuda.py puts this before a source.
// Blocks run one after another. Threads of a block are fibers that run from one barrier to the next, in a
// random order, so that a missing barrier shows. Threads that have returned do not count at barriers.
// __activemask() names all threads of a warp that have not returned: it knows no divergence.

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <type_traits>
#include <utility>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

// __global__, __launch_bounds__ and __shared__ are left for emulated_cuda.py.
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))

#define VECTORS(type, name, align2, align4)                                                                  \
    struct name##1 { type x; };                                                                              \
    struct __align__(align2) name##2 { type x, y; };                                                         \
    struct name##3 { type x, y, z; };                                                                        \
    struct __align__(align4) name##4 { type x, y, z, w; };                                                   \
    inline name##1 make_##name##1(type x) { return {x}; }                                                    \
    inline name##2 make_##name##2(type x, type y) { return {x, y}; }                                         \
    inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }                              \
    inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
VECTORS(signed char, char, 2, 4)
VECTORS(unsigned char, uchar, 2, 4)
VECTORS(short, short, 4, 8)
VECTORS(unsigned short, ushort, 4, 8)
VECTORS(int, int, 8, 16)
VECTORS(unsigned, uint, 8, 16)
VECTORS(long long, longlong, 16, 16)
VECTORS(unsigned long long, ulonglong, 16, 16)
VECTORS(float, float, 8, 16)
VECTORS(double, double, 16, 16)

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
constexpr int warpSize = 32;

// --- Fibers ------------------------------------------------------------------------------------------------

namespace emulated {
constexpr unsigned THREADS = 1024, DYNAMIC = 227 * 1024, GUARD = 4096;
constexpr size_t STACK = 256 * 1024;
// Dynamic shared memory; what a launch does not ask for is never written.
alignas(1024) static unsigned char dynamic_memory[DYNAMIC + GUARD];
// A variable that is __shared__: registered where it is first declared, filled with NaN before each block.
struct Shared {
    void *at;
    size_t size;
    Shared *next;
    Shared(void *at, size_t size);
    void fill() { memset(at, 0xff, size); }
};
static Shared *variables;
Shared::Shared(void *at, size_t size) : at(at), size(size), next(variables) {
    variables = this;
    fill();
}

static void thread_main();
#if defined(__x86_64__)
// Saves what a callee must keep and the stack's top; goes on with another stack.
extern "C" __attribute__((visibility("hidden"))) void emulated_switch(void **from, void *to);
asm(".pushsection .text\n.hidden emulated_switch\n.type emulated_switch, @function\nemulated_switch:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
    ".size emulated_switch, .-emulated_switch\n.popsection\n");
typedef void *Context;
static void jump(Context &from, Context &to) { emulated_switch(&from, to); }
static void prepare(Context &context, char *stack) {
    void **top = (void **)(stack + STACK) - 8;  // six registers, where to return to, and a return address
    memset(top, 0, 8 * sizeof(void *));
    top[6] = (void *)thread_main;
    context = top;
}
#else
typedef ucontext_t Context;
static void jump(Context &from, Context &to) { swapcontext(&from, &to); }
static void prepare(Context &context, char *stack) {
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = STACK;
    makecontext(&context, thread_main, 0);
}
#endif

enum State { READY, AT_BLOCK_BARRIER, AT_WARP_BARRIER, DONE };
struct Thread {
    Context context;
    uint3 index;
    State state;
    unsigned mask;  // of the barrier of a warp where it waits
};
static Context scheduler;
static Thread threads[THREADS], *members = threads, *running;  // `members`: of the block
static unsigned count, alive, votes, voters, last_votes, last_voters;
static unsigned char slots[THREADS][16];  // what threads of a warp show one another
static void (*kernel)(void **);
static void **kernel_arguments;
static const char *fault;

static void pause(State state) {
    running->state = state;
    jump(running->context, scheduler);
}

static void thread_main() {
    kernel(kernel_arguments);
    --alive;
    pause(DONE);
}

static void fail(const char *why) {
    fault = why;
    pause(READY);
}

static void sync_block(bool predicate) {
    votes += predicate;
    ++voters;
    pause(AT_BLOCK_BARRIER);
}

static unsigned lane() { return (running - members) % 32; }
static Thread *warp() { return running - lane(); }
static unsigned alive_lanes(Thread *warp) {
    unsigned lanes = 0;
    for (unsigned k = 0; k < 32 && warp + k < members + count; ++k)
        if (warp[k].state != DONE) lanes |= 1u << k;
    return lanes;
}

static void sync_warp(unsigned mask) {
    if (!(mask >> lane() & 1)) fail("a thread is not in its own mask");
    running->mask = mask;
    pause(AT_WARP_BARRIER);
}

// Whether threads that wait for one another could go on.
static bool release() {
    bool any = voters == alive;
    if (any) {
        last_votes = votes, last_voters = voters;
        votes = voters = 0;
        for (unsigned k = 0; k < count; ++k)
            if (members[k].state == AT_BLOCK_BARRIER) members[k].state = READY;
    }
    for (unsigned k = 0; k < count; ++k) {
        if (members[k].state != AT_WARP_BARRIER) continue;
        Thread *warp = members + k / 32 * 32;
        const unsigned mask = members[k].mask, wanted = mask & alive_lanes(warp);
        unsigned here = 0;
        for (unsigned i = 0; i < 32; ++i)
            if (wanted >> i & 1 && warp[i].state == AT_WARP_BARRIER && warp[i].mask == mask) here |= 1u << i;
        if (here != wanted) continue;
        any = true;
        for (unsigned i = 0; i < 32; ++i)
            if (wanted >> i & 1) warp[i].state = READY;
    }
    return any;
}

// A linear congruential generator (Knuth's MMIX).
static unsigned draw(uint64_t &seed) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return seed >> 32;
}

static void shuffle(unsigned *order, unsigned n, uint64_t &seed) {
    for (unsigned k = 0; k < n; ++k) order[k] = k;
    for (unsigned k = n; k > 1; --k) {
        const unsigned other = draw(seed) % k, mine = order[k - 1];
        order[k - 1] = order[other];
        order[other] = mine;
    }
}

static void begin_block(char *stacks, size_t shared) {
    memset(dynamic_memory, 0xff, shared + GUARD);
    for (Shared *variable = variables; variable; variable = variable->next) variable->fill();
    alive = count;
    votes = voters = 0;
    for (unsigned k = 0; k < count; ++k) {
        prepare(members[k].context, stacks + (members - threads + k) * (STACK + GUARD) + GUARD);
        members[k].index = {k % blockDim.x, k / blockDim.x % blockDim.y, k / (blockDim.x * blockDim.y)};
        members[k].state = READY;
    }
}

// Each thread as far as it goes.
static void play(const unsigned *order, uint64_t &seed) {
    bool moved = false;
    const unsigned held = draw(seed);  // half of the warps wait in each round: some get ahead of others
    for (unsigned k = 0; k < count; ++k) {
        running = members + order[k];
        if (running->state != READY) continue;
        moved = true;
        if (held >> order[k] / 32 & 1) continue;
        threadIdx = running->index;
        jump(scheduler, running->context);
        if (fault) return;
    }
    if (alive && !release() && !moved) fault = "threads wait at different barriers";
}

static void end_block(size_t shared) {
    for (size_t k = shared; k < shared + GUARD && !fault; ++k)
        if (dynamic_memory[k] != 0xff) fault = "wrote outside dynamic shared memory";
}

static void run_block(char *stacks, size_t shared, uint64_t &seed) {
    static unsigned order[THREADS];
    shuffle(order, count, seed);
    begin_block(stacks, shared);
    while (alive && !fault) play(order, seed);
    end_block(shared);
}

// Stacks of a block's threads, each behind a page that cannot be touched; null if there is no memory.
static char *make_stacks() {
    char *stacks = (char *)mmap(nullptr, THREADS * (STACK + GUARD), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) return nullptr;
    for (unsigned k = 0; k < THREADS; ++k) mprotect(stacks + k * (STACK + GUARD), GUARD, PROT_NONE);
    return stacks;
}

// One launch; null, or what went wrong.
static const char *launch(void (*body)(void **), char *stacks, const unsigned *sizes, size_t shared,
                          uint64_t seed, void **arguments) {
    gridDim = {sizes[0], sizes[1], sizes[2]};
    blockDim = {sizes[3], sizes[4], sizes[5]};
    count = blockDim.x * blockDim.y * blockDim.z;
    kernel = body;
    kernel_arguments = arguments;
    fault = nullptr;
    const unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
    unsigned *order = new unsigned[blocks];
    shuffle(order, blocks, seed);
    for (unsigned k = 0; k < blocks && !fault; ++k) {
        const unsigned b = order[k];
        blockIdx = {b % gridDim.x, b / gridDim.x % gridDim.y, b / (gridDim.x * gridDim.y)};
        run_block(stacks, shared, seed);
    }
    delete[] order;
    return fault;
}

// A block that takes turns with others: what is its own, while it does not run.
struct Block {
    dim3 grid, size;
    uint3 index;
    void **arguments;
    Thread *members;
    unsigned alive, votes, voters, last_votes, last_voters, *order;
    unsigned char *memory;  // dynamic shared memory and variables in shared memory
    size_t room;  // bytes of it
    Shared *held;  // the variables that are in it: this one and those after it
};

static void save_memory(Block &block, size_t shared) {
    size_t bytes = shared + GUARD;
    for (Shared *variable = variables; variable; variable = variable->next) bytes += variable->size;
    if (bytes > block.room) {
        delete[] block.memory;
        block.memory = new unsigned char[bytes], block.room = bytes;
    }
    unsigned char *at = block.memory;
    memcpy(at, dynamic_memory, shared + GUARD), at += shared + GUARD;
    block.held = variables;
    for (Shared *variable = variables; variable; at += variable->size, variable = variable->next)
        memcpy(at, variable->at, variable->size);
}

static void load_memory(Block &block, size_t shared) {
    const unsigned char *at = block.memory;
    memcpy(dynamic_memory, at, shared + GUARD), at += shared + GUARD;
    Shared *variable = variables;  // another block may have been the first to declare some
    for (; variable != block.held; variable = variable->next) variable->fill();
    for (; variable; at += variable->size, variable = variable->next) memcpy(variable->at, at, variable->size);
}

static void enter(Block &block) {
    gridDim = block.grid, blockDim = block.size, blockIdx = block.index;
    kernel_arguments = block.arguments, members = block.members;
    count = blockDim.x * blockDim.y * blockDim.z, alive = block.alive;
    votes = block.votes, voters = block.voters;
    last_votes = block.last_votes, last_voters = block.last_voters;
}

static void leave(Block &block) {
    block.alive = alive, block.votes = votes, block.voters = voters;
    block.last_votes = last_votes, block.last_voters = last_voters;
}

// Several launches at once, all of whose blocks take turns: they may wait for one another.
static const char *together(void (*body)(void **), char *stacks, unsigned launches, const unsigned *sizes, size_t shared,
                            uint64_t seed, void ***arguments) {
    unsigned blocks = 0, room = 0, left = 0;
    for (unsigned n = 0; n < launches; ++n) {
        const unsigned *s = sizes + 6 * n, own = s[0] * s[1] * s[2], size = s[3] * s[4] * s[5];
        blocks += own;
        room += own * ((size + 31) / 32 * 32);
    }
    if (room > THREADS) return "more threads than can take turns";
    Block *block = new Block[blocks];
    Thread *next = threads;
    kernel = body, fault = nullptr;
    for (unsigned n = 0; n < launches; ++n) {
        const unsigned *s = sizes + 6 * n, own = s[0] * s[1] * s[2], size = s[3] * s[4] * s[5];
        for (unsigned b = 0; b < own; ++b, ++left) {
            Block &one = block[left];
            one.grid = {s[0], s[1], s[2]}, one.size = {s[3], s[4], s[5]};
            one.index = {b % s[0], b / s[0] % s[1], b / (s[0] * s[1])};
            one.arguments = arguments[n], one.members = next, one.alive = size;
            one.votes = one.voters = one.last_votes = one.last_voters = 0;
            one.order = new unsigned[size], one.memory = nullptr, one.room = 0;
            shuffle(one.order, size, seed);
            next += (size + 31) / 32 * 32;
            enter(one);
            begin_block(stacks, shared);
            save_memory(one, shared);
            leave(one);
        }
    }
    for (unsigned turns = 0; left && !fault; ++turns) {
        Block &one = block[draw(seed) % blocks];
        if (!one.alive) continue;
        enter(one);
        load_memory(one, shared);
        play(one.order, seed);
        if (!alive) end_block(shared), --left, turns = 0;
        save_memory(one, shared);
        leave(one);
        if (turns > 1000000) fault = "blocks wait for one another in vain";
    }
    for (unsigned b = 0; b < blocks; ++b) delete[] block[b].order, delete[] block[b].memory;
    delete[] block;
    members = threads;
    return fault;
}

template <auto F, class... T, size_t... I>
void call(void (*)(T...), void **arguments, std::index_sequence<I...>) { F(*(T *)arguments[I]...); }
template <auto F, class... T>
void call(void (*f)(T...), void **arguments) { call<F>(f, arguments, std::index_sequence_for<T...>()); }
template <auto F>
void body(void **arguments) { call<F>(F, arguments); }

constexpr unsigned first(unsigned threads, unsigned = 0, unsigned = 0) { return threads; }

template <class T>
constexpr char kind() {
    if (std::is_pointer<T>::value) return 'p';
    if (std::is_floating_point<T>::value) return 'f';
    return std::is_integral<T>::value || std::is_enum<T>::value ? 'i' : 's';
}
// Kind and size of each parameter, as "p8 i4 ".
template <class... T>
const char *parameters(void (*)(T...)) {
    static char text[32 * sizeof...(T) + 1];
    int at = 0;
    ((at += sprintf(text + at, "%c%d ", kind<T>(), (int)sizeof(T))), ...);
    return text;
}
}  // namespace emulated

// --- Barriers and warps ------------------------------------------------------------------------------------

static inline void __syncthreads() { emulated::sync_block(false); }
static inline int __syncthreads_count(int p) { return emulated::sync_block(p), emulated::last_votes; }
static inline int __syncthreads_or(int p) { return emulated::sync_block(p), emulated::last_votes > 0; }
static inline int __syncthreads_and(int p) {
    return emulated::sync_block(p), emulated::last_votes == emulated::last_voters;
}
static inline void __syncwarp(unsigned mask = ~0u) { emulated::sync_warp(mask); }
static inline unsigned __activemask() { return emulated::alive_lanes(emulated::warp()); }
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}
static inline void __nanosleep(unsigned) { emulated::pause(emulated::READY); }
static inline void __trap() { emulated::fail("__trap()"); }
#define assert(condition) ((condition) ? (void)0 : emulated::fail("assert: " #condition))

// The value of a lane, 0xff bytes (NaN) if it does not take part.
template <class T>
T emulated_exchange(unsigned mask, T value, unsigned source) {
    static_assert(sizeof(T) <= 16 && std::is_trivially_copyable<T>::value);
    unsigned char(*slots)[16] = emulated::slots + (emulated::warp() - emulated::threads);
    memcpy(slots[emulated::lane()], &value, sizeof(T));
    __syncwarp(mask);
    memset(&value, 0xff, sizeof(T));
    if ((mask & __activemask()) >> source & 1) memcpy(&value, slots[source], sizeof(T));
    __syncwarp(mask);
    return value;
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
    const unsigned first = emulated::lane() & -width;
    return emulated_exchange(mask, value, first + (source & (width - 1)));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
    const unsigned lane = emulated::lane(), source = lane ^ bits;
    return emulated_exchange(mask, value, source < (lane & -width) + width ? source : lane);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    const unsigned lane = emulated::lane(), source = lane + delta;
    return emulated_exchange(mask, value, source < (lane & -width) + width ? source : lane);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    const unsigned lane = emulated::lane();
    return emulated_exchange(mask, value, lane >= (lane & -width) + delta ? lane - delta : lane);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate) {
    unsigned char(*slots)[16] = emulated::slots + (emulated::warp() - emulated::threads);
    slots[emulated::lane()][0] = predicate != 0;
    __syncwarp(mask);
    unsigned lanes = mask & __activemask();
    for (unsigned k = 0; k < 32; ++k)
        if (lanes >> k & 1 && !slots[k][0]) lanes &= ~(1u << k);
    __syncwarp(mask);
    return lanes;
}
static inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
static inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }

// --- Memory ------------------------------------------------------------------------------------------------

template <class T>
using Same = typename std::common_type<T>::type;  // follows from another argument
template <class T> T __ldg(const T *at) { return *at; }
template <class T> T __ldcs(const T *at) { return *at; }
template <class T> T __ldcg(const T *at) { return *at; }
template <class T> T __ldca(const T *at) { return *at; }
template <class T> void __stcs(T *at, Same<T> value) { *at = value; }
template <class T> void __stcg(T *at, Same<T> value) { *at = value; }
template <class T> void __stwt(T *at, Same<T> value) { *at = value; }

#define ATOMIC(name, result)                                                                                 \
    template <class T> T name(T *at, Same<T> value) {                                                        \
        const T old = *at;                                                                                   \
        *at = result;                                                                                        \
        return old;                                                                                          \
    }
ATOMIC(atomicAdd, old + value)
ATOMIC(atomicSub, old - value)
ATOMIC(atomicExch, value)
ATOMIC(atomicMin, value < old ? value : old)
ATOMIC(atomicMax, value > old ? value : old)
ATOMIC(atomicAnd, old &value)
ATOMIC(atomicOr, old | value)
ATOMIC(atomicXor, old ^ value)
ATOMIC(atomicInc, old >= value ? 0 : old + 1)
template <class T> T atomicCAS(T *at, Same<T> compare, Same<T> value) {
    const T old = *at;
    if (old == compare) *at = value;
    return old;
}

// Multicast memory: an address in it stands for one in each of several copies, which a test sets.
struct EmulatedMulticast {
    char *begin, *copies[16];
    size_t size;
};
extern "C" __attribute__((visibility("default"))) EmulatedMulticast emulated_multicast;
EmulatedMulticast emulated_multicast = {};
template <class T> T *emulated_copy(T *at, int k) {
    const size_t offset = (char *)at - emulated_multicast.begin;
    if (k == 0 && offset + sizeof(T) > emulated_multicast.size) emulated::fail("an address outside multicast memory");
    return k < 16 && emulated_multicast.copies[k] ? (T *)(emulated_multicast.copies[k] + offset) : nullptr;
}

#include "emulated_cuda_math.h"
