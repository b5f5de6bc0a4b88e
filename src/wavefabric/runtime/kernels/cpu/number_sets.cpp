// Number sets of values: points with equal values get equal numbers.
#include <cstring>

#include "driver.h"

// Values count as equal if all their bits are.
template <int bytes> struct Unsigned { using type = unsigned int; };
template <> struct Unsigned<8> { using type = unsigned long long; };
using Bits = Unsigned<sizeof(REAL)>::type;

// Number of points whose values are read together, and the maximum number of arrays.
constexpr Index BLOCK = 256, MOST_COLUMNS = 16;

// Arrays whose values at a point are a set: (columns, 3), address, bytes of a value, and numbers from plane to plane.
struct Columns {
    Counted<const Index> facts;
    Index count() const { return facts.count / 3; }
    // Round values of successive points of a plane to REAL: to[k * BLOCK + i] of array k.
    void read(Index plane, Index first, Index points, REAL *to) const {
        for (Index k = 0; k < count(); ++k, to += BLOCK) {
            const Index at = plane * facts[3 * k + 2] + first;
            if (facts[3 * k + 1] == 4) {
                const float *from = (const float *)facts[3 * k] + at;
                EACH(i, 0, points) to[i] = (REAL)from[i];
            } else {
                const double *from = (const double *)facts[3 * k] + at;
                EACH(i, 0, points) to[i] = (REAL)from[i];
            }
        }
    }
};
template <> struct Take<Columns> : Record<Columns, Counted<const Index>> {};

// Distinct sets found so far, and where they are in the hash table, whose length is a power of two.
struct Table {
    int *positions;  // number of a set, or -1
    Index slots;
    Bits *sets;  // (maximum number of sets, columns)
    Index columns;

    static Bits bits(const REAL *values, Index k, Index point) {
        Bits result;
        memcpy(&result, values + k * BLOCK + point, sizeof result);
        return result;
    }
    bool equal(Index number, const REAL *values, Index point) const {
        for (Index k = 0; k < columns; ++k)
            if (sets[number * columns + k] != bits(values, k, point)) return false;
        return true;
    }
    // Return the place of a set, or the empty place where it belongs. Multiplicative hashing by the golden ratio (Knuth); high bits
    // are mixed into the low bits.
    Index place(const REAL *values, Index point) const {
        unsigned long long mixed = 0;
        for (Index k = 0; k < columns; ++k) {
            mixed = (mixed ^ bits(values, k, point)) * 0x9E3779B97F4A7C15ull;
            mixed ^= mixed >> 32;
        }
        Index at = (Index)(mixed & (unsigned long long)(slots - 1));
        while (positions[at] >= 0 && !equal(positions[at], values, point)) at = (at + 1) & (slots - 1);
        return at;
    }
};

// Collect the sets of the listed pieces of planes, (pieces, 3): plane, first point, end. Part k of the counts has its own table and reads
// every parts-th piece; it adds to the `counts[k]` sets in its table, or begins with an empty one if that is -1. Once a part has more
// than `limit` sets, its count is one more than the limit, and all parts stop.
static void collect_sets(Thread t, Columns columns, Counted<const Index> pieces, Index limit, Index slots, int *positions, Bits *sets,
                         Counted<Index> counts) {
    const Index parts = counts.count;
    REAL values[MOST_COLUMNS * BLOCK];
    for (Index part = t.first(parts); part < t.last(parts); ++part) {
        const Table table{positions + part * slots, slots, sets + part * limit * columns.count(), columns.count()};
        Index sum = counts[part];
        if (sum < 0) {
            for (Index i = 0; i < slots; ++i) table.positions[i] = -1;
            sum = 0;
        }
        for (Index p = 3 * part; p < pieces.count && sum <= limit; p += 3 * parts)
            for (Index first = pieces[p + 1], end = pieces[p + 2]; first < end && sum <= limit; first += BLOCK) {
                const Index points = end - first < BLOCK ? end - first : BLOCK;
                for (Index other = 0; other < parts; ++other)
                    if (__atomic_load_n(&counts[other], __ATOMIC_RELAXED) > limit) return;
                columns.read(pieces[p], first, points, values);
                Index last = -1;
                for (Index i = 0; i < points; ++i) {
                    if (last >= 0 && table.equal(last, values, i)) continue;  // like the previous point
                    const Index at = table.place(values, i);
                    if (table.positions[at] < 0) {
                        if (sum == limit) {
                            ++sum;
                            break;
                        }
                        for (Index k = 0; k < table.columns; ++k) table.sets[sum * table.columns + k] = Table::bits(values, k, i);
                        table.positions[at] = (int)sum++;
                    }
                    last = table.positions[at];
                }
            }
        __atomic_store_n(&counts[part], sum, __ATOMIC_RELAXED);
    }
}
EXPORT(collect_sets)

// Write the number of the set of each point, of 1 or 2 `bytes`. `missing` becomes 1 if a point's set is not in the table.
static void index_sets(Thread t, Columns columns, Index plane, Index planes, Index slots, int *positions, Bits *sets, void *out, Index bytes,
                       Index *missing) {
    const Table table{positions, slots, sets, columns.count()};
    REAL values[MOST_COLUMNS * BLOCK];
    const Index blocks = (plane + BLOCK - 1) / BLOCK;
    for (Index block = t.first(planes * blocks); block < t.last(planes * blocks); ++block) {
        const Index z = block / blocks, inside = block % blocks * BLOCK, first = z * plane + inside;
        const Index count = plane - inside < BLOCK ? plane - inside : BLOCK;
        columns.read(z, inside, count, values);
        Index number = -1;
        for (Index i = 0; i < count; ++i) {
            if (number < 0 || !table.equal(number, values, i)) {
                number = positions[table.place(values, i)];
                if (number < 0) {
                    __atomic_store_n(missing, (Index)1, __ATOMIC_RELAXED);
                    return;
                }
            }
            if (bytes == 1) ((unsigned char *)out)[first + i] = (unsigned char)number;
            else ((unsigned short *)out)[first + i] = (unsigned short)number;
        }
    }
}
EXPORT(index_sets)
