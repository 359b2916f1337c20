// moving_maximum computes out [100]: 7 x 1 x 1 blocks of 16 x 1 x 1 threads
static inline float greatest(float a, float b) { return a > b || a != a ? a : b; }
__kernel __attribute__((reqd_work_group_size(16, 1, 1)))
void moving_maximum_kernel(
    __global const float *restrict a  /* [104] */,
    __global float *restrict out  /* [100] */)
{
    const int block_x = get_group_id(0);  // 0..6
    const int thread_x = get_local_id(0);  // 0..15
    __local float a_shared[20] __attribute__((aligned(16)));
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
    barrier(CLK_LOCAL_MEM_FENCE);
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
