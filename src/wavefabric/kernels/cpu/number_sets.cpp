// Numbers for sets of values: points of equal values get equal numbers, in the order of first appearance.
#include "driver.h"

// Values count as equal if all their bits are.
template <int bytes> struct Unsigned { using type = unsigned int; };
template <> struct Unsigned<8> { using type = unsigned long long; };
using Bits = Unsigned<sizeof(REAL)>::type;

struct Sets {
    Counted<const Bits> values;  // (columns, points and more)
    Index columns, points;
    Counted<int> positions;  // a hash table, a power of two long: number of a set, or -1
    Counted<Bits> table;     // (most sets, columns)
    Counted<int> numbers;    // of the points
    Index width;             // of a row of values

    Bits value(Index k, Index point) const { return values[k * width + point]; }
    bool equal(Index number, Index point) const {
        for (Index k = 0; k < columns; ++k)
            if (table[number * columns + k] != value(k, point)) return false;
        return true;
    }
    // Multiplicative hashing by the golden ratio (Knuth), its high bits brought down.
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

// `count` is how many sets are in the table. Where a set more than it holds is met, `count` is one more than that, and the numbers
// are left unfinished.
static void number_sets(Thread, Sets sets, Counted<Index> count) {
    const Index most = sets.table.count / sets.columns;
    Index sum = count[0];
    int number = -1;
    for (Index i = 0; i < sets.points; ++i) {
        if (number < 0 || !sets.equal(number, i)) {  // than the point before
            Index at = sets.position(i);
            for (;; at = (at + 1) & (sets.positions.count - 1)) {
                number = sets.positions[at];
                if (number < 0 || sets.equal(number, i)) break;
            }
            if (number < 0) {
                if (sum == most) {
                    count[0] = sum + 1;
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
