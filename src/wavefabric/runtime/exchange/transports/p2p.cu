// Signals between GPUs through memory that both can reach.

// Set peers' flags: later work in their streams may run, as all work enqueued before in this stream is done and visible.
extern "C" __global__ void signal(unsigned *const *flags, unsigned value, int count) {
    __threadfence_system();
    for (int i = threadIdx.x; i < count; i += blockDim.x) *(volatile unsigned *)flags[i] = value;
}

// Wait until each flag, in this GPU's memory, has reached `value`. Counters may wrap around.
extern "C" __global__ void await(unsigned *const *flags, unsigned value, int count) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        const volatile unsigned *flag = (const volatile unsigned *)flags[i];
        while ((int)(*flag - value) < 0) __nanosleep(100);
    }
    __threadfence_system();
}
