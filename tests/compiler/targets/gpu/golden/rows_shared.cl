// rows_shared computes out [6, 6]: 6 x 1 x 1 blocks of 6 x 1 x 1 threads
static inline float greatest(float a, float b) { return a > b || a != a ? a : b; }
__kernel __attribute__((reqd_work_group_size(6, 1, 1)))
void rows_shared_kernel(
    __global const float *restrict a  /* [6, 20] */,
    __global const float *restrict b  /* [20, 6] */,
    __global float *restrict out  /* [6, 6] */)
{
    const int block_x = get_group_id(0);  // 0..5
    const int thread_x = get_local_id(0);  // 0..5
    __local float a_shared[8] __attribute__((aligned(16)));
    __local float b_shared[48] __attribute__((aligned(16)));
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
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k_i = 0; k_i < min(8, 20 - 8 * k_o); ++k_i) {
            out_register[0] = greatest(out_register[0], a_shared[k_i] * b_shared[6 * k_i + thread_x]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    // Each thread writes its part of out.
    out[6 * block_x + thread_x] = out_register[0];
}
