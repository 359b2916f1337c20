// transposed computes out [37, 53]: 7 x 5 x 1 blocks of 8 x 8 x 1 threads
extern "C" __global__ __launch_bounds__(64)
void transposed_kernel(
    const float *__restrict__ a  /* [53, 37] */,
    float *__restrict__ out  /* [37, 53] */)
{
    const int block_x = blockIdx.x;  // 0..6
    const int block_y = blockIdx.y;  // 0..4
    const int thread_x = threadIdx.x;  // 0..7
    const int thread_y = threadIdx.y;  // 0..7
    __shared__ float a_shared[64] __attribute__((aligned(16)));

    // The block's threads fill a_shared.
    a_shared[8 * thread_y + thread_x] =
        8 * block_x + thread_y < 53 && 8 * block_y + thread_x < 37
        ? a[296 * block_x + 37 * thread_y + 8 * block_y + thread_x]
        : 0.0f;
    __syncthreads();
    // Each thread writes its part of out.
    if (thread_y + 8 * block_y < 37 && thread_x + 8 * block_x < 53) {
        out[424 * block_y + 53 * thread_y + 8 * block_x + thread_x] =
            a_shared[8 * thread_x + thread_y] * 2.0f;
    }
}
