// CUDA C or Metal on a processor: the threads of a block are fibres, and a barrier hands over to the
// next.
// KERNEL and ARGUMENTS, and the kernel itself as SOURCE, are given when this is compiled.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <ucontext.h>
#include <vector>

using std::max;
using std::min;

struct Place {
    int x, y, z;
};
static Place blockIdx, threadIdx;
static ucontext_t scheduler;
static ucontext_t *running;
static int thread_number;
static void **arguments;
static bool finished;
static bool at_barrier;
static bool broken;

// Fibres of a block run warp by warp, each warp up to its barrier.
static const int WARP = 32;

static void wait_for_all() {
    at_barrier = true;
    swapcontext(running, &scheduler);
}

static void wait_for_warp() {
    at_barrier = false;
    swapcontext(running, &scheduler);
}

// CUDA C
#define __global__
#define __device__
#define __constant__ static const
#define __shared__ static
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __syncthreads wait_for_all
static inline float __int_as_float(int bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// Vectors, which point into arrays of their elements.
struct __attribute__((may_alias, aligned(16))) float4 {
    float x, y, z, w;
    float4(float a, float b, float c, float d) : x(a), y(b), z(c), w(d) {}
};
struct __attribute__((may_alias, aligned(8))) float2 {
    float x, y;
    float2(float a, float b) : x(a), y(b) {}
};
struct __attribute__((may_alias, aligned(4))) char4 {
    signed char x, y, z, w;
    char4(int a, int b, int c, int d) : x(a), y(b), z(c), w(d) {}
};
struct __attribute__((may_alias, aligned(4))) uchar4 {
    unsigned char x, y, z, w;
    uchar4(int a, int b, int c, int d) : x(a), y(b), z(c), w(d) {}
};
struct __attribute__((may_alias, aligned(16))) int4 {
    int x, y, z, w;
    int4(int a, int b, int c, int d) : x(a), y(b), z(c), w(d) {}
};
struct __attribute__((may_alias, aligned(8))) int2 {
    int x, y;
    int2(int a, int b) : x(a), y(b) {}
};
#define make_int4 int4
#define make_int2 int2
#define make_char4 char4
#define make_uchar4 uchar4
#define make_float4 float4
#define make_float2 float2
static inline size_t __cvta_generic_to_shared(const void *p) { return (size_t)p; }

// Instructions of PTX, by what NVIDIA's PTX ISA says of each; ptx.py puts calls of these in the place
// of asm statements.
namespace ptx {
static inline void cvt_f32_f16(float &d, unsigned short a) {
    _Float16 value;
    memcpy(&value, &a, sizeof value);
    d = value;
}
static inline void cvt_rn_f16_f32(unsigned short &d, float a) {
    const _Float16 value = a;
    memcpy(&d, &value, sizeof value);
}

// Tiles of 16 x 16 that a warp holds. Which thread holds which element is not said; here element e
// is in thread e % 32, as its number e / 32. The 16 halves of a thread are twice as many as there are
// elements: the upper half repeats the lower one. Its 8 bytes are each there once.
static const int SIDE = 16, TILE = SIDE * SIDE, LANES_SHARE = TILE / WARP;
union Register {
    unsigned bits;
    unsigned short halves[2];
    unsigned char bytes[4];
};

static inline int lane() { return thread_number % WARP; }

// All threads of a warp must give the same address and stride, aligned to what a thread takes of the
// tile: 32 bytes, or 8 of bytes. The 16 that ldmatrix wants are asked of those.
static size_t given_address[WARP];
static int given_step[WARP];
static void same_for_all(size_t address, int step, int element_bytes) {
    given_address[lane()] = address;
    given_step[lane()] = step;
    wait_for_warp();
    const int aligned = element_bytes == 1 ? 16 : 32;
    if (address % aligned != 0 || step * element_bytes % aligned != 0) broken = true;
    for (int k = 0; k < WARP; ++k)
        if (given_address[k] != address || given_step[k] != step) broken = true;
    wait_for_warp();
}

template <int count>
static void load_tile(unsigned **tile, size_t address, int step) {
    same_for_all(address, step, 2);
    const unsigned short *from = (const unsigned short *)address;
    for (int k = 0; k < count; ++k) {
        const int e = k % LANES_SHARE * WARP + lane();
        Register held;
        held.bits = *tile[k / 2];
        held.halves[k % 2] = from[e / SIDE * step + e % SIDE];
        *tile[k / 2] = held.bits;
    }
}

// By rows, or by columns: element (i, j) is then at [j][i].
static void load_bytes(unsigned **tile, size_t address, int step, bool by_columns) {
    same_for_all(address, step, 1);
    const unsigned char *from = (const unsigned char *)address;
    for (int k = 0; k < LANES_SHARE; ++k) {
        const int e = k * WARP + lane(), i = e / SIDE, j = e % SIDE;
        Register held;
        held.bits = *tile[k / 4];
        held.bytes[k % 4] = by_columns ? from[j * step + i] : from[i * step + j];
        *tile[k / 4] = held.bits;
    }
}

#define TILE_OF(T, n) \
    T &n##0, T &n##1, T &n##2, T &n##3, T &n##4, T &n##5, T &n##6, T &n##7
#define LIST_OF(n) {&n##0, &n##1, &n##2, &n##3, &n##4, &n##5, &n##6, &n##7}

static inline void wmma_load_a_sync_aligned_row_m16n16k16_shared_f16(
    TILE_OF(unsigned, r), size_t p, int stride) {
    unsigned *tile[] = LIST_OF(r);
    load_tile<2 * LANES_SHARE>(tile, p, stride);
}
static inline void wmma_load_b_sync_aligned_row_m16n16k16_shared_f16(
    TILE_OF(unsigned, r), size_t p, int stride) {
    unsigned *tile[] = LIST_OF(r);
    load_tile<2 * LANES_SHARE>(tile, p, stride);
}

#define LOAD_BYTES(side, layout, kind, by_columns) \
    static inline void wmma_load_##side##_sync_aligned_##layout##_m16n16k16_shared_##kind( \
        unsigned &r0, unsigned &r1, size_t p, int stride) { \
        unsigned *tile[] = {&r0, &r1}; \
        load_bytes(tile, p, stride, by_columns); \
    }
LOAD_BYTES(a, row, s8, false)
LOAD_BYTES(a, row, u8, false)
LOAD_BYTES(b, col, s8, true)
LOAD_BYTES(b, col, u8, true)

template <typename T>
static void store_tile(const T *const *tile, size_t address, int step) {
    same_for_all(address, step, sizeof(T));
    for (int k = 0; k < LANES_SHARE; ++k) {
        const int e = k * WARP + lane();
        ((T *)address)[e / SIDE * step + e % SIDE] = *tile[k];
    }
}

static inline void wmma_store_d_sync_aligned_row_m16n16k16_shared_f32(
    size_t p, TILE_OF(const float, r), int stride) {
    const float *tile[] = LIST_OF(r);
    store_tile(tile, p, stride);
}
static inline void wmma_store_d_sync_aligned_row_m16n16k16_shared_s32(
    size_t p, TILE_OF(const int, r), int stride) {
    const int *tile[] = LIST_OF(r);
    store_tile(tile, p, stride);
}

// The factors of all threads of the warp, put together.
static float left[TILE], right[TILE];
static float element_of(const unsigned *const *tile, int k) {
    Register held;
    held.bits = *tile[k / 2];
    _Float16 value;
    memcpy(&value, &held.halves[k % 2], sizeof value);
    return value;
}

// d = a * b + c; products and sums have at least single precision.
static inline void wmma_mma_sync_aligned_row_row_m16n16k16_f32_f32(
    TILE_OF(float, d), TILE_OF(const unsigned, a), TILE_OF(const unsigned, b),
    TILE_OF(const float, c)) {
    float *sums[] = LIST_OF(d);
    const unsigned *lefts[] = LIST_OF(a), *rights[] = LIST_OF(b);
    const float *before[] = LIST_OF(c);
    for (int k = 0; k < LANES_SHARE; ++k) {
        left[k * WARP + lane()] = element_of(lefts, k);
        right[k * WARP + lane()] = element_of(rights, k);
    }
    wait_for_warp();
    for (int k = 0; k < LANES_SHARE; ++k) {
        const int e = k * WARP + lane();
        float sum = *before[k];
        for (int i = 0; i < SIDE; ++i) sum += left[e / SIDE * SIDE + i] * right[i * SIDE + e % SIDE];
        *sums[k] = sum;
    }
    wait_for_warp();
}

// The same of bytes, added up in 32 bits, which wrap around: without .satfinite.
static unsigned left_bytes[TILE], right_bytes[TILE];
template <typename T>
static void multiply_bytes(
    int **sums, const unsigned *const *lefts, const unsigned *const *rights, const int *const *before) {
    for (int k = 0; k < LANES_SHARE; ++k) {
        Register a, b;
        a.bits = *lefts[k / 4];
        b.bits = *rights[k / 4];
        left_bytes[k * WARP + lane()] = (T)a.bytes[k % 4];
        right_bytes[k * WARP + lane()] = (T)b.bytes[k % 4];
    }
    wait_for_warp();
    for (int k = 0; k < LANES_SHARE; ++k) {
        const int e = k * WARP + lane();
        unsigned sum = *before[k];
        for (int i = 0; i < SIDE; ++i)
            sum += left_bytes[e / SIDE * SIDE + i] * right_bytes[i * SIDE + e % SIDE];
        *sums[k] = sum;
    }
    wait_for_warp();
}

#define MULTIPLY_BYTES(kind, T) \
    static inline void wmma_mma_sync_aligned_row_col_m16n16k16_s32_##kind##_##kind##_s32( \
        TILE_OF(int, d), unsigned a0, unsigned a1, unsigned b0, unsigned b1, TILE_OF(const int, c)) { \
        int *sums[] = LIST_OF(d); \
        const unsigned *lefts[] = {&a0, &a1}, *rights[] = {&b0, &b1}; \
        const int *before[] = LIST_OF(c); \
        multiply_bytes<T>(sums, lefts, rights, before); \
    }
MULTIPLY_BYTES(s8, signed char)
MULTIPLY_BYTES(u8, unsigned char)
}  // namespace ptx

// Metal
typedef _Float16 half;
namespace metal {}
typedef Place uint3;
enum class mem_flags { mem_threadgroup };
static void threadgroup_barrier(mem_flags) { wait_for_all(); }
#define kernel
#define device
#define constant static const
#define threadgroup static

#include SOURCE

static void entry() {
    KERNEL(ARGUMENTS);
    finished = true;
}

// Runs the fibres of a warp until all wait for the block, or have ended; returns how many have ended,
// or -1 where some of them wait for the warp and others for the block, or have ended.
__attribute__((noinline)) static int run_warp(std::vector<ucontext_t> &fibres, const int *block, int first) {
    const int end = min(first + WARP, (int)fibres.size());
    for (;;) {
        int ended = 0, waiting = 0;
        for (int k = first; k < end; ++k) {
            threadIdx = {k % block[0], k / block[0] % block[1], k / (block[0] * block[1])};
            thread_number = k;
            running = &fibres[k];
            finished = at_barrier = false;
            swapcontext(&scheduler, &fibres[k]);
            ended += finished;
            waiting += at_barrier;
        }
        if (ended + waiting == end - first) return ended;
        if (ended + waiting != 0 || end - first != WARP) return -1;
    }
}

// Returns 0, or 1 where some threads of a block or a warp wait and others do not, or 2 where those of
// a warp say different things, or what no instruction takes.
extern "C" int launch(const int *grid, const int *block, void **given) {
    arguments = given;
    broken = false;
    const int count = block[0] * block[1] * block[2];
    const size_t stack_bytes = 1 << 16;
    std::vector<char> stacks(count * stack_bytes);
    std::vector<ucontext_t> fibres(count);
    for (int at = 0; at < grid[0] * grid[1] * grid[2]; ++at) {
        blockIdx = {at % grid[0], at / grid[0] % grid[1], at / (grid[0] * grid[1])};
        for (int k = 0; k < count; ++k) {
            getcontext(&fibres[k]);
            fibres[k].uc_stack.ss_sp = &stacks[k * stack_bytes];
            fibres[k].uc_stack.ss_size = stack_bytes;
            fibres[k].uc_link = &scheduler;
            makecontext(&fibres[k], entry, 0);
        }
        for (int ended = 0; ended < count;) {
            ended = 0;
            for (int first = 0; first < count; first += WARP) {
                const int done = run_warp(fibres, block, first);
                if (done < 0) return 1;
                ended += done;
            }
            if (ended != 0 && ended != count) return 1;
            if (broken) return 2;
        }
    }
    return 0;
}
