// moving_pieces computes out [100]: 3 x 1 x 1 blocks of 8 x 1 x 1 threads
#include <metal_stdlib>
using namespace metal;
static inline float greatest(float a, float b) { return a > b || a != a ? a : b; }
[[max_total_threads_per_threadgroup(8)]]
kernel void moving_pieces_kernel(
    device const float *__restrict a [[buffer(0)]]  /* [104] */,
    device float *__restrict out [[buffer(1)]]  /* [100] */,
    uint3 block_place [[threadgroup_position_in_grid]],
    uint3 thread_place [[thread_position_in_threadgroup]])
{
    const int block_x = block_place.x;  // 0..2
    const int thread_x = thread_place.x;  // 0..7
    threadgroup float a_shared[52] __attribute__((aligned(16)));
    float out_register[6];

    // The block's threads fill a_shared.
    for (int i0_o = 0; i0_o < 7; ++i0_o) {
        if (thread_x + 8 * i0_o < 52) {
            a_shared[8 * i0_o + thread_x] =
                48 * block_x + 8 * i0_o + thread_x < 104
                ? a[48 * block_x + 8 * i0_o + thread_x]
                : 0.0f;
        }
    }
#pragma unroll
    for (int i0_i_o = 0; i0_i_o < 3; ++i0_i_o) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            out_register[i + 2 * i0_i_o] = -INFINITY;
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (int k = 0; k < 5; ++k) {
#pragma unroll
        for (int i0_i_o = 0; i0_i_o < 3; ++i0_i_o) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                out_register[i + 2 * i0_i_o] = greatest(out_register[i + 2 * i0_i_o], a_shared[16 * i0_i_o + 2 * thread_x + i + k]);
            }
        }
    }
    // Each thread writes its part of out.
#pragma unroll
    for (int i0_i_o = 0; i0_i_o < 3; ++i0_i_o) {
        if (2 * thread_x + 16 * i0_i_o + 48 * block_x < 100) {
#pragma unroll
            for (int i0_i_i_i = 0; i0_i_i_i < 2; ++i0_i_i_i) {
                out[48 * block_x + 16 * i0_i_o + 2 * thread_x + i0_i_i_i] =
                    out_register[i0_i_i_i + 2 * i0_i_o];
            }
        }
    }
}
