// Runs parallel loops of a library on threads, under ThreadSanitizer, which reports accesses that
// nothing orders: `race_driver THREADS TURNS`, where a thread that waits looks TURNS times.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <unistd.h>
#include <vector>

extern "C" {
void vdla_run(void (*function)(void **), void **arguments);
void vdla_worker(void *state, int32_t index);
void vdla_stop(void *state);
int64_t vdla_pool_bytes(int32_t threads);
void vdla_pool_start(void *state, int32_t threads, int64_t share, int32_t between, int32_t after);
extern void *vdla_pool;
void loop_1000(void **);
void nested_60(void **);
void network_64_50(void **);
void network_3_50(void **);
}

static bool wrong(void (*function)(void **), int count, int wanted) {
    std::vector<int32_t> counts(count);
    void *arguments[] = {counts.data()};
    vdla_run(function, arguments);
    for (int32_t one : counts)
        if (one != wanted) return true;
    return false;
}

int main(int, char **words) {
    const int threads = std::atoi(words[1]), turns = std::atoi(words[2]);
    const int64_t size = (vdla_pool_bytes(threads) + 127) / 128 * 128;
    void *state = aligned_alloc(128, size);
    std::memset(state, 0, size);
    vdla_pool_start(state, threads, ((int64_t(1) << 32) + threads - 1) / threads, turns, turns / 10);
    vdla_pool = state;
    std::vector<std::thread> workers;
    for (int index = 1; index < threads; ++index) workers.emplace_back(vdla_worker, state, index);
    bool failed = false;
    for (int round = 0; round < 20; ++round) {
        failed |= wrong(loop_1000, 1000, 1) | wrong(network_64_50, 64, 50);
        failed |= wrong(nested_60, 60, 1) | wrong(network_3_50, 3, 50);
        usleep(round * 37 % 500);  // some workers sleep, some still look
    }
    vdla_stop(state);
    for (auto &worker : workers) worker.join();
    std::puts(failed ? "wrong counts" : "right counts");
    return 0;
}
