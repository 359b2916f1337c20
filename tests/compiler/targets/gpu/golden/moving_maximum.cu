// moving_maximum computes out [100]: 7 x 1 x 1 blocks of 16 x 1 x 1 threads
__device__ static inline float greatest(float a, float b) { return a > b || a != a ? a : b; }
extern "C" __global__ __launch_bounds__(16)
void moving_maximum_kernel(
    const float *__restrict__ a  /* [104] */,
    float *__restrict__ out  /* [100] */)
{
    const int block_x = blockIdx.x;  // 0..6
    const int thread_x = threadIdx.x;  // 0..15
    __shared__ float a_shared[20] __attribute__((aligned(16)));
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
        out_register[0] = -__int_as_float(0x7f800000);
    }
    __syncthreads();
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
