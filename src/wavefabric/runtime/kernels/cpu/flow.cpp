// The event loop of the flow-level simulation of transfers, and max-min fair rates. In double precision, on one thread.
#include <stdlib.h>

#include "driver.h"

namespace {
// Events whose times differ by less than this, relative to the time, are simultaneous.
constexpr double SAME = 1e-12;

double least_of(double a, double b) { return b < a ? b : a; }
double most_of(double a, double b) { return b > a ? b : a; }

// Resources, such as links, that pairs of ranks share: pair p uses resource[first[p]] ... resource[first[p + 1] - 1], each for
// `fraction` of its bytes. `capacity`: of each resource, bytes/s; `most`: maximum rate of one transfer, bytes/s.
struct SharedLinks {
    Counted<const Index> first, resource;
    Counted<const double> fraction, capacity;
    double most;
};

// Memory of a simulation, allocated at once and divided into arrays; `start` is null if the system has none left.
struct Memory {
    Word *start, *next;
    explicit Memory(Index words) : start((Word *)calloc((size_t)words + 1, sizeof(Word))), next(start) {}
    Memory(const Memory &) = delete;
    ~Memory() { free(start); }
    template <class T> Counted<T> array(Index count, T value = 0) {
        static_assert(sizeof(T) == sizeof(Word), "an array of words");
        const Counted<T> all = {(T *)next, count};
        next += count;
        for (Index i = 0; value != 0 && i < count; ++i) all[i] = value;
        return all;
    }
};

// Scratch of `fair_rates`: one element per resource (`begin`: one more); `users`: one per use of a resource by a pair, as at most
// one transfer of a pair moves at a time.
struct Scratch {
    Counted<double> left, weight;
    Counted<Index> waiting, used, fill, begin, users;
    static Index words(const SharedLinks &links) { return 6 * links.capacity.count + 1 + links.resource.count; }
    Scratch(Memory &m, const SharedLinks &links)
        : left(m.array<double>(links.capacity.count)),
          weight(m.array<double>(links.capacity.count)),
          waiting(m.array<Index>(links.capacity.count)),
          used(m.array<Index>(links.capacity.count)),
          fill(m.array<Index>(links.capacity.count)),
          begin(m.array<Index>(links.capacity.count + 1)),
          users(m.array<Index>(links.resource.count)) {}
};

// Transfers, one element each. `pair`: -1 within a rank; `size` in bytes; `delay` in s before the first byte; `work`: time in s that
// the receiver needs to add the data up, or a rank to copy them; `follows`: the previous transfer from the same rank to the same,
// or -1. Successors of transfer t are after[first_after[t]] ... after[first_after[t + 1] - 1].
struct Transfers {
    Counted<const Index> src, dst, pair;
    Counted<const double> size, delay, work;
    Counted<const Index> follows, first_after, after;
};

// The state, which changes with time. Of `moving`, `timed`, `ready` and `stack` only the first elements are in use.
struct State {
    Counted<double> left;         // bytes
    Counted<Index> sent, waited;  // whether all is sent; whether its delay is over
    Counted<Index> moving;        // transfers in progress
    Counted<Index> timed;         // transfers that wait until a time: the end of their delay or of their sum
    Counted<double> until;
    Counted<Index> ready;  // transfers whose inputs are complete; or that may start as soon as an engine is free
    Counted<Index> stack;
    Counted<Index> behind;  // next transfer in the queue for an engine
    Counted<Index> before;  // next transfer from the same rank to the same; -1: none
    Counted<Index> route;   // pairs of the transfers in progress
    Counted<double> free;   // time when each GPU finishes its sums
    Counted<Index> busy;    // number of transfers that each GPU is sending
    Counted<Index> head, tail;  // first and last transfer in the queue for each GPU's engines; -1: none
    Counted<double> rate;       // bytes/s of each pair
    static Index words(Index n, Index ranks, Index pairs) { return 11 * n + 4 * ranks + pairs; }
    State(Memory &m, const Transfers &transfers, Index ranks, Index pairs) : State(m, transfers.src.count, ranks, pairs) {
        for (Index t = 0; t < left.count; ++t) {
            left[t] = transfers.size[t];
            if (transfers.follows[t] >= 0) before[transfers.follows[t]] = t;
        }
    }

  private:
    State(Memory &m, Index n, Index ranks, Index pairs)
        : left(m.array<double>(n)),
          sent(m.array<Index>(n)),
          waited(m.array<Index>(n)),
          moving(m.array<Index>(n)),
          timed(m.array<Index>(n)),
          until(m.array<double>(n)),
          ready(m.array<Index>(n)),
          stack(m.array<Index>(n)),
          behind(m.array<Index>(n, -1)),
          before(m.array<Index>(n, -1)),
          route(m.array<Index>(n)),
          free(m.array<double>(ranks)),
          busy(m.array<Index>(ranks)),
          head(m.array<Index>(ranks, -1)),
          tail(m.array<Index>(ranks, -1)),
          rate(m.array<double>(pairs)) {}
};
}  // namespace

template <>
struct Take<SharedLinks>
    : Record<SharedLinks, Counted<const Index>, Counted<const Index>, Counted<const double>, Counted<const double>, double> {};
template <>
struct Take<Transfers>
    : Record<Transfers, Counted<const Index>, Counted<const Index>, Counted<const Index>, Counted<const double>,
             Counted<const double>, Counted<const double>, Counted<const Index>, Counted<const Index>, Counted<const Index>> {};

namespace {
// List the resources that flows use, and the users of each: users[begin[r]] ... users[begin[r + 1] - 1]. Return how many are used.
Index list_users(Counted<const Index> flows, const SharedLinks &links, const Scratch &s) {
    const Index resources = links.capacity.count;
    for (Index r = 0; r < resources; ++r) s.waiting[r] = 0;
    for (Index i = 0; i < flows.count; ++i)
        for (Index u = links.first[flows[i]]; u < links.first[flows[i] + 1]; ++u) ++s.waiting[links.resource[u]];
    Index uses = 0;
    s.begin[0] = 0;
    for (Index r = 0; r < resources; ++r) {
        s.begin[r + 1] = s.begin[r] + s.waiting[r];
        s.fill[r] = s.begin[r];
        if (s.waiting[r] > 0) s.used[uses++] = r;
    }
    for (Index i = 0; i < flows.count; ++i)
        for (Index u = links.first[flows[i]]; u < links.first[flows[i] + 1]; ++u)
            s.users[s.fill[links.resource[u]]++] = flows[i];
    return uses;
}

// Write the max-min fair rates of `flows`, by progressive filling, to `rate`, which has an element for every flow. The resource with
// the smallest rate per flow fixes the rates of its flows; these are subtracted from their other resources; and so on (Bertsekas &
// Gallager, Data Networks, 2nd ed., section 6.5.2).
void fair_rates(Counted<const Index> flows, const SharedLinks &links, const Scratch &s, Counted<double> rate) {
    Index uses = list_users(flows, links, s);
    for (Index r = 0; r < links.capacity.count; ++r) {
        s.left[r] = links.capacity[r];
        s.weight[r] = 0.0;  // sum of the fractions of flows whose rates are not fixed yet
    }
    for (Index i = 0; i < flows.count; ++i) {
        rate[flows[i]] = -1.0;
        for (Index u = links.first[flows[i]]; u < links.first[flows[i] + 1]; ++u)
            s.weight[links.resource[u]] += links.fraction[u];
    }
    for (Index unfixed = flows.count; unfixed > 0;) {
        double least = links.most;
        for (Index k = 0; k < uses; ++k) {
            const Index r = s.used[k];
            if (s.waiting[r] > 0) least = least_of(least, s.left[r] / s.weight[r]);
        }
        if (least >= links.most) {
            for (Index i = 0; i < flows.count; ++i)
                if (rate[flows[i]] < 0.0) rate[flows[i]] = links.most;
            return;
        }
        Index kept = 0;
        for (Index k = 0; k < uses; ++k) {
            const Index r = s.used[k];
            if (s.waiting[r] == 0) continue;
            if (s.left[r] / s.weight[r] <= least * (1.0 + SAME))
                for (Index i = s.begin[r]; i < s.begin[r + 1]; ++i) {
                    const Index f = s.users[i];
                    if (!(rate[f] < 0.0)) continue;
                    rate[f] = least;
                    --unfixed;
                    for (Index u = links.first[f]; u < links.first[f + 1]; ++u) {
                        const Index q = links.resource[u];
                        s.left[q] = most_of(s.left[q] - least * links.fraction[u], 0.0);
                        s.weight[q] -= links.fraction[u];
                        --s.waiting[q];
                    }
                }
            s.used[kept++] = r;
        }
        uses = kept;
    }
}

// Shellsort, in place.
void sort(Counted<Index> numbers, Index count) {
    Index gap = 1;
    while (gap < count / 9) gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3)
        for (Index i = gap; i < count; ++i) {
            const Index number = numbers[i];
            Index k = i;
            for (; k >= gap && numbers[k - gap] > number; k -= gap) numbers[k] = numbers[k - gap];
            numbers[k] = number;
        }
}

struct Simulation {
    const Transfers &transfers;
    const SharedLinks &links;
    const State &s;
    Counted<Index> waits;   // number of transfers that each transfer waits for
    Counted<double> times;  // begin and end of each transfer
    Index engines;  // transfers that a GPU can send at the same time; 0: any number
    double now;
    Index done, timers, movers, readies, expired, arrived;

    // End transfer t: transfers that waited only for it become ready.
    void end(Index t) {
        times[2 * t + 1] = now;
        for (Index i = transfers.first_after[t]; i < transfers.first_after[t + 1]; ++i)
            if (--waits[transfers.after[i]] == 0) s.ready[readies++] = transfers.after[i];
    }

    // Schedule the sum or copy of transfer t, after those that its GPU has begun.
    void add_up(Index t) {
        double &free = s.free[transfers.dst[t]];
        free = most_of(free, now) + transfers.work[t];
        s.timed[timers] = t;
        s.until[timers++] = free;
    }

    // Begin all ready transfers: between ranks their delay, within a rank their copy; end those without a copy at once.
    void begin() {
        while (readies > 0) {
            Index finished = 0;
            while (readies > 0) {
                const Index t = s.ready[--readies];
                times[2 * t] = now;
                if (transfers.pair[t] >= 0) {
                    s.timed[timers] = t;
                    s.until[timers++] = now + transfers.delay[t];
                } else if (transfers.work[t] > 0.0) {
                    s.sent[t] = true;
                    add_up(t);
                } else {
                    s.stack[finished++] = t;
                }
            }
            done += finished;
            while (finished > 0) end(s.stack[--finished]);
        }
    }

    // Return the time when the next delay or sum ends, or the next transfer completes.
    double next_event() const {
        double soon = INFINITY;
        for (Index i = 0; i < timers; ++i) soon = least_of(soon, s.until[i]);
        for (Index i = 0; i < movers; ++i) {
            const Index t = s.moving[i];
            soon = least_of(soon, now + s.left[t] / s.rate[transfers.pair[t]]);
        }
        return soon;
    }

    // Move transfers for `step` seconds. Those that need at most `close` more seconds are complete and go on the stack.
    void advance(double step, double close) {
        Index kept = 0;
        arrived = 0;
        for (Index i = 0; i < movers; ++i) {
            const Index t = s.moving[i];
            const double speed = s.rate[transfers.pair[t]];
            s.left[t] -= speed * step;
            if (s.left[t] <= speed * close) {
                s.left[t] = 0.0;
                s.stack[arrived++] = t;
            } else {
                s.moving[kept++] = t;
            }
        }
        movers = kept;
    }

    // End delays and sums that last no longer than `until`: transfers that may start go to `ready`, sums to the stack, as -1 - t.
    void expire(double until) {
        readies = 0;
        for (Index i = 0; i < arrived; ++i) {
            const Index t = s.stack[i], next = s.before[t];
            s.sent[t] = true;
            --s.busy[transfers.src[t]];
            if (next >= 0 && s.waited[next]) s.ready[readies++] = next;
        }
        Index kept = 0;
        expired = arrived;
        for (Index i = 0; i < timers; ++i) {
            const Index t = s.timed[i];
            if (s.until[i] > until) {
                s.timed[kept] = t;
                s.until[kept++] = s.until[i];
            } else if (s.sent[t]) {
                s.stack[expired++] = -1 - t;
            } else {
                s.waited[t] = true;
                if (transfers.follows[t] < 0 || s.sent[transfers.follows[t]]) s.ready[readies++] = t;
            }
        }
        timers = kept;
    }

    // Queue transfers that may start for their GPU's engines, which send them first come, first served.
    void send() {
        sort(s.ready, readies);
        for (Index i = 0; i < readies; ++i) {
            const Index t = s.ready[i], gpu = transfers.src[t];
            if (s.head[gpu] < 0) s.head[gpu] = t;
            else s.behind[s.tail[gpu]] = t;
            s.tail[gpu] = t;
        }
        for (Index gpu = 0; gpu < s.head.count; ++gpu)
            while (s.head[gpu] >= 0 && (engines == 0 || s.busy[gpu] < engines)) {
                const Index t = s.head[gpu];
                s.head[gpu] = s.behind[t];
                ++s.busy[gpu];
                s.moving[movers++] = t;
                times[2 * t] = most_of(times[2 * t], now - transfers.delay[t]);
            }
    }

    // Schedule the sums of complete transfers, one after another; end transfers that need no sum or whose sum has ended.
    void receive() {
        Index over = 0;
        for (Index i = 0; i < expired; ++i) {
            const Index t = s.stack[i];
            if (t >= 0 && transfers.work[t] > 0.0) add_up(t);
            else s.stack[over++] = t >= 0 ? t : -1 - t;
        }
        readies = 0;
        for (Index i = 0; i < over; ++i) end(s.stack[i]);
        done += over;
    }

    // Run the simulation; return the time in s when all transfers have ended.
    double run(const Scratch &scratch) {
        const Index n = transfers.src.count;
        for (Index t = 0; t < n; ++t)
            if (waits[t] == 0) s.ready[readies++] = t;
        for (;;) {
            begin();
            if (done == n) return now;
            const double before = now;
            now = next_event();
            const double close = now * SAME;
            advance(now - before, close);
            const Index staying = movers;
            expire(now + close);
            send();
            receive();
            if (movers > 0 && (arrived > 0 || movers > staying)) {
                for (Index i = 0; i < movers; ++i) s.route[i] = transfers.pair[s.moving[i]];
                fair_rates({s.route.data, movers}, links, scratch, s.rate);
            }
        }
    }
};
}  // namespace

// Compute max-min fair rates. `success` is false if there is no memory.
static void fair_shares(Thread, Counted<const Index> flows, SharedLinks links, Counted<double> rate, Counted<bool> success) {
    Memory memory(Scratch::words(links));
    success[0] = memory.start != nullptr;
    if (success[0]) fair_rates(flows, links, Scratch(memory, links), rate);
}
EXPORT(fair_shares)

// Write the seconds that all transfers take together, and the times of each; changes `waits`. `success` is false if there is no memory.
static void simulate(Thread, Transfers transfers, SharedLinks links, Counted<Index> waits, Index ranks, Index engines,
                     Counted<double> times, Counted<double> seconds, Counted<bool> success) {
    const Index pairs = links.first.count - 1;
    Memory memory(State::words(transfers.src.count, ranks, pairs) + Scratch::words(links));
    success[0] = memory.start != nullptr;
    if (!success[0]) return;
    const State state(memory, transfers, ranks, pairs);
    Simulation simulation = {transfers, links, state, waits, times, engines, 0.0, 0, 0, 0, 0, 0, 0};
    seconds[0] = simulation.run(Scratch(memory, links));
}
EXPORT(simulate)
