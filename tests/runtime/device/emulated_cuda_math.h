// Arithmetic of CUDA C++ on a CPU; part of emulated_cuda.h.

// As on a GPU, the other number where one is NaN.
template <class A, class B, class T = typename std::common_type<A, B>::type>
typename std::enable_if<std::is_arithmetic<A>::value && std::is_arithmetic<B>::value, T>::type min(A a, B b) {
    if constexpr (std::is_floating_point<T>::value) return fmin((T)a, (T)b);
    return (T)b < (T)a ? (T)b : (T)a;
}
template <class A, class B, class T = typename std::common_type<A, B>::type>
typename std::enable_if<std::is_arithmetic<A>::value && std::is_arithmetic<B>::value, T>::type max(A a, B b) {
    if constexpr (std::is_floating_point<T>::value) return fmax((T)a, (T)b);
    return (T)a < (T)b ? (T)b : (T)a;
}

#define REAL_FUNCTIONS(T, f, letter)                                                                         \
    static inline T rsqrt##f(T x) { return 1 / sqrt(x); }                                                    \
    static inline void sincospi##f(T x, T *s, T *c) {                                                        \
        const T turns = nearbyint(2 * x), angle = (T)3.14159265358979323846 * (x - turns / 2);               \
        const T sine = sin(angle), cosine = cos(angle);                                                      \
        const int quarter = (int)fmod(turns, (T)4) & 3;                                                      \
        *s = quarter == 0 ? sine : quarter == 1 ? cosine : quarter == 2 ? -sine : -cosine;                   \
        *c = quarter == 0 ? cosine : quarter == 1 ? -sine : quarter == 2 ? -cosine : sine;                   \
    }                                                                                                        \
    static inline T sinpi##f(T x) { T s, c; return sincospi##f(x, &s, &c), s; }                              \
    static inline T cospi##f(T x) { T s, c; return sincospi##f(x, &s, &c), c; }                              \
    static inline T __##letter##add_rn(T a, T b) { return a + b; }                                           \
    static inline T __##letter##sub_rn(T a, T b) { return a - b; }                                           \
    static inline T __##letter##mul_rn(T a, T b) { return a * b; }                                           \
    static inline T __##letter##div_rn(T a, T b) { return a / b; }                                           \
    static inline T __##letter##rcp_rn(T a) { return 1 / a; }                                                \
    static inline T __##letter##sqrt_rn(T a) { return sqrt(a); }                                             \
    static inline T __fma##f##_rn(T a, T b, T c) { return fma(a, b, c); }
REAL_FUNCTIONS(float, f, f)
REAL_FUNCTIONS(double, , d)

#define BITS(name, from, to)                                                                                 \
    static inline to name(from value) {                                                                      \
        to out;                                                                                              \
        memcpy(&out, &value, sizeof out);                                                                    \
        return out;                                                                                          \
    }
BITS(__float_as_int, float, int)
BITS(__float_as_uint, float, unsigned)
BITS(__int_as_float, int, float)
BITS(__uint_as_float, unsigned, float)
BITS(__double_as_longlong, double, long long)
BITS(__longlong_as_double, long long, double)
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned long long)a * b >> 32; }
static inline int __mulhi(int a, int b) { return (long long)a * b >> 32; }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned __int128)a * b >> 64;
}
static inline int __popc(unsigned a) { return __builtin_popcount(a); }
static inline int __popcll(unsigned long long a) { return __builtin_popcountll(a); }
static inline int __clz(int a) { return a ? __builtin_clz(a) : 32; }
static inline int __clzll(long long a) { return a ? __builtin_clzll(a) : 64; }
static inline int __ffs(int a) { return __builtin_ffs(a); }
static inline int __ffsll(long long a) { return __builtin_ffsll(a); }
