// Kernels that store boxes of fields in other GPUs' memory and read boxes that other GPUs stored. After signals.cu and pack.cu.

struct Route {
    TYPE *at;         // staging buffer: in the receiver's memory to put, in this GPU's to take
    long long stride;   // values between the two staging buffers, which calls use in turn
    unsigned *flag;   // in the receiver's memory: number of messages stored; null: nothing is sent or awaited
    unsigned *calls;  // number of calls of this rank so far
    unsigned *done;   // blocks that have finished their part of this call
    long long rank;   // peer at the other end
};

// Called by all blocks of a message; the last block counts the call and, with `tell`, signals the receiver.
__device__ __forceinline__ void finish(const Route &route, unsigned call, bool tell) {
    if (!last_of(gridDim.x * gridDim.z, route.done)) return;
    *route.calls = call + 1;
    if (tell && route.flag) announce(route.flag, call + 1);
}

// Grid: as in pack.cu. The staging buffer is free: the receiver read the message of two calls ago before it sent its last one.
extern "C" __global__ void put(TYPE *const *fields, const Row *table, long long ny, long long nx, const Route *routes) {
    const Row row = table[blockIdx.y];
    const Route route = routes[blockIdx.y];
    const unsigned call = *(volatile unsigned *)route.calls;
    box_out(route.at + call % 2 * route.stride + blockIdx.z * volume(row), fields[blockIdx.z], row, ny, nx);
    finish(route, call, true);
}

extern "C" __global__ void take(TYPE *const *fields, const Row *table, long long ny, long long nx, const Route *routes,
                                unsigned *late, unsigned long long limit, const WEIGHT *wz, const WEIGHT *wy,
                                const WEIGHT *wx) {
    const Row row = table[blockIdx.y];
    const Route route = routes[blockIdx.y];
    const unsigned call = *(volatile unsigned *)route.calls;
    Timeout timeout = {late, limit, false};
    if (route.flag && threadIdx.x == 0 && threadIdx.y == 0) timeout.wait(route.flag, call + 1, route.rank);
    if (__syncthreads_or(timeout.missed)) return;
    box_in(route.at + call % 2 * route.stride + blockIdx.z * volume(row), fields[blockIdx.z], row, ny, nx, wz, wy, wx);
    finish(route, call, false);
}
