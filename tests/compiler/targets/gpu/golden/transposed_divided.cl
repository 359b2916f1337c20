// transposed_divided computes out [16, 24]: 3 x 2 x 1 blocks of 8 x 8 x 1 threads
__kernel __attribute__((reqd_work_group_size(8, 8, 1)))
void transposed_divided_kernel(
    __global const float *restrict a  /* [24, 16] */,
    __global float *restrict out  /* [16, 24] */)
{
    const int block_x = get_group_id(0);  // 0..2
    const int block_y = get_group_id(1);  // 0..1
    const int thread_x = get_local_id(0);  // 0..7
    const int thread_y = get_local_id(1);  // 0..7
    __local float a_shared[64] __attribute__((aligned(16)));

    // The block's threads fill a_shared.
    a_shared[8 * thread_y + thread_x] =
        a[128 * block_x + 16 * thread_y + 8 * block_y + thread_x];
    barrier(CLK_LOCAL_MEM_FENCE);
    // Each thread writes its part of out.
    out[192 * block_y + 24 * thread_y + 8 * block_x + thread_x] =
        a_shared[8 * thread_x + thread_y] * 2.0f;
}
