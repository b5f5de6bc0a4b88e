// Real rows of an even number of points N, transformed as complex ones of H = N/2: value j is x[2j] + i x[2j+1].
// Half spectra have H + 1 entries; the transform back is not divided by N. Behind axis_fft.cu.

// An Axis of H points whose layout is Rows. `twiddle` holds the H roots of unity of the complex transform, then the
// first H of the N roots that take its spectrum Z apart into those of even and odd points, E and O:
// X[k] = E[k] + w^k O[k], and Z = E + i O. Entries k and H - k of one follow from those of the other.
template <class AXIS>
struct RealRows {
    typedef AXIS A;
    typedef typename A::Layout L;
    static constexpr int half = L::points, values = A::values, count = half / A::last, each = count / L::threads;
    static constexpr bool mirrors = L::mirrors(count);  // a thread has both entries at the far end

    struct Pair {  // entries k and H - k
        Complex one, other;
    };

    // i w^-k from `sign` 1, -i w^k from -1; p and q are entries k and H - k.
    static __device__ __forceinline__ Pair turned_apart(Complex p, Complex q, Complex root, REAL sign) {
        const Complex even = p + conjugate(q), odd = (p - conjugate(q)) * root;
        const Complex turned = {-sign * odd.y, sign * odd.x};
        return {even + turned, conjugate(even - turned)};
    }
    static __device__ __forceinline__ Pair values_of(Complex p, Complex q, int k, Complex root) {
        if (k == 0) p.y = q.y = 0;  // a real row has none
        return turned_apart(p, q, conjugate(root), 1);
    }
    static __device__ __forceinline__ Pair entries_of(Complex p, Complex q, Complex root) {
        return turned_apart(p * (REAL)0.5, q * (REAL)0.5, root, -1);
    }
    static __device__ __forceinline__ const Complex *roots(const Complex *twiddle) {
        return L::late ? fresh(twiddle + half) : twiddle + half;
    }
    // Calls f(slot of k, slot of H - k, k) for a thread's pairs, all but those of its first butterfly if it is the first
    // thread, whose butterflies 0 and `count` / 2 mirror themselves: g(slot of k, slot of H - k or -1, k) for these.
    template <class F, class G>
    static __device__ __forceinline__ void pairs(F f, G g) {
        constexpr int R = A::last;
        if (L::lane() == 0) {
#pragma unroll
            for (int k = 0; 2 * k <= R; ++k) g(k, k ? R - k : -1, k * count);
#pragma unroll
            for (int k = 0; 2 * k < R; ++k) g((each - 1) * R + k, (each - 1) * R + R - 1 - k, count / 2 + k * count);
        } else {
#pragma unroll
            for (int k = 0; k < R; ++k) f(k, (each - 1) * R + R - 1 - k, L::lane() + k * count);
        }
#pragma unroll
        for (int b = 1; b < each / 2; ++b)
#pragma unroll
            for (int k = 0; k < R; ++k)
                f(b * R + k, (each - 1 - b) * R + R - 1 - k, L::template butterfly_of<count>(b) + k * count);
    }

    // Half spectrum entry(k), k = 0 ... H, to the row: value j in v at the near end, its parts swapped.
    template <class F>
    static __device__ __forceinline__ void back(Complex *v, Complex *shared, const Complex *twiddle, F entry) {
        const Complex *root = roots(twiddle);
        if constexpr (mirrors) {
            const auto both = [&](int slot, int mirror, int k) {
                const Pair z = values_of(entry(k), entry(half - k), k, root[k]);
                v[slot] = swapped(z.one);
                if (mirror >= 0) v[mirror] = swapped(z.other);
            };
            pairs(both, both);
        } else {
            A::far(v, [&](Complex &value, int k) {
                value = swapped(values_of(entry(k), entry(half - k), k, root[k]).one);
            });
        }
        A::back(v, shared, twiddle);
    }

    // Values j of a row, at the near end, to its half spectrum: calls put(k, entry) for k = 0 ... H.
    template <class F>
    static __device__ __forceinline__ void forth(Complex *v, Complex *shared, const Complex *twiddle, F put) {
        A::forth(v, shared, twiddle);
        if constexpr (mirrors) {
            const Complex *root = roots(twiddle);
            const auto both = [&](int slot, int mirror, int k) {
                const Pair x = entries_of(v[slot], v[mirror < 0 ? slot : mirror], root[k]);
                put(k, x.one);
                if (mirror != slot) put(half - k, x.other);
            };
            pairs(both, both);
        } else {
            L::sync();
            A::far(v, [&](Complex &value, int k) { shared[L::at(k)] = value; });
            L::sync();
            const Complex *root = roots(twiddle);
            A::far(v, [&](Complex &value, int k) {
                const Pair x = entries_of(value, shared[L::at(k ? half - k : 0)], root[k]);
                put(k, x.one);
                if (k == 0) put(half, x.other);
            });
        }
    }
};
