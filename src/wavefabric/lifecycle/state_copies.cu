// Copies arrays to consecutive parts of one block of memory, or back: an array per blockIdx.y.

struct Part {
    long long address, offset, bytes;  // of an array; of its part in the block; a multiple of 4
};

extern "C" __global__ void copy_state(const Part *parts, unsigned char *memory, int store) {
    const Part part = parts[blockIdx.y];
    unsigned char *array = (unsigned char *)part.address, *inside = memory + part.offset;
    const unsigned char *from = store ? array : inside;
    unsigned char *to = store ? inside : array;
    const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x, step = (long long)gridDim.x * blockDim.x;
    for (long long i = first; i < part.bytes / 8; i += step) ((uint2 *)to)[i] = ((const uint2 *)from)[i];
    if (first == 0 && part.bytes % 8) ((unsigned *)to)[part.bytes / 4 - 1] = ((const unsigned *)from)[part.bytes / 4 - 1];
}
