// Multicast operations of NVSwitches (PTX `multimem`, sm_90) on memory that all GPUs have bound to one multicast object: a load
// returns the sum of all GPUs' copies, a store writes all copies. A word is the smallest unit that switches add: 4 or 8 bytes.

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
// A multicast address is an alias of memory that also has an ordinary address on each rank. Only this fence orders
// accesses through one address with accesses through the other.
__device__ __forceinline__ void fence_aliases() { asm volatile("fence.proxy.alias;" ::: "memory"); }
#define MULTIMEM_LOAD "multimem.ld_reduce.relaxed.sys.global.add"
__device__ __forceinline__ void multimem_store(unsigned *at, unsigned v) {
    asm volatile("multimem.st.relaxed.sys.global.b32 [%0], %1;" ::"l"(at), "r"(v) : "memory");
}
__device__ __forceinline__ void multimem_store(unsigned long long *at, unsigned long long v) {
    asm volatile("multimem.st.relaxed.sys.global.b64 [%0], %1;" ::"l"(at), "l"(v) : "memory");
}
__device__ __forceinline__ void multimem_store(uint4 *at, uint4 v) {
    asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}
#define MULTIMEM_WORDS(WORD, TYPE, CONSTRAINT)                                                              \
    static __device__ __forceinline__ WORD sum(const WORD *at) {                                                  \
        WORD v;                                                                                                   \
        asm volatile(MULTIMEM_LOAD TYPE " %0, [%1];" : CONSTRAINT(v) : "l"(at) : "memory");                       \
        return v;                                                                                                 \
    }
#define MULTIMEM_VECTORS(TYPE)                                                                                    \
    static __device__ __forceinline__ uint4 sum(const uint4 *at) {                                                \
        uint4 v;                                                                                                  \
        asm volatile(MULTIMEM_LOAD TYPE " {%0, %1, %2, %3}, [%4];"                                                \
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at) : "memory");                          \
        return v;                                                                                                 \
    }
// For types without vector instructions: add up a vector word by word.
#define MULTIMEM_PARTS(WORD)                                                                                      \
    static __device__ __forceinline__ uint4 sum(const uint4 *at) {                                                \
        union { WORD words[16 / sizeof(WORD)]; uint4 vector; } v;                                                 \
        for (int k = 0; k < (int)(16 / sizeof(WORD)); ++k) v.words[k] = sum((const WORD *)at + k);                \
        return v.vector;                                                                                          \
    }
struct SumFloat { MULTIMEM_WORDS(unsigned, ".f32", "=r") MULTIMEM_VECTORS(".v4.f32") };
struct SumDouble { MULTIMEM_WORDS(unsigned long long, ".f64", "=l") MULTIMEM_PARTS(unsigned long long) };
struct SumWord { MULTIMEM_WORDS(unsigned, ".u32", "=r") MULTIMEM_PARTS(unsigned) };
struct SumLong { MULTIMEM_WORDS(unsigned long long, ".u64", "=l") MULTIMEM_PARTS(unsigned long long) };
// Two 16-bit numbers per word, accumulated in float and rounded once.
struct SumHalf { MULTIMEM_WORDS(unsigned, ".acc::f32.f16x2", "=r") MULTIMEM_VECTORS(".acc::f32.v4.f16x2") };
struct SumBfloat { MULTIMEM_WORDS(unsigned, ".acc::f32.bf16x2", "=r") MULTIMEM_VECTORS(".acc::f32.v4.bf16x2") };
#else
#ifdef EMULATED_CUDA
template <class T> __device__ void multimem_store(T *at, T v) {
    for (int k = 0; T *copy = emulated_copy(at, k); ++k) *copy = v;
}
#else  // GPUs before sm_90 have no multimem: the host never launches this code
template <class T> __device__ void multimem_store(T *, T) { __trap(); }
template <class T> __device__ const T *emulated_copy(const T *, int) { __trap(); return nullptr; }
#endif
__device__ __forceinline__ void fence_aliases() {}
template <class Number, class Word> struct SumCopies {
    static __device__ Word sum(const Word *at) {
        Number total = {};
        for (int k = 0; const Word *copy = emulated_copy(at, k); ++k) {
            const Number own = *(const Number *)copy;
            total = k ? total + own : own;
        }
        return *(Word *)&total;
    }
    static __device__ uint4 sum(const uint4 *at) {
        union { Word words[16 / sizeof(Word)]; uint4 vector; } v;
        for (int k = 0; k < (int)(16 / sizeof(Word)); ++k) v.words[k] = sum((const Word *)at + k);
        return v.vector;
    }
};
typedef SumCopies<float, unsigned> SumFloat;
typedef SumCopies<double, unsigned long long> SumDouble;
typedef SumCopies<unsigned, unsigned> SumWord, SumHalf, SumBfloat;
typedef SumCopies<unsigned long long, unsigned long long> SumLong;
#endif

// Chooses how to add up elements of a type: two-byte types in pairs. Types that are only copied use the default.
template <class Element> struct MultimemSum { typedef SumWord Type; typedef unsigned Word; };
template <> struct MultimemSum<float> { typedef SumFloat Type; typedef unsigned Word; };
template <> struct MultimemSum<double> { typedef SumDouble Type; typedef unsigned long long Word; };
template <> struct MultimemSum<long long> { typedef SumLong Type; typedef unsigned long long Word; };
template <> struct MultimemSum<unsigned long long> { typedef SumLong Type; typedef unsigned long long Word; };
template <> struct MultimemSum<struct float16> { typedef SumHalf Type; typedef unsigned Word; };
template <> struct MultimemSum<struct bfloat16> { typedef SumBfloat Type; typedef unsigned Word; };
