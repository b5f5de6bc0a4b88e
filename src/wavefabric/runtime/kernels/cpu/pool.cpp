// Threads that run kernels: they spin for some microseconds between kernels, then sleep.
#include <stdint.h>

#include "driver.h"

#ifdef _WIN32
#include <windows.h>
typedef SRWLOCK Lock;
typedef CONDITION_VARIABLE Signal;
#define LOCK_INIT SRWLOCK_INIT
#define SIGNAL_INIT CONDITION_VARIABLE_INIT
static void acquire(Lock *l) { AcquireSRWLockExclusive(l); }
static void release(Lock *l) { ReleaseSRWLockExclusive(l); }
static void wait(Signal *s, Lock *l) { SleepConditionVariableSRW(s, l, INFINITE, 0); }
static void wake(Signal *s) { WakeAllConditionVariable(s); }
#else
#include <pthread.h>
typedef pthread_mutex_t Lock;
typedef pthread_cond_t Signal;
#define LOCK_INIT PTHREAD_MUTEX_INITIALIZER
#define SIGNAL_INIT PTHREAD_COND_INITIALIZER
static void acquire(Lock *l) { pthread_mutex_lock(l); }
static void release(Lock *l) { pthread_mutex_unlock(l); }
static void wait(Signal *s, Lock *l) { pthread_cond_wait(s, l); }
static void wake(Signal *s) { pthread_cond_broadcast(s); }
#endif

typedef void (*Kernel)(const Word *, Index, Index);
// One kernel with its arguments, an entry of a list of launches.
struct Launch {
    Kernel kernel;
    const Word *words;
};

namespace {
constexpr int MOST_THREADS = 1024;
// Checks of a counter before a thread sleeps: some 50 us.
constexpr int SPINS = 1000;

// A list of launches that is run `times` times; a barrier of all threads follows each kernel.
struct Work {
    const Launch *launches;
    Index count, times;
    int threads;
};

// A number that only grows, and the threads that sleep until it does.
struct Counter {
    uint64_t value;
    int sleepers;
    Signal signal;
};

Lock launching = LOCK_INIT;  // one work at a time
Lock lock = LOCK_INIT;       // protects the variables below
Work work;
int workers = 0, at_barrier = 0;
Counter works = {0, 0, SIGNAL_INIT}, barriers = {0, 0, SIGNAL_INIT};

inline void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

uint64_t look(const Counter &c) { return __atomic_load_n(&c.value, __ATOMIC_ACQUIRE); }

void until_changed(Counter &c, uint64_t old) {
    for (int i = 0; i < SPINS; ++i) {
        if (look(c) != old) return;
        pause();
    }
    acquire(&lock);
    ++c.sleepers;
    while (look(c) == old) wait(&c.signal, &lock);
    --c.sleepers;
    release(&lock);
}

void grow(Counter &c) {
    acquire(&lock);
    __atomic_store_n(&c.value, c.value + 1, __ATOMIC_RELEASE);
    if (c.sleepers) wake(&c.signal);
    release(&lock);
}

void meet(int threads) {
    const uint64_t before = look(barriers);
    if (__atomic_add_fetch(&at_barrier, 1, __ATOMIC_ACQ_REL) == threads) {
        __atomic_store_n(&at_barrier, 0, __ATOMIC_RELEASE);
        grow(barriers);
    } else {
        until_changed(barriers, before);
    }
}

void take_part(const Work &w, int number) {
    for (Index t = 0; t < w.times; ++t)
        for (Index i = 0; i < w.count; ++i) {
            w.launches[i].kernel(w.launches[i].words, number, w.threads);
            if (w.threads > 1) meet(w.threads);
        }
}

void serve(int number, uint64_t seen) {
    for (;;) {
        until_changed(works, seen);
        // `work` cannot change while this thread takes part in it; a thread that does not take part may miss some work.
        acquire(&lock);
        seen = works.value;
        const Work w = work;
        release(&lock);
        if (number < w.threads) take_part(w, number);
    }
}

struct Start {
    int number;
    uint64_t seen;
};
Start starts[MOST_THREADS];

#ifdef _WIN32
DWORD WINAPI run(void *start) {
    serve(((Start *)start)->number, ((Start *)start)->seen);
    return 0;
}
bool start_thread(Start *s) { return CreateThread(0, 0, run, s, 0, 0) != 0; }
void after_fork() {}
#else
void *run(void *start) {
    serve(((Start *)start)->number, ((Start *)start)->seen);
    return 0;
}
bool start_thread(Start *s) {
    pthread_t thread;
    if (pthread_create(&thread, 0, run, s)) return false;
    pthread_detach(thread);
    return true;
}
// A forked process has only one thread: reset the pool.
void forget() {
    launching = lock = LOCK_INIT;
    works = barriers = {0, 0, SIGNAL_INIT};
    workers = at_barrier = 0;
}
void after_fork() {
    static bool done = false;
    if (!done) pthread_atfork(0, 0, forget);
    done = true;
}
#endif

// Start threads until there are `threads`, with this one, and return how many there are; fewer if the system starts no more.
int ready(int threads) {
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    after_fork();
    while (workers + 1 < threads) {
        starts[workers] = {workers + 1, look(works)};
        if (!start_thread(&starts[workers])) return workers + 1;
        ++workers;
    }
    return threads;
}
}  // namespace

// Run a list of kernels `times` times on `threads` threads, and wait until all is done.
EXPORTED void wavefabric_run(const Launch *launches, Index count, Index times, int threads) {
    if (threads <= 1) {
        take_part({launches, count, times, 1}, 0);
        return;
    }
    acquire(&launching);
    threads = ready(threads);
    const Work w = {launches, count, times, threads};
    acquire(&lock);
    work = w;
    release(&lock);
    grow(works);
    take_part(w, 0);
    release(&launching);
}

EXPORTED void wavefabric_call(Kernel kernel, const Word *words, int threads) {
    const Launch launch = {kernel, words};
    wavefabric_run(&launch, 1, 1, threads);
}
