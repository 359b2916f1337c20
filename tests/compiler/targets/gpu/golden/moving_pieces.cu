// moving_pieces computes out [100]: 3 x 1 x 1 blocks of 8 x 1 x 1 threads
__device__ static inline float greatest(float a, float b) { return a > b || a != a ? a : b; }
extern "C" __global__ __launch_bounds__(8)
void moving_pieces_kernel(
    const float *__restrict__ a  /* [104] */,
    float *__restrict__ out  /* [100] */)
{
    const int block_x = blockIdx.x;  // 0..2
    const int thread_x = threadIdx.x;  // 0..7
    __shared__ float a_shared[52] __attribute__((aligned(16)));
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
            out_register[i + 2 * i0_i_o] = -__int_as_float(0x7f800000);
        }
    }
    __syncthreads();
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
