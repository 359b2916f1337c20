// moving_maximum computes out [100]: 7 x 1 x 1 blocks of 16 x 1 x 1 threads
#include <metal_stdlib>
using namespace metal;
static inline float greatest(float a, float b) { return a > b || a != a ? a : b; }
[[max_total_threads_per_threadgroup(16)]]
kernel void moving_maximum_kernel(
    device const float *__restrict a [[buffer(0)]]  /* [104] */,
    device float *__restrict out [[buffer(1)]]  /* [100] */,
    uint3 block_place [[threadgroup_position_in_grid]],
    uint3 thread_place [[thread_position_in_threadgroup]])
{
    const int block_x = block_place.x;  // 0..6
    const int thread_x = thread_place.x;  // 0..15
    threadgroup float a_shared[20] __attribute__((aligned(16)));
    float out_register[1];

    // The block's threads fill a_shared.
    for (int i0_o = 0; i0_o < 2; ++i0_o) {
        if (thread_x + 16 * i0_o < 20) {
            a_shared[16 * i0_o + thread_x] =
                16 * block_x + 16 * i0_o + thread_x < 104
                ? a[16 * block_x + 16 * i0_o + thread_x]
                : 0.0f;
        }
    }
    if (thread_x + 16 * block_x < 100) {
        out_register[0] = -INFINITY;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (thread_x + 16 * block_x < 100) {
        for (int k = 0; k < 5; ++k) {
            out_register[0] = greatest(out_register[0], a_shared[thread_x + k]);
        }
    }
    // Each thread writes its part of out.
    if (thread_x + 16 * block_x < 100) {
        out[16 * block_x + thread_x] = out_register[0];
    }
}
