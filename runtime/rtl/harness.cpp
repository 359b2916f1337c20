// The gateware, its memory and a master for its registers, behind a C interface for ctypes.
//
// A cycle: inputs are set, outputs settle and are seen, then the clock rises. The loop over
// cycles is here, so that nothing is interpreted while the accelerator runs.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "Vtop.h"
#include "axi_memory.h"
#include "verilated.h"
#ifdef VDLA_VCD
#include "verilated_vcd_c.h"
using Waves = VerilatedVcdC;
#elif defined(VDLA_FST)
#include "verilated_fst_c.h"
using Waves = VerilatedFstC;
#endif
#ifdef VDLA_COVERAGE
#include "verilated_cov.h"
#endif

namespace {

constexpr int kModules = 3;
constexpr uint64_t kLongestTransfer = 100000;  // cycles; a register answers in a few

enum Outcome { RAN = 0, INTERRUPTED = 1, VIOLATED = 2 };

// The processor on the register port: one transfer at a time.
struct Master {
  bool read_address = false, reading = false;
  bool write_address = false, write_data = false, writing = false;
  uint32_t address = 0, data = 0, strobe = 0;
  int response = -1;

  void drive(Vtop& top) const {
    top.s_axi_araddr = top.s_axi_awaddr = address;
    top.s_axi_arvalid = read_address;
    top.s_axi_rready = reading;
    top.s_axi_awvalid = write_address;
    top.s_axi_wdata = data;
    top.s_axi_wstrb = strobe;
    top.s_axi_wvalid = write_data;
    top.s_axi_bready = writing;
  }

  void observe(const Vtop& top) {
    if (top.s_axi_arready) read_address = false;
    if (top.s_axi_awready) write_address = false;
    if (top.s_axi_wready) write_data = false;
    if (reading && top.s_axi_rvalid) {
      data = top.s_axi_rdata;
      response = top.s_axi_rresp;
      reading = false;
    }
    if (writing && top.s_axi_bvalid) {
      response = top.s_axi_bresp;
      writing = false;
    }
  }
};

struct Machine {
  VerilatedContext context;
  std::unique_ptr<Vtop> top;
  vdla::Memory<Vtop> memory;
  Master master;
  uint64_t cycle = 0;
  uint64_t interrupt_cycle = 0;  // when the line last rose
  bool interrupt = false;
  std::vector<uint64_t> log[2][kModules];  // starts, finishes
#if defined(VDLA_VCD) || defined(VDLA_FST)
  std::unique_ptr<Waves> waves;
  uint64_t waves_begin = 0, waves_end = 0, waves_zero = 0;
  void dump(bool high) {
    if (waves && cycle >= waves_begin && cycle < waves_end)
      waves->dump(2 * (cycle - waves_zero) + high);
  }
  void end_waves() { waves_end = std::min(waves_end, cycle); }
#else
  void dump(bool) {}
  void end_waves() {}
#endif

  Machine() {
#if defined(VDLA_VCD) || defined(VDLA_FST)
    context.traceEverOn(true);  // before the design is made
#endif
    top = std::make_unique<Vtop>(&context);
  }

  void step() {
    top->clk = 0;
    memory.drive(*top, cycle);
    master.drive(*top);
    top->eval();
    if (!top->rst) {
      memory.observe(*top, cycle);
      master.observe(*top);
      record(top->trace_start, log[0]);
      record(top->trace_finish, log[1]);
      if (top->__SYM__interrupt && !interrupt) {
        interrupt_cycle = cycle;
        end_waves();
      }
      interrupt = top->__SYM__interrupt;
    }
    dump(false);
    top->clk = 1;
    top->eval();
    dump(true);
    ++cycle;
  }

  int transfer(const bool& pending) {
    master.response = -1;
    for (uint64_t n = 0; pending && n < kLongestTransfer; ++n) step();
    return master.response;
  }

  void record(uint32_t bits, std::vector<uint64_t>* logs) {
    for (int m = 0; bits; ++m, bits >>= 1)
      if (bits & 1) logs[m].push_back(cycle);
  }
};

}  // namespace

extern "C" {

Machine* vdla_open() { return new Machine; }

void vdla_close(Machine* machine) {
  machine->top->final();
#if defined(VDLA_VCD) || defined(VDLA_FST)
  if (machine->waves) machine->waves->close();
#endif
  delete machine;
}

uint32_t vdla_beat_bytes() { return vdla::Memory<Vtop>::kBeatBytes; }

void vdla_configure(Machine* machine, const vdla::Settings* settings) {
  machine->memory.configure(*settings);
}

void vdla_clear_regions(Machine* machine) { machine->memory.regions.clear(); }

void vdla_add_region(Machine* machine, uint64_t begin, uint64_t size, uint8_t* bytes) {
  machine->memory.regions.push_back({begin, begin + size, bytes});
}

void vdla_reset(Machine* machine) {
  machine->top->rst = 1;
  for (int i = 0; i < 4; ++i) machine->step();
  machine->memory.reset();
  machine->top->rst = 0;
  machine->interrupt = false;
}

int vdla_run(Machine* machine, uint64_t cycles, bool to_interrupt) {
  const std::string& violation = machine->memory.violation;
  for (uint64_t n = 0; n < cycles; ++n) {
    machine->step();
    if (!violation.empty()) return VIOLATED;
    if (to_interrupt && machine->interrupt) return INTERRUPTED;
  }
  return RAN;
}

// Return the response, or -1 where none comes.
int vdla_read_register(Machine* machine, uint32_t offset, uint32_t* value) {
  Master& master = machine->master;
  master.address = offset;
  master.read_address = master.reading = true;
  const int response = machine->transfer(master.reading);
  *value = master.data;
  return response;
}

int vdla_write_register(Machine* machine, uint32_t offset, uint32_t value, uint32_t strobe) {
  Master& master = machine->master;
  master.address = offset;
  master.data = value;
  master.strobe = strobe;
  master.write_address = master.write_data = master.writing = true;
  return machine->transfer(master.writing);
}

uint64_t vdla_cycle(const Machine* machine) { return machine->cycle; }

uint64_t vdla_interrupt_cycle(const Machine* machine) { return machine->interrupt_cycle; }

const char* vdla_violation(const Machine* machine) { return machine->memory.violation.c_str(); }

bool vdla_memory_idle(const Machine* machine) { return machine->memory.idle(); }

void vdla_clear_logs(Machine* machine) {
  for (auto& logs : machine->log)
    for (auto& log : logs) log.clear();
}

// Return how many cycles a module's log holds; copy as many as there is room for.
uint64_t vdla_log(const Machine* machine, uint32_t finishes, uint32_t module, uint64_t* cycles,
                  uint64_t room) {
  const std::vector<uint64_t>& log = machine->log[finishes][module];
  std::copy_n(log.begin(), std::min<uint64_t>(room, log.size()), cycles);
  return log.size();
}

// Open a file of waves; return whether this build can write one, and it is open.
bool vdla_waves(Machine* machine, const char* path) {
#if defined(VDLA_VCD) || defined(VDLA_FST)
  machine->waves = std::make_unique<Waves>();
  machine->top->trace(machine->waves.get(), 99);
  machine->waves->set_time_unit("1ns");
  machine->waves->set_time_resolution("1ns");
  machine->waves->open(path);
  return machine->waves->isOpen();
#else
  return false;
#endif
}

// Write cycles `begin` to `end` to it, until the interrupt rises; the clock of cycle `zero + n`
// falls at time 2 n.
void vdla_window(Machine* machine, uint64_t begin, uint64_t end, uint64_t zero) {
#if defined(VDLA_VCD) || defined(VDLA_FST)
  machine->waves_begin = begin;
  machine->waves_end = end;
  machine->waves_zero = zero;
#endif
}

// Return whether this build counts coverage.
bool vdla_write_coverage(Machine* machine, const char* path) {
#ifdef VDLA_COVERAGE
  machine->context.coveragep()->write(path);
  return true;
#else
  return false;
#endif
}

}  // extern "C"
