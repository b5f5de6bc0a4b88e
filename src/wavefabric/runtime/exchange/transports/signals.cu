// Signals between kernels of different GPUs, through memory that both can access. Compiled before sources that use it.
//
// A signal is a counter in the memory of the GPU that waits, with one writer. After a barrier, one thread of a block calls
// `announce`; a GPU that sees the new value also sees all that threads of the block stored before the barrier.

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

// Measures how long a thread has waited.
struct Watch {
    unsigned tries = 0;
    unsigned long long begun = 0, looked = 0;
};
// Minimum nanoseconds between two reads of host memory. When all threads of a GPU read it after every 256 tries while they
// waited for a rank that was slightly late, kernels of 1 ms occasionally took 85 ms.
constexpr unsigned long long BETWEEN_LOOKS = 10000000;

// Limits how long a kernel waits for other ranks.
struct Timeout {
    unsigned *late;  // in host memory: 1 + the rank that did not signal in time, or 0
    unsigned long long limit;  // nanoseconds
    bool missed;  // whether this thread has given up waiting

    // Whether this thread may keep waiting for `rank`. Past the limit, write the rank to `late`.
    __device__ __forceinline__ bool lasts(Watch &watch, long long rank) {
        let_others();
        if (missed) return false;
        if (++watch.tries % 256) return true;
        const unsigned long long now = nanoseconds();
        if (watch.begun == 0) watch.begun = watch.looked = now;
        if (now - watch.looked < (limit / 8 < BETWEEN_LOOKS ? limit / 8 : BETWEEN_LOOKS)) return true;
        watch.looked = now;
        missed = *(volatile unsigned *)late != 0;  // set by another block, or by the host
        if (missed || now - watch.begun <= limit) return !missed;
        *(volatile unsigned *)late = 1 + (unsigned)rank;
        missed = true;
        return false;
    }
    // Wait until the counter of `rank` has reached `value`, or time is up. Counters may wrap around.
    __device__ __forceinline__ void wait(const unsigned *counter, unsigned value, long long rank) {
        Watch watch;
        while ((int)(look(counter) - value) < 0 && lasts(watch, rank)) {}
    }
};

// Return true for one thread of the last of `blocks` blocks that call this: what all these blocks stored before is then
// visible to other GPUs, and `done` counts from 0 again. All threads of a block must call it.
__device__ __forceinline__ bool last_of(unsigned blocks, unsigned *done) {
    __syncthreads();
    if (threadIdx.x || threadIdx.y) return false;
    __threadfence_system();
    if (atomicAdd(done, 1u) != blocks - 1) return false;
    *done = 0;
    __threadfence_system();
    return true;
}
