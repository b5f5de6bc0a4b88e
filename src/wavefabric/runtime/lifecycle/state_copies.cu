// Copies `count` arrays to parts of one block of memory, or back; blocks of threads take the arrays in turn.
// With a `clock`, to the block of that number among `states` blocks, `stride` bytes apart; nothing beyond the last.

struct Part {
    long long address, offset, bytes;  // of an array; of its part in the block; a multiple of 4
};

extern "C" __global__ void copy_state(const Part *parts, int count, unsigned char *memory, int store, const long long *clock,
                                      long long stride, long long states) {
    if (clock) {
        if (*clock >= states) return;
        memory += *clock * stride;
    }
    const Part part = parts[blockIdx.x % count];
    unsigned char *array = (unsigned char *)part.address, *inside = memory + part.offset;
    const unsigned char *from = store ? array : inside;
    unsigned char *to = store ? inside : array;
    const long long first = (long long)(blockIdx.x / count) * blockDim.x + threadIdx.x;
    const long long step = (long long)(gridDim.x / count) * blockDim.x;
    for (long long i = first; i < part.bytes / 8; i += step) ((uint2 *)to)[i] = ((const uint2 *)from)[i];
    if (first == 0 && part.bytes % 8) ((unsigned *)to)[part.bytes / 4 - 1] = ((const unsigned *)from)[part.bytes / 4 - 1];
}
