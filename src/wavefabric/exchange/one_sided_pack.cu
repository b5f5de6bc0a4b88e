// Boxes of fields straight to the memory of other GPUs, and from where others have put theirs. After signals.cu and pack.cu.

struct Route {
    TYPE *at;         // where the message goes, or where it comes
    long long stride;   // from there to the same in the next call, and back in the one after it
    unsigned *flag;   // in the receiver's memory: calls whose message is there; null: nothing is sent or awaited
    unsigned *calls;  // how often this rank has done it
    unsigned *done;   // blocks that have finished their share of this call
    long long rank;   // at the other end
};

// All blocks of a message come here; the last one counts the call.
__device__ __forceinline__ void finish(const Route &route, unsigned call, bool tell) {
    if (!last_of(gridDim.x * gridDim.z, route.done)) return;
    *route.calls = call + 1;
    if (tell && route.flag) announce(route.flag, call + 1);
}

// Grid: as in pack.cu. The message before the last one has been taken, since the receiver has sent its own since then.
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
