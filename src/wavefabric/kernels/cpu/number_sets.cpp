// Number sets of values: points with equal values get equal numbers, in the order of first appearance.
#include "driver.h"

// Values count as equal if all their bits are.
template <int bytes> struct Unsigned { using type = unsigned int; };
template <> struct Unsigned<8> { using type = unsigned long long; };
using Bits = Unsigned<sizeof(REAL)>::type;

struct Sets {
    Counted<const Bits> values;  // (columns, points and more)
    Index columns, points;
    Counted<int> positions;  // hash table, its length a power of two: number of a set, or -1
    Counted<Bits> table;     // (maximum number of sets, columns)
    Counted<int> numbers;    // of the points
    Index width;             // length of a row of values

    Bits value(Index k, Index point) const { return values[k * width + point]; }
    bool equal(Index number, Index point) const {
        for (Index k = 0; k < columns; ++k)
            if (table[number * columns + k] != value(k, point)) return false;
        return true;
    }
    // Multiplicative hashing by the golden ratio (Knuth); high bits are mixed into the low bits.
    Index position(Index point) const {
        unsigned long long mixed = 0;
        for (Index k = 0; k < columns; ++k) {
            mixed = (mixed ^ value(k, point)) * 0x9E3779B97F4A7C15ull;
            mixed ^= mixed >> 32;
        }
        return (Index)(mixed & (unsigned long long)(positions.count - 1));
    }
};
template <>
struct Take<Sets> : Record<Sets, Counted<const Bits>, Index, Index, Counted<int>, Counted<Bits>, Counted<int>, Index> {};

// `count`: number of sets in the table. If there are more sets than the table can store, `count` becomes that maximum plus one, and
// the numbers of points are incomplete.
static void number_sets(Thread, Sets sets, Counted<Index> count) {
    const Index most = sets.table.count / sets.columns;
    Index sum = count[0];
    int number = -1;
    for (Index i = 0; i < sets.points; ++i) {
        if (number < 0 || !sets.equal(number, i)) {  // differs from the previous point
            Index at = sets.position(i);
            for (;; at = (at + 1) & (sets.positions.count - 1)) {
                number = sets.positions[at];
                if (number < 0 || sets.equal(number, i)) break;
            }
            if (number < 0) {
                if (sum >= most) {
                    count[0] = most + 1;
                    return;
                }
                number = sets.positions[at] = (int)sum;
                for (Index k = 0; k < sets.columns; ++k) sets.table[sum * sets.columns + k] = sets.value(k, i);
                ++sum;
            }
        }
        sets.numbers[i] = number;
    }
    count[0] = sum;
}
EXPORT(number_sets)
