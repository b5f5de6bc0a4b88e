// The medium as kernels along x read it (`Row`, `Space` of fused.cu): uniform values, full grids, or an index of materials.

#if WITH_X
// How a medium parameter is stored: one value everywhere, a full grid, or values per material and an index of materials.
#define UNIFORM 0
#define FULL 1
#define INDEX8 2
#define INDEX16 3

// Load a value that is never written during a time step, through the read-only cache.
template <class T>
INLINE T constant(const T *at) {
#ifdef __CUDA_ARCH__
    return __ldg(at);
#else
    return *at;
#endif
}

struct Pair {  // materials of two neighbouring points
    unsigned x, y;
};

template <int FORM>
struct IndexWord {
    typedef unsigned char One;
    typedef unsigned short Pair;
};
template <>
struct IndexWord<INDEX16> {
    typedef unsigned short One;
    typedef unsigned Pair;
};

// Index of materials (Nz, Ny, Nx), read in pairs from global memory or from a row in shared memory.
template <int FORM>
struct MaterialIndex {
    const void *at;
    static constexpr int bits = FORM == INDEX16 ? 16 : 8;
    typedef typename IndexWord<FORM>::Pair Word;
    typedef typename IndexWord<FORM>::One One;
    static INLINE Pair pair(Word word) { return {word & ((1u << bits) - 1), (unsigned)word >> bits}; }
    INLINE Pair get(const Row &row, int j) const {
        if constexpr (NX % 2 == 0) return pair(constant((const Word *)at + row.at(j) / 2));
        const One *here = (const One *)at + row.at(j);
        return {constant(here), 2 * j + 1 < NX ? constant(here + 1) : 0u};
    }
    static INLINE Pair of_space(const Space &space, int j) {
        const Pair both = pair(((const Word *)space.mine)[j]);
        return {both.x, 2 * j + 1 < NX ? both.y : 0u};  // beside the last of an odd number of points lies anything
    }
    INLINE void copy(const Space &space, const Row &row) const {
        constexpr int bytes = NX * sizeof(One), one = sizeof(One);
        constexpr int word = NX % 2 ? one : bytes % 16 == 0 ? 16 : bytes % 8 == 0 ? 8 : bytes % 4 == 0 ? 4 : 2;
        space.fill<word>((const One *)at + row.at(0), bytes);
    }
};

// A row of the table of materials.
struct Material {
    REAL speed, density, ratio, tau;
};

INLINE Material material(const REAL *table, unsigned number) {
    const REAL *at = table + number * PARAMETERS;
#ifdef __CUDA_ARCH__
    if constexpr (sizeof(REAL) == 4) {
        const float4 m = __ldg((const float4 *)at);
        return {(REAL)m.x, (REAL)m.y, (REAL)m.z, (REAL)m.w};
    } else {
        const double2 a = __ldg((const double2 *)at), b = __ldg((const double2 *)at + 1);
        return {(REAL)a.x, (REAL)a.y, (REAL)b.x, (REAL)b.y};
    }
#else
    return *(const Material *)at;
#endif
}

template <int FORM>
struct Grid {  // a medium parameter, read only; by index: values per material, `STRIDE` apart
    const REAL *at;
    int full;  // whether it varies in space, where only some velocity components have full grids
    template <int STRIDE>
    INLINE Complex of(Pair materials) const {
        return {constant(at + materials.x * STRIDE), constant(at + materials.y * STRIDE)};
    }
    INLINE Complex get(const Row &row, int j) const {
        static_assert(FORM < INDEX8);
        if (FORM == UNIFORM) return {*at, *at};
        const REAL *here = at + row.at(j);
        if constexpr (NX % 2) return {constant(here), 2 * j + 1 < NX ? constant(here + 1) : (REAL)1};
#ifdef __CUDA_ARCH__
        if constexpr (sizeof(REAL) == 4) {
            const float2 pair = __ldg((const float2 *)here);
            return {(REAL)pair.x, (REAL)pair.y};
        } else {
            const double2 pair = __ldg((const double2 *)here);
            return {(REAL)pair.x, (REAL)pair.y};
        }
#else
        return *(const Complex *)here;
#endif
    }
};
#endif
