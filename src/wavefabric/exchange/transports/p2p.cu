// Signals between GPUs through memory that both can reach.

// Later work of a peer's stream may go on: what was enqueued here before is done and visible.
extern "C" __global__ void signal(unsigned *const *flags, unsigned value, int count) {
    if (threadIdx.x < count) {
        __threadfence_system();
        *(volatile unsigned *)flags[threadIdx.x] = value;
    }
}

// Waits until each of these flags, in this GPU's memory, has come to a value. Counters may wrap.
extern "C" __global__ void await(unsigned *const *flags, unsigned value, int count) {
    if (threadIdx.x < count) {
        const volatile unsigned *flag = (const volatile unsigned *)flags[threadIdx.x];
        while ((int)(*flag - value) < 0) __nanosleep(100);
        __threadfence_system();
    }
}
