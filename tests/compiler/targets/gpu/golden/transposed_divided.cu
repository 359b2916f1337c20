// transposed_divided computes out [16, 24]: 3 x 2 x 1 blocks of 8 x 8 x 1 threads
extern "C" __global__ __launch_bounds__(64)
void transposed_divided_kernel(
    const float *__restrict__ a  /* [24, 16] */,
    float *__restrict__ out  /* [16, 24] */)
{
    const int block_x = blockIdx.x;  // 0..2
    const int block_y = blockIdx.y;  // 0..1
    const int thread_x = threadIdx.x;  // 0..7
    const int thread_y = threadIdx.y;  // 0..7
    __shared__ float a_shared[64] __attribute__((aligned(16)));

    // The block's threads fill a_shared.
    a_shared[8 * thread_y + thread_x] =
        a[128 * block_x + 16 * thread_y + 8 * block_y + thread_x];
    __syncthreads();
    // Each thread writes its part of out.
    out[192 * block_y + 24 * thread_y + 8 * block_x + thread_x] =
        a_shared[8 * thread_x + thread_y] * 2.0f;
}
