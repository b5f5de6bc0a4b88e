// Kernel that runs one rank's part of an execution plan (collectives/plans). Every block runs all instructions, each on
// the block's slice of the data, and has its own signals, so that blocks of a GPU never wait for one another. Compiled
// after `signals.cu` and `multimem.cu`, once per element type (macro ELEMENT).

struct Instruction {
    int kind, first;  // index of the first operand of a move, or of the first mark
    unsigned short sources, targets;  // numbers of operands of a move; `sources`: number of marks of a signal or wait
    // Bit k: operand k consists of packets. In a SWITCHED move: whether to sum all ranks' sources; to store to all ranks.
    unsigned short packed_sources, packed_targets;
    long long size;  // elements
};
enum Kind { MOVE, SIGNAL, WAIT, BARRIER, SWITCHED };

struct Operand {
    char *at;
    long long stride;  // bytes between the two staging buffers, which calls use in turn
    long long sender;  // rank that writes the staging buffer
};

struct Mark {
    unsigned *counters;  // one per block: in a peer's memory to signal it, in this GPU's memory to wait
    unsigned each, number;  // signals per call on these counters; number of this signal within the call
    long long rank;  // peer at the other end
};

#ifdef __CUDA_ARCH__
// Load the current value: peers write to this memory while the kernel runs.
__device__ __forceinline__ uint4 fresh(const uint4 *at) {
    uint4 v;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at) : "memory");
    return v;
}
__device__ __forceinline__ void put_packet(uint4 *at, uint4 v) {
    asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}
__device__ __forceinline__ float widened(unsigned short half) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
}
__device__ __forceinline__ unsigned short narrowed(float value) {
    unsigned short half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
}
__device__ __forceinline__ float from_bits(unsigned bits) { return __uint_as_float(bits); }
__device__ __forceinline__ unsigned to_bits(float value) { return __float_as_uint(value); }
#else
__device__ __forceinline__ uint4 fresh(const uint4 *at) { return *at; }
__device__ __forceinline__ void put_packet(uint4 *at, uint4 v) { *at = v; }
__device__ __forceinline__ float from_bits(unsigned bits) { float value; memcpy(&value, &bits, 4); return value; }
__device__ __forceinline__ unsigned to_bits(float value) { unsigned bits; memcpy(&bits, &value, 4); return bits; }
#ifdef __FLT16_MAX__
__device__ __forceinline__ float widened(unsigned short half) { _Float16 v; memcpy(&v, &half, 2); return v; }
__device__ __forceinline__ unsigned short narrowed(float value) {
    const _Float16 v = value;
    unsigned short half;
    memcpy(&half, &v, 2);
    return half;
}
#endif
#endif

// Sums of 16-bit numbers are computed in float, then rounded: float is wide enough that the result equals one rounding.
struct float16 {
    unsigned short bits;
};
struct bfloat16 {
    unsigned short bits;
};
#if defined(__CUDA_ARCH__) || defined(__FLT16_MAX__)
__device__ __forceinline__ float16 operator+(float16 a, float16 b) {
    return {narrowed(widened(a.bits) + widened(b.bits))};
}
#endif
__device__ __forceinline__ bfloat16 operator+(bfloat16 a, bfloat16 b) {
    const float sum = from_bits((unsigned)a.bits << 16) + from_bits((unsigned)b.bits << 16);
    const unsigned bits = to_bits(sum), up = 0x7fff + (bits >> 16 & 1);  // to nearest, ties to even
    return {(unsigned short)(sum == sum ? (bits + up) >> 16 : 0x7fc0)};
}

typedef ELEMENT Element;
constexpr int PER_VECTOR = 16 / sizeof(Element), PER_PACKET = 8 / sizeof(Element), AT_ONCE = 4;
constexpr int AHEAD = 4;  // sources of a move that a thread loads before it uses the first of them

union Vector {
    uint4 words;
    Element elements[PER_VECTOR];
    __device__ __forceinline__ Vector() {}
};
union Half {  // half a vector: the data of one packet
    uint2 words;
    Element elements[PER_PACKET];
    __device__ __forceinline__ Half() {}
};

template <int BYTES> struct Word;
template <> struct Word<1> { typedef unsigned char Type; };
template <> struct Word<2> { typedef unsigned short Type; };
template <> struct Word<4> { typedef unsigned Type; };
template <> struct Word<8> { typedef unsigned long long Type; };

__device__ __forceinline__ Element fresh_element(const Element *at) {
    typedef Word<sizeof(Element)>::Type Bits;
    union {
        Bits bits;
        Element element;
    } value = {*(const volatile Bits *)at};
    return value.element;
}

// State of a launch: call number, staging buffers per operand, timeout, and how many threads earlier moves have used.
struct Call {
    unsigned number, slots;
    Timeout timeout;
    // Moves without a barrier between them are independent. Each starts at the thread after the last one that the previous
    // move gave work to, so that different warps do small moves at the same time.
    unsigned busy;
    // No division by blockDim.x, which is known only at run time: a division would take as long as a small move.
    __device__ __forceinline__ unsigned thread() const {
        return threadIdx.x >= busy ? threadIdx.x - busy : threadIdx.x + blockDim.x - busy;
    }
    __device__ __forceinline__ void occupy(long long threads) {
        threads = (threads + 31) / 32 * 32;
        busy += threads < blockDim.x ? threads : threads % blockDim.x;
        if (busy >= blockDim.x) busy -= blockDim.x;
    }
    __device__ __forceinline__ char *address(const Operand &operand) const {
        return operand.at + (number & (slots - 1)) * operand.stride;  // slots: 1 or 2
    }
    __device__ __forceinline__ void wait(const Mark &mark) {
        timeout.wait(mark.counters + blockIdx.x, (number - 1) * mark.each + mark.number, mark.rank);
    }
    // Wait until packet k carries this call's number, and return its data; `v` is the packet as first loaded.
    __device__ __forceinline__ uint2 packet(const Operand &operand, long long k, uint4 v) {
        Watch watch;
        while ((v.y != number || v.w != number) && timeout.lasts(watch, operand.sender))
            v = fresh((const uint4 *)address(operand) + k);
        return {v.x, v.z};
    }
};

// Move elements first ... last - 1 one at a time, adding up the sources.
__device__ __forceinline__ void move_elements(const Instruction &one, const Operand *operands, const Call &call,
                                              long long first, long long last)
{
    for (long long i = first + call.thread(); i < last; i += blockDim.x) {
        Element sum = fresh_element((const Element *)call.address(operands[0]) + i);
        for (int k = 1; k < one.sources; ++k) sum = sum + fresh_element((const Element *)call.address(operands[k]) + i);
        for (int k = 0; k < one.targets; ++k) ((Element *)call.address(operands[one.sources + k]))[i] = sum;
    }
}

__device__ __forceinline__ void move(const Instruction &one, const Operand *operands, Call &call, long long first,
                                     long long last)
{
    // Move 16-byte vectors from the first aligned one on, if all operands are aligned alike; other elements one by one.
    const unsigned long long begins = (unsigned long long)call.address(operands[0]) + first * sizeof(Element);
    bool alike = begins % sizeof(Element) == 0;
    for (int k = 1; k < one.sources + one.targets; ++k)
        alike &= ((unsigned long long)call.address(operands[k]) + first * sizeof(Element) - begins) % 16 == 0;
    const long long head = min(last - first, (long long)(-begins % 16 / sizeof(Element)));
    const long long vectors = alike ? (last - first - head) / PER_VECTOR : 0;
    const long long whole = alike ? first + head : last, tail = whole + vectors * PER_VECTOR;
    move_elements(one, operands, call, first, whole);
    call.occupy(whole - first);
    move_elements(one, operands, call, tail, last);
    call.occupy(last - tail);
    if (one.sources > 2) {
        for (long long i = call.thread(); i < vectors; i += blockDim.x) {
            Vector sum;
            for (int some = 0; some < one.sources; some += AHEAD) {
                Vector values[AHEAD];
#pragma unroll
                for (int u = 0; u < AHEAD; ++u)
                    if (some + u < one.sources)
                        values[u].words = fresh((const uint4 *)((const Element *)call.address(operands[some + u]) + whole) + i);
#pragma unroll
                for (int u = 0; u < AHEAD; ++u)
#pragma unroll
                    for (int e = 0; e < PER_VECTOR; ++e)
                        if (some + u < one.sources)
                            sum.elements[e] = some + u ? sum.elements[e] + values[u].elements[e] : values[u].elements[e];
            }
            for (int k = 0; k < one.targets; ++k)
                ((uint4 *)((Element *)call.address(operands[one.sources + k]) + whole))[i] = sum.words;
        }
        call.occupy(vectors);
        return;
    }
    for (long long i = call.thread(); i < vectors; i += AT_ONCE * blockDim.x) {
        const auto load = [&](Vector(&into)[AT_ONCE], const Operand &operand) {
            const uint4 *at = (const uint4 *)((const Element *)call.address(operand) + whole) + i;
#pragma unroll
            for (int u = 0; u < AT_ONCE; ++u)
                if (i + u * blockDim.x < vectors) into[u].words = fresh(at + u * blockDim.x);
        };
        Vector sum[AT_ONCE];
        load(sum, operands[0]);
        if (one.sources == 2) {
            Vector more[AT_ONCE];
            load(more, operands[1]);
#pragma unroll
            for (int u = 0; u < AT_ONCE; ++u)
#pragma unroll
                for (int e = 0; e < PER_VECTOR; ++e) sum[u].elements[e] = sum[u].elements[e] + more[u].elements[e];
        }
        for (int k = 0; k < one.targets; ++k) {
            uint4 *at = (uint4 *)((Element *)call.address(operands[one.sources + k]) + whole) + i;
#pragma unroll
            for (int u = 0; u < AT_ONCE; ++u)
                if (i + u * blockDim.x < vectors) at[u * blockDim.x] = sum[u].words;
        }
    }
    call.occupy(vectors);
}

// Like `move`, where some operands consist of packets: 8 bytes of data, and the number of the call twice.
__device__ __forceinline__ void move_packets(const Instruction &one, const Operand *operands, Call &call, long long first,
                                             long long last)
{
    const long long packets = (last + PER_PACKET - 1) / PER_PACKET;
    for (long long j = first / PER_PACKET + call.thread(); j < packets; j += blockDim.x) {
        const long long i = j * PER_PACKET;
        const int count = min((long long)PER_PACKET, last - i);
        Half sum;
        for (int some = 0; some < one.sources; some += AHEAD) {
            uint4 seen[AHEAD];
#pragma unroll
            for (int u = 0; u < AHEAD; ++u) {
                const int k = some + u;
                if (k >= one.sources) continue;
                if (one.packed_sources >> k & 1) {
                    seen[u] = fresh((const uint4 *)call.address(operands[k]) + j);
                    continue;
                }
                Half value;
#pragma unroll
                for (int e = 0; e < PER_PACKET; ++e)
                    if (e < count) value.elements[e] = fresh_element((const Element *)call.address(operands[k]) + i + e);
                seen[u] = {value.words.x, call.number, value.words.y, call.number};
            }
#pragma unroll
            for (int u = 0; u < AHEAD; ++u) {
                const int k = some + u;
                if (k >= one.sources) continue;
                Half value;
                value.words = call.packet(operands[k], j, seen[u]);
#pragma unroll
                for (int e = 0; e < PER_PACKET; ++e)
                    if (e < count) sum.elements[e] = k ? sum.elements[e] + value.elements[e] : value.elements[e];
            }
        }
        if (call.timeout.missed) return;  // never pass on packets that have not come
        for (int k = 0; k < one.targets; ++k) {
            char *at = call.address(operands[one.sources + k]);
            if (one.packed_targets >> k & 1)
                put_packet((uint4 *)at + j, {sum.words.x, call.number, sum.words.y, call.number});
            else
#pragma unroll
                for (int e = 0; e < PER_PACKET; ++e)
                    if (e < count) ((Element *)at)[i + e] = sum.elements[e];
        }
    }
    call.occupy(packets - first / PER_PACKET);
}

// Move through a switch: the source address, the target address or both are multicast addresses of all ranks' memory.
__device__ __forceinline__ void move_switched(const Instruction &one, const Operand *operands, Call &call, long long first,
                                              long long last)
{
    typedef MultimemSum<Element>::Type Sum;
    typedef MultimemSum<Element>::Word Word;
    const char *from = call.address(operands[0]) + first * sizeof(Element);
    char *to = call.address(operands[1]) + first * sizeof(Element);
    const long long bytes = max(last - first, 0LL) * sizeof(Element);
    const bool alike = (from - to) % 16 == 0;
    const long long head = alike ? min(bytes, (long long)(-(unsigned long long)from % 16)) : bytes;
    const long long vectors = (bytes - head) / 16, tail = head + 16 * vectors;
    const auto move_words = [&](long long begin, long long end) {
        const long long words = (end - begin) / sizeof(Word);
        for (long long i = call.thread(); i < words; i += blockDim.x) {
            const Word *at = (const Word *)(from + begin) + i;
            const Word value = one.packed_sources ? Sum::sum(at) : *(const volatile Word *)at;
            Word *there = (Word *)(to + begin) + i;
            if (one.packed_targets) multimem_store(there, value);
            else *there = value;
        }
        call.occupy(words);
    };
    move_words(0, head);
    move_words(tail, bytes);
    const uint4 *const source = (const uint4 *)(from + head);
    uint4 *const target = (uint4 *)(to + head);
    for (long long i = call.thread(); i < vectors; i += AT_ONCE * blockDim.x) {
        uint4 values[AT_ONCE];
#pragma unroll
        for (int u = 0; u < AT_ONCE; ++u)
            if (i + u * blockDim.x < vectors)
                values[u] = one.packed_sources ? Sum::sum(source + i + u * blockDim.x) : fresh(source + i + u * blockDim.x);
#pragma unroll
        for (int u = 0; u < AT_ONCE; ++u) {
            if (i + u * blockDim.x >= vectors) continue;
            if (one.packed_targets) multimem_store(target + i + u * blockDim.x, values[u]);
            else target[i + u * blockDim.x] = values[u];
        }
    }
    call.occupy(vectors);
}

// Return the first unit of the slice of a block.
__device__ __forceinline__ long long slice(long long units, unsigned block)
{
    if (units < 1 << 24 && gridDim.x <= 128) return (unsigned)units * block / gridDim.x;  // 32-bit division is faster
    return units * block / gridDim.x;
}

extern __shared__ long long kept_program[];

// Run the plan once. All calls use the same number of blocks, and the blocks of all ranks must be resident at the same time.
// `program`: `length` instructions, `operand_count` operands and `mark_count` marks, one after another. `keep & 1`: each block
// first copies the program to shared memory, as reading it piece by piece from global memory would take as long as a signal.
// `keep & 2`: the plan has moves through switches.
extern "C" __global__ void __launch_bounds__(512)
run_plan(const long long *program, int length, int operand_count, int mark_count, int keep,
         unsigned *calls, unsigned slots, unsigned *late, unsigned long long timeout)
{
    static_assert(sizeof(Instruction) % 8 == 0 && sizeof(Operand) % 8 == 0 && sizeof(Mark) % 8 == 0, "whole words");
    if (keep & 1) {
        const int words = (length * sizeof(Instruction) + operand_count * sizeof(Operand) + mark_count * sizeof(Mark)) / 8;
        for (int i = threadIdx.x; i < words; i += blockDim.x) kept_program[i] = program[i];
        program = kept_program;
        __syncthreads();
    }
    const Instruction *const code = (const Instruction *)program;
    const Operand *const operands = (const Operand *)(code + length);
    const Mark *const marks = (const Mark *)(operands + operand_count);
    Call call = {calls[blockIdx.x] + 1, slots, {late, timeout, false}, 0};
    const bool switched = keep & 2;
    bool stop = false;
    for (int at = 0; at < length && !stop; ++at) {
        const Instruction one = code[at];
        if (one.kind == MOVE || one.kind == SWITCHED) {
            const long long units = (one.size + PER_VECTOR - 1) / PER_VECTOR;
            const long long first = slice(units, blockIdx.x) * PER_VECTOR;
            const long long last = min(one.size, slice(units, blockIdx.x + 1) * PER_VECTOR);
            if (one.kind == SWITCHED)
                move_switched(one, operands + one.first, call, first, last);
            else if (one.packed_sources | one.packed_targets)
                move_packets(one, operands + one.first, call, first, last);
            else
                move(one, operands + one.first, call, first, last);
            continue;
        }
        if (switched && one.kind == SIGNAL) fence_aliases();
        if (one.kind == WAIT)
            for (int k = threadIdx.x; k < one.sources; k += blockDim.x) call.wait(marks[one.first + k]);
        stop = __syncthreads_or(call.timeout.missed);
        if (switched && one.kind != SIGNAL) fence_aliases();
        if (one.kind == SIGNAL && !stop)
            for (int k = threadIdx.x; k < one.sources; k += blockDim.x) {
                const Mark mark = marks[one.first + k];
                announce(mark.counters + blockIdx.x, (call.number - 1) * mark.each + mark.number);
            }
    }
    stop = __syncthreads_or(call.timeout.missed);
    if (threadIdx.x == 0 && !stop) calls[blockIdx.x] = call.number;
}
