// dense computes out [64, 96]: 1 x 2 x 1 blocks of 32 x 2 x 2 threads
__device__ static inline float half_to_float(unsigned short bits)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}
__device__ static inline unsigned short float_to_half(float value)
{
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
__device__ static inline void matrix_fill_float32(float (&tile)[8], float value)
{
    #pragma unroll
    for (int k = 0; k < 8; ++k) tile[k] = value;
}
__device__ static inline void matrix_load_left_float16(
    unsigned (&tile)[8], const unsigned short *from, int step)
{
    asm volatile(
        "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7}, [%8], %9;"
        : "=r"(tile[0]), "=r"(tile[1]), "=r"(tile[2]), "=r"(tile[3]),
          "=r"(tile[4]), "=r"(tile[5]), "=r"(tile[6]), "=r"(tile[7])
        : "l"(__cvta_generic_to_shared(from)), "r"(step)
        : "memory");
}
__device__ static inline void matrix_load_right_float16(
    unsigned (&tile)[8], const unsigned short *from, int step)
{
    asm volatile(
        "wmma.load.b.sync.aligned.row.m16n16k16.shared.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7}, [%8], %9;"
        : "=r"(tile[0]), "=r"(tile[1]), "=r"(tile[2]), "=r"(tile[3]),
          "=r"(tile[4]), "=r"(tile[5]), "=r"(tile[6]), "=r"(tile[7])
        : "l"(__cvta_generic_to_shared(from)), "r"(step)
        : "memory");
}
__device__ static inline void matrix_multiply_float16(
    float (&sums)[8],
    const unsigned (&left)[8], const unsigned (&right)[8])
{
    asm volatile(
        "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 "
        "{%0, %1, %2, %3, %4, %5, %6, %7}, "
        "{%8, %9, %10, %11, %12, %13, %14, %15}, "
        "{%16, %17, %18, %19, %20, %21, %22, %23}, "
        "{%0, %1, %2, %3, %4, %5, %6, %7};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]),
          "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]),
          "r"(left[4]), "r"(left[5]), "r"(left[6]), "r"(left[7]),
          "r"(right[0]), "r"(right[1]), "r"(right[2]), "r"(right[3]),
          "r"(right[4]), "r"(right[5]), "r"(right[6]), "r"(right[7]));
}
__device__ static inline void matrix_store_float32(float *to, const float (&tile)[8], int step)
{
    asm volatile(
        "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 "
        "[%0], {%1, %2, %3, %4, %5, %6, %7, %8}, %9;"
        :
        : "l"(__cvta_generic_to_shared(to)),
          "f"(tile[0]), "f"(tile[1]), "f"(tile[2]), "f"(tile[3]),
          "f"(tile[4]), "f"(tile[5]), "f"(tile[6]), "f"(tile[7]), "r"(step)
        : "memory");
}
extern "C" __global__ __launch_bounds__(128, 4)
void dense_kernel(
    const unsigned short *__restrict__ a  /* [64, 32] */,
    const unsigned short *__restrict__ c  /* [96] */,
    const unsigned short *__restrict__ b  /* [32, 96] */,
    unsigned short *__restrict__ out  /* [64, 96] */)
{
    const int block_y = blockIdx.y;  // 0..1
    const int thread_x = threadIdx.x;  // 0..31
    const int thread_y = threadIdx.y;  // 0..1
    const int thread_z = threadIdx.z;  // 0..1
    __shared__ float out_sums_shared[4608] __attribute__((aligned(32)));
    __shared__ unsigned short a_2[3072] __attribute__((aligned(32)));
    __shared__ unsigned short b_2[2560] __attribute__((aligned(32)));
    float out_sums[4][8];
    unsigned a_matrix_left[2][8];
    unsigned b_matrix_right[2][8];

#pragma unroll
    for (int tile = 0; tile < 4; ++tile) {
        matrix_fill_float32(out_sums[tile], 0.0f);
    }
    // The block's threads fill a_2.
    for (int i0_i1_o_o = 0; i0_i1_o_o < 2; ++i0_i1_o_o) {
        *(float4 *)&a_2[1536 * i0_i1_o_o + 768 * thread_z + 384 * thread_y + 48 * (thread_x / 4) + 8 * (thread_x % 4)] =
            *(const float4 *)&a[1024 * i0_i1_o_o + 512 * thread_z + 256 * thread_y + 8 * thread_x];
    }
    // The block's threads fill b_2.
    for (int i0_i1_o_o_2 = 0; i0_i1_o_o_2 < 2; ++i0_i1_o_o_2) {
        *(float4 *)&b_2[1280 * i0_i1_o_o_2 + 640 * thread_z + 320 * thread_y + 80 * (thread_x / 8) + 8 * (thread_x % 8)] =
            64 * block_y + 8 * (thread_x % 8) < 96
            ? *(const float4 *)&b[1536 * i0_i1_o_o_2 + 768 * thread_z + 384 * thread_y + 96 * (thread_x / 8) + 64 * block_y + 8 * (thread_x % 8)]
            : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    __syncthreads();
#pragma unroll
    for (int k_i_o = 0; k_i_o < 2; ++k_i_o) {
#pragma unroll
        for (int i0_o = 0; i0_o < 2; ++i0_o) {
            matrix_load_left_float16(
                a_matrix_left[i0_o], &a_2[1536 * thread_z + 768 * i0_o + 16 * k_i_o], 48);
        }
#pragma unroll
        for (int i1_o = 0; i1_o < 2; ++i1_o) {
            matrix_load_right_float16(
                b_matrix_right[i1_o], &b_2[1280 * k_i_o + 32 * thread_y + 16 * i1_o], 80);
        }
#pragma unroll
        for (int i0_o_2 = 0; i0_o_2 < 2; ++i0_o_2) {
#pragma unroll
            for (int i1_o_2 = 0; i1_o_2 < 2; ++i1_o_2) {
                matrix_multiply_float16(
                    out_sums[2 * i0_o_2 + i1_o_2], a_matrix_left[i0_o_2], b_matrix_right[i1_o_2]);
            }
        }
    }
    // The block's threads fill out_sums_shared.
#pragma unroll
    for (int i0_i_o = 0; i0_i_o < 2; ++i0_i_o) {
#pragma unroll
        for (int i1_i_o = 0; i1_i_o < 2; ++i1_i_o) {
            matrix_store_float32(
                &out_sums_shared[2304 * thread_z + 1152 * i0_i_o + 32 * thread_y + 16 * i1_i_o], out_sums[2 * i0_i_o + i1_i_o], 72);
        }
    }
    __syncthreads();
    // Each thread writes its part of out.
#pragma unroll 1
    for (int i0_i_o_2 = 0; i0_i_o_2 < 16; ++i0_i_o_2) {
        for (int i1_i_o_2 = 0; i1_i_o_2 < (min(64, 96 - 64 * block_y) + 31) / 32; ++i1_i_o_2) {
            if (thread_x + 32 * i1_i_o_2 + 64 * block_y < 96) {
                out[384 * i0_i_o_2 + 192 * thread_z + 96 * thread_y + 64 * block_y + 32 * i1_i_o_2 + thread_x] = float_to_half(
                    out_sums_shared[288 * i0_i_o_2 + 144 * thread_z + 72 * thread_y + 32 * i1_i_o_2 + thread_x] + half_to_float(c[64 * block_y + 32 * i1_i_o_2 + thread_x]));
            }
        }
    }
}
