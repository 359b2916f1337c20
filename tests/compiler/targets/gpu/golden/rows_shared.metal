// rows_shared computes out [6, 6]: 6 x 1 x 1 blocks of 6 x 1 x 1 threads
#include <metal_stdlib>
using namespace metal;
static inline float greatest(float a, float b) { return a > b || a != a ? a : b; }
[[max_total_threads_per_threadgroup(6)]]
kernel void rows_shared_kernel(
    device const float *__restrict a [[buffer(0)]]  /* [6, 20] */,
    device const float *__restrict b [[buffer(1)]]  /* [20, 6] */,
    device float *__restrict out [[buffer(2)]]  /* [6, 6] */,
    uint3 block_place [[threadgroup_position_in_grid]],
    uint3 thread_place [[thread_position_in_threadgroup]])
{
    const int block_x = block_place.x;  // 0..5
    const int thread_x = thread_place.x;  // 0..5
    threadgroup float a_shared[8] __attribute__((aligned(16)));
    threadgroup float b_shared[48] __attribute__((aligned(16)));
    float out_register[1];

    out_register[0] = -INFINITY;
#pragma unroll 1
    for (int k_o = 0; k_o < 3; ++k_o) {
        // The block's threads fill a_shared.
        for (int i0_i1_o = 0; i0_i1_o < 2; ++i0_i1_o) {
            if (thread_x + 6 * i0_i1_o < 8) {
                a_shared[6 * i0_i1_o + thread_x] =
                    8 * k_o + 6 * i0_i1_o + thread_x < 20
                    ? a[20 * block_x + 8 * k_o + 6 * i0_i1_o + thread_x]
                    : 0.0f;
            }
        }
        // The block's threads fill b_shared.
        for (int i0_i1_o_2 = 0; i0_i1_o_2 < 8; ++i0_i1_o_2) {
            b_shared[6 * i0_i1_o_2 + thread_x] =
                8 * k_o + i0_i1_o_2 < 20
                ? b[48 * k_o + 6 * i0_i1_o_2 + thread_x]
                : 0.0f;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (int k_i = 0; k_i < min(8, 20 - 8 * k_o); ++k_i) {
            out_register[0] = greatest(out_register[0], a_shared[k_i] * b_shared[6 * k_i + thread_x]);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    // Each thread writes its part of out.
    out[6 * block_x + thread_x] = out_register[0];
}
