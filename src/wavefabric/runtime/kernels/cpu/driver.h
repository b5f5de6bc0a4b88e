// How kernels run on a CPU: arguments are passed as 8-byte words, each thread does a part of the work, loops go over rows.
//
// A kernel is an ordinary function of a Thread and its arguments. EXPORT(name) exports it by its name and precision, such as
// update_velocity_float, with one pointer to its words. Take<T> says how many words an argument of type T has.
#pragma once

#include "../complex.h"

#define INLINED inline __attribute__((always_inline))
#define EXPORTED extern "C" __attribute__((visibility("default")))
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
// Tell the compiler that the iterations of a loop are independent: arrays overlap point by point or not at all.
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

union Word {
    Index integer;
    double number;
    void *pointer;
};

// One of `count` threads that run a kernel together.
struct Thread {
    Index number, count;
    // This thread's part of a loop from 0 to n: the iterations from first(n) to last(n) - 1.
    Index first(Index n) const { return n * number / count; }
    Index last(Index n) const { return n * (number + 1) / count; }
};

template <class T> struct Take {  // integers and bool
    static constexpr int words = 1;
    static T from(const Word *w) { return (T)w->integer; }
};
template <class T> struct Take<T *> {
    static constexpr int words = 1;
    static T *from(const Word *w) { return (T *)w->pointer; }
};
template <> struct Take<float> {
    static constexpr int words = 1;
    static float from(const Word *w) { return (float)w->number; }
};
template <> struct Take<double> {
    static constexpr int words = 1;
    static double from(const Word *w) { return w->number; }
};

// Points of a grid, C order (nz, ny, nx).
struct Grid {
    Index nz, ny, nx;
    Index rows() const { return nz * ny; }
    Index size() const { return nz * ny * nx; }
};
template <> struct Take<Grid> {
    static constexpr int words = 3;
    static Grid from(const Word *w) { return {w[0].integer, w[1].integer, w[2].integer}; }
};

// An array with its number of elements (or of columns).
template <class T> struct Counted {
    T *data;
    Index count;
    T &operator[](Index i) const { return data[i]; }
};
template <class T> struct Take<Counted<T>> {
    static constexpr int words = 2;
    static Counted<T> from(const Word *w) { return {(T *)w[0].pointer, w[1].integer}; }
};

// A medium parameter: a full grid, or one row used everywhere.
struct Medium {
    const REAL *data;
    bool full;
    const REAL *row(Index first) const { return full ? data + first : data; }
};
template <> struct Take<Medium> {
    static constexpr int words = 2;
    static Medium from(const Word *w) { return {(const REAL *)w[0].pointer, w[1].integer != 0}; }
};

// Take the members of a structure from successive words.
template <class T> T take(const Word *&w) {
    const T value = Take<T>::from(w);
    w += Take<T>::words;
    return value;
}
template <class T, class... Member> struct Record {
    static constexpr int words = (Take<Member>::words + ...);
    static T from(const Word *w) { return T{take<Member>(w)...}; }
};

template <class... A> struct Call {
    template <int... I> struct Places {};
    template <int N, int... I> struct Count : Count<N - 1, N - 1, I...> {};
    template <int... I> struct Count<0, I...> { using type = Places<I...>; };
    static constexpr int place(int argument) {
        const int words[] = {Take<A>::words...};
        int sum = 0;
        for (int i = 0; i < argument; ++i) sum += words[i];
        return sum;
    }
    template <int... I> static void run(void (*kernel)(Thread, A...), const Word *w, Thread thread, Places<I...>) {
        kernel(thread, Take<A>::from(w + place(I))...);
    }
};
template <class... A> inline void call(void (*kernel)(Thread, A...), const Word *w, Thread thread) {
    Call<A...>::run(kernel, w, thread, typename Call<A...>::template Count<sizeof...(A)>::type{});
}

#define EXPORT(kernel)                                                                        \
    EXPORTED void JOIN(kernel, REAL)(const Word *words, Index number, Index count) {          \
        call(kernel, words, Thread{number, count});                                           \
    }

// Loop over this thread's rows of a grid, with z, y, and the index `first` of the row's first point.
#define ROWS(thread, grid)                                                                                            \
    for (Index row_ = (thread).first((grid).rows()), end_ = (thread).last((grid).rows()); row_ < end_; ++row_)         \
        for (Index z = row_ / (grid).ny, y = row_ % (grid).ny, first = row_ * (grid).nx, once_ = 1; once_; once_ = 0)

// Loop over points of a row (EACH), or over this thread's part of n items (ITEMS).
#define EACH(x, begin, end) INDEPENDENT for (Index x = (begin); x < (end); ++x)
#define ITEMS(i, thread, n) EACH(i, (thread).first(n), (thread).last(n))
