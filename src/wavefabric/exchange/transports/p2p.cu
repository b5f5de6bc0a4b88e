// Signals between GPUs through memory that both can reach.

// Later work of a peer's stream may go on: what was enqueued here before is done and visible.
extern "C" __global__ void signal(unsigned *const *flags, unsigned value, int count) {
    __threadfence_system();
    for (int i = threadIdx.x; i < count; i += blockDim.x) *(volatile unsigned *)flags[i] = value;
}

// Waits until each of these flags, in this GPU's memory, has come to a value. Counters may wrap.
extern "C" __global__ void await(unsigned *const *flags, unsigned value, int count) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        const volatile unsigned *flag = (const volatile unsigned *)flags[i];
        while ((int)(*flag - value) < 0) __nanosleep(100);
    }
    __threadfence_system();
}
