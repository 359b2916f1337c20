// A stand-in for NVIDIA's libcuda.so.1 that NVIDIA's own binding loads: it says on stderr what it is
// asked for, and refuses handles that it did not give. Memory of the device is memory here, and every
// kernel adds six floats, so that wrong arguments show.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#define SAY(...) fprintf(stderr, __VA_ARGS__)

enum { success = 0, not_found = 500, invalid_handle = 400 };
static void *const context = reinterpret_cast<void *>(0x10);
static void *const stream = reinterpret_cast<void *>(0x20);
static void *const module = reinterpret_cast<void *>(0x30);
static void *const function = reinterpret_cast<void *>(0x40);
static void *const graph = reinterpret_cast<void *>(0x50);
static void *const made = reinterpret_cast<void *>(0x60);

static int given(bool right) { return right ? success : invalid_handle; }

extern "C" {
int cuInit(unsigned) { return success; }
int cuDriverGetVersion(int *version) { return *version = 12090, success; }
int cuDeviceGetCount(int *count) { return *count = 1, success; }
int cuDeviceGet(int *device, int number) { return *device = number, success; }
int cuDeviceGetName(char *name, int room, int) { return strncpy(name, "Stand-in", room), success; }
// Of compute capability 9.0, attributes 75 and 76; at most 64 threads of a block along z.
int cuDeviceGetAttribute(int *value, int which, int) {
    *value = which == 75 ? 9 : which == 76 ? 0 : which == 4 ? 64 : 1024;
    return success;
}
int cuDevicePrimaryCtxRetain(void **result, int) { return *result = context, success; }
int cuCtxSetCurrent(void *current) { return given(current == context); }
int cuStreamCreate(void **result, unsigned flags) {
    SAY("stream of flags %u\n", flags);
    return *result = stream, success;
}
int cuStreamSynchronize(void *on) { return given(on == stream); }
int cuMemAlloc_v2(uint64_t *address, size_t size) {
    SAY("allocate %zu\n", size);
    return *address = reinterpret_cast<uint64_t>(malloc(size)), success;
}
int cuMemFree_v2(uint64_t address) {
    SAY("free\n");
    return free(reinterpret_cast<void *>(address)), success;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, void *on) {
    return memcpy(reinterpret_cast<void *>(to), from, size), given(on == stream);
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, void *on) {
    return memcpy(to, reinterpret_cast<void *>(from), size), given(on == stream);
}
int cuModuleLoadData(void **result, const void *image) {
    const char *text = static_cast<const char *>(image);
    SAY("image of %zu bytes with%s .visible\n", strlen(text), strstr(text, ".visible") ? "" : "out");
    return *result = module, success;
}
int cuModuleGetFunction(void **result, void *in, const char *name) {
    SAY("function %s\n", name);
    return *result = function, given(in == module);
}
int cuLaunchKernel(void *which, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *on, void **parameters, void **extra) {
    SAY("launch %u %u %u of %u %u %u, %u bytes, %s\n", gx, gy, gz, bx, by, bz, shared,
        extra ? "more" : "no more");
    float *arrays[3];
    for (int k = 0; k < 3; ++k) arrays[k] = *static_cast<float **>(parameters[k]);
    for (int k = 0; k < 6; ++k) arrays[2][k] = arrays[0][k] + arrays[1][k];
    return given(which == function && on == stream);
}
int cuStreamBeginCapture_v2(void *on, int mode) {
    SAY("capture in mode %d\n", mode);
    return given(on == stream);
}
int cuStreamEndCapture(void *on, void **result) { return *result = graph, given(on == stream); }
int cuGraphInstantiateWithFlags(void **result, void *of, unsigned long long) {
    return *result = made, given(of == graph);
}
int cuGraphLaunch(void *which, void *on) {
    SAY("graph\n");
    return given(which == made && on == stream);
}
int cuEventCreate(void **event, unsigned) { return *event = made, success; }
int cuEventRecord(void *, void *on) { return given(on == stream); }
int cuEventSynchronize(void *) { return success; }
int cuEventElapsedTime(float *milliseconds, void *, void *) { return *milliseconds = 8, success; }
int cuEventElapsedTime_v2(float *ms, void *a, void *b) { return cuEventElapsedTime(ms, a, b); }
int cuEventDestroy_v2(void *) { return success; }

int cuGetProcAddress_v2(const char *name, void **result, int, uint64_t, int *why) {
    void *self = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW);
    *result = nullptr;
    for (const char *version : {"_v2", "WithFlags", ""})
        if (*result == nullptr) *result = dlsym(self, (std::string(name) + version).c_str());
    if (why != nullptr) *why = *result == nullptr;
    return *result == nullptr ? not_found : success;
}
}
