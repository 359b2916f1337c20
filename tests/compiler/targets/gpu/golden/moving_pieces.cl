// moving_pieces computes out [100]: 3 x 1 x 1 blocks of 8 x 1 x 1 threads
static inline float greatest(float a, float b) { return a > b || a != a ? a : b; }
__kernel __attribute__((reqd_work_group_size(8, 1, 1)))
void moving_pieces_kernel(
    __global const float *restrict a  /* [104] */,
    __global float *restrict out  /* [100] */)
{
    const int block_x = get_group_id(0);  // 0..2
    const int thread_x = get_local_id(0);  // 0..7
    __local float a_shared[52] __attribute__((aligned(16)));
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
    barrier(CLK_LOCAL_MEM_FENCE);
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
