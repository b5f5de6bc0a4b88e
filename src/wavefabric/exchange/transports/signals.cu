// Signals between kernels of different GPUs, through memory that both reach. Goes before sources that need it.
//
// A signal is a counter in the memory of who waits, with one writer. What all threads of a block have stored before a
// barrier is there when a thread announces after it.

#ifdef __CUDA_ARCH__
__device__ __forceinline__ void announce(unsigned *counter, unsigned value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(counter), "r"(value) : "memory");
}
__device__ __forceinline__ unsigned look(const unsigned *counter) {
    unsigned value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
    return value;
}
__device__ __forceinline__ unsigned long long nanoseconds() {
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}
__device__ __forceinline__ void let_others() {}
#else
__device__ __forceinline__ void announce(unsigned *counter, unsigned value) { *(volatile unsigned *)counter = value; }
__device__ __forceinline__ unsigned look(const unsigned *counter) { return *(const volatile unsigned *)counter; }
__device__ __forceinline__ unsigned long long nanoseconds() {
    static unsigned long long ticks;
    return ++ticks;
}
__device__ __forceinline__ void let_others() { __nanosleep(0); }
#endif

// How long a thread has waited.
struct Watch {
    unsigned tries = 0;
    unsigned long long begun = 0, looked = 0;
};
// Nanoseconds between two looks at the host's memory, at least. When all threads of a GPU looked after every 256 tries, as
// they wait for a rank that is a little late, kernels of 1 ms took 85 ms now and then.
constexpr unsigned long long BETWEEN_LOOKS = 10000000;

// How long a kernel waits for other ranks.
struct Timeout {
    unsigned *late;  // 1 + the rank that did not come in time, in memory of the host
    unsigned long long limit;  // nanoseconds
    bool missed;  // somebody, by this thread

    // Whether one may go on waiting for a rank.
    __device__ __forceinline__ bool lasts(Watch &watch, long long rank) {
        let_others();
        if (missed) return false;
        if (++watch.tries % 256) return true;
        const unsigned long long now = nanoseconds();
        if (watch.begun == 0) watch.begun = watch.looked = now;
        if (now - watch.looked < (limit / 8 < BETWEEN_LOOKS ? limit / 8 : BETWEEN_LOOKS)) return true;
        watch.looked = now;
        missed = *(volatile unsigned *)late != 0;  // result by another block, or said by the host
        if (missed || now - watch.begun <= limit) return !missed;
        *(volatile unsigned *)late = 1 + (unsigned)rank;
        missed = true;
        return false;
    }
    // Until a rank's counter has come to a value. Counters may wrap.
    __device__ __forceinline__ void wait(const unsigned *counter, unsigned value, long long rank) {
        Watch watch;
        while ((int)(look(counter) - value) < 0 && lasts(watch, rank)) {}
    }
};

// True for one thread alone, of the last of so many blocks to come here: what all of them have stored before is visible
// to other GPUs, and `done` counts from 0 again. All threads of the block come.
__device__ __forceinline__ bool last_of(unsigned blocks, unsigned *done) {
    __syncthreads();
    if (threadIdx.x || threadIdx.y) return false;
    __threadfence_system();
    if (atomicAdd(done, 1u) != blocks - 1) return false;
    *done = 0;
    __threadfence_system();
    return true;
}
