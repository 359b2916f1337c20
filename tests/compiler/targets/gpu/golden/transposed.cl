// transposed computes out [37, 53]: 7 x 5 x 1 blocks of 8 x 8 x 1 threads
__kernel __attribute__((reqd_work_group_size(8, 8, 1)))
void transposed_kernel(
    __global const float *restrict a  /* [53, 37] */,
    __global float *restrict out  /* [37, 53] */)
{
    const int block_x = get_group_id(0);  // 0..6
    const int block_y = get_group_id(1);  // 0..4
    const int thread_x = get_local_id(0);  // 0..7
    const int thread_y = get_local_id(1);  // 0..7
    __local float a_shared[64] __attribute__((aligned(16)));

    // The block's threads fill a_shared.
    a_shared[8 * thread_y + thread_x] =
        8 * block_x + thread_y < 53 && 8 * block_y + thread_x < 37
        ? a[296 * block_x + 37 * thread_y + 8 * block_y + thread_x]
        : 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    // Each thread writes its part of out.
    if (thread_y + 8 * block_y < 37 && thread_x + 8 * block_x < 53) {
        out[424 * block_y + 53 * thread_y + 8 * block_x + thread_x] =
            a_shared[8 * thread_x + thread_y] * 2.0f;
    }
}
