// transposed computes out [37, 53]: 7 x 5 x 1 blocks of 8 x 8 x 1 threads
#include <metal_stdlib>
using namespace metal;
[[max_total_threads_per_threadgroup(64)]]
kernel void transposed_kernel(
    device const float *__restrict a [[buffer(0)]]  /* [53, 37] */,
    device float *__restrict out [[buffer(1)]]  /* [37, 53] */,
    uint3 block_place [[threadgroup_position_in_grid]],
    uint3 thread_place [[thread_position_in_threadgroup]])
{
    const int block_x = block_place.x;  // 0..6
    const int block_y = block_place.y;  // 0..4
    const int thread_x = thread_place.x;  // 0..7
    const int thread_y = thread_place.y;  // 0..7
    threadgroup float a_shared[64] __attribute__((aligned(16)));

    // The block's threads fill a_shared.
    a_shared[8 * thread_y + thread_x] =
        8 * block_x + thread_y < 53 && 8 * block_y + thread_x < 37
        ? a[296 * block_x + 37 * thread_y + 8 * block_y + thread_x]
        : 0.0f;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    // Each thread writes its part of out.
    if (thread_y + 8 * block_y < 37 && thread_x + 8 * block_x < 53) {
        out[424 * block_y + 53 * thread_y + 8 * block_x + thread_x] =
            a_shared[8 * thread_x + thread_y] * 2.0f;
    }
}
