// transposed_divided computes out [16, 24]: 3 x 2 x 1 blocks of 8 x 8 x 1 threads
#include <metal_stdlib>
using namespace metal;
[[max_total_threads_per_threadgroup(64)]]
kernel void transposed_divided_kernel(
    device const float *__restrict a [[buffer(0)]]  /* [24, 16] */,
    device float *__restrict out [[buffer(1)]]  /* [16, 24] */,
    uint3 block_place [[threadgroup_position_in_grid]],
    uint3 thread_place [[thread_position_in_threadgroup]])
{
    const int block_x = block_place.x;  // 0..2
    const int block_y = block_place.y;  // 0..1
    const int thread_x = thread_place.x;  // 0..7
    const int thread_y = thread_place.y;  // 0..7
    threadgroup float a_shared[64] __attribute__((aligned(16)));

    // The block's threads fill a_shared.
    a_shared[8 * thread_y + thread_x] =
        a[128 * block_x + 16 * thread_y + 8 * block_y + thread_x];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    // Each thread writes its part of out.
    out[192 * block_y + 24 * thread_y + 8 * block_x + thread_x] =
        a_shared[8 * thread_x + thread_y] * 2.0f;
}
