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
static void **arguments;
static bool finished;

static void wait_for_all() { swapcontext(running, &scheduler); }

// CUDA C
#define __global__
#define __device__
#define __constant__ static const
#define __shared__ static
#define __launch_bounds__(n)
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
#define make_char4 char4
#define make_uchar4 uchar4
#define make_float4 float4
#define make_float2 float2
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

// Returns 0, or 1 where a barrier is reached by some threads of a block while others end.
extern "C" int launch(const int *grid, const int *block, void **given) {
    arguments = given;
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
            for (int k = 0; k < count; ++k) {
                threadIdx = {k % block[0], k / block[0] % block[1], k / (block[0] * block[1])};
                running = &fibres[k];
                finished = false;
                swapcontext(&scheduler, &fibres[k]);
                ended += finished;
            }
            if (ended != 0 && ended != count) return 1;
        }
    }
    return 0;
}
