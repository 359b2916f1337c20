// The reference memory behind the accelerator's AXI port, and the rules that its master must keep.
//
// One read and one write channel, each with a pace: it earns `earned` a cycle and a beat costs
// `cost`; less than a cycle's earnings is kept over a beat. A read burst accepted in cycle t gives
// its first beat in t + latency at the earliest; bursts are accepted while fewer than `outstanding`
// are in flight, a burst being in flight up to and including the cycle of its last beat. Addresses
// of writes are always taken, beats as the pace allows; the response comes `latency` after the last
// beat.
//
// With a seed other than 0, every channel stalls at random. The order of what comes is the same.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <type_traits>
#include <vector>

namespace vdla {

struct Settings {  // MemorySettings in simulation.py
  uint64_t seed;
  uint64_t error_begin;  // bursts that touch [error_begin, error_end) are answered with an error
  uint64_t error_end;
  uint32_t error_response;
  uint32_t latency;
  uint32_t outstanding;
  uint32_t longest_burst;
  uint32_t earned;  // of `cost`, in a cycle
  uint32_t cost;    // of a beat
};

struct Region {
  uint64_t begin;
  uint64_t end;
  uint8_t* bytes;
};

enum : uint8_t { OKAY = 0, DECERR = 3 };

// Stalls of one channel: a new probability every 64 cycles, so that there are rushes and droughts.
class Stalls {
 public:
  void seed(uint64_t value) {
    on_ = value != 0;
    state_ = value * 0x9e3779b97f4a7c15u | 1;
    cycle_ = 0;
  }
  bool operator()() {
    if (!on_) return false;
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    if (cycle_++ % 64 == 0) chance_ = kChances[state_ >> 40 & 3];
    return (state_ >> 24 & 255) < chance_;
  }

 private:
  static constexpr uint32_t kChances[4] = {0, 64, 128, 240};
  bool on_ = false;
  uint64_t state_ = 1;
  uint32_t cycle_ = 0;
  uint32_t chance_ = 0;
};

// What a channel may move. `spent` counts as cycles times `earned` do.
class Pace {
 public:
  void configure(const Settings& chosen) {
    earned_ = chosen.earned;
    cost_ = chosen.cost;
    reset();
  }
  void reset() { spent_ = -cost_; }
  bool allows(uint64_t cycle) const { return int64_t(cycle) * earned_ >= spent_ + cost_; }
  void pay(uint64_t cycle) {
    spent_ = std::max(spent_ + cost_, (int64_t(cycle) - 1) * earned_ + 1);
  }

 private:
  int64_t earned_ = 1, cost_ = 1, spent_ = -1;
};

template <class Top>
class Memory {
 public:
  static constexpr uint32_t kBeatBytes = sizeof(std::remove_reference_t<decltype(Top::m_axi_wdata)>);

  Settings settings{};
  std::vector<Region> regions;
  std::string violation;  // the first rule that was broken

  void configure(const Settings& chosen) {
    settings = chosen;
    for (uint64_t channel = 0; channel < 5; ++channel)
      stalls_[channel].seed(chosen.seed ? chosen.seed * 8 + channel : 0);
    reading_.configure(chosen);
    writing_.configure(chosen);
  }

  // Forget every burst: the accelerator is in reset.
  void reset() {
    reads_.clear();
    addresses_.clear();
    beats_.clear();
    responses_.clear();
    offered_read_ = offered_response_ = false;
    waiting_[0] = waiting_[1] = waiting_[2] = false;
    reading_.reset();
    writing_.reset();
  }

  // Set the accelerator's inputs of a cycle; they depend on earlier cycles only.
  void drive(Top& top, uint64_t cycle) {
    top.m_axi_arready = reads_.size() < settings.outstanding && !stalls_[0]();
    top.m_axi_awready = !stalls_[2]();
    top.m_axi_wready = writing_.allows(cycle) && !stalls_[3]();
    if (!offered_read_ && !reads_.empty() && reads_.front().ready <= cycle &&
        reading_.allows(cycle) && !stalls_[1]()) {
      offer_read(top);
      reading_.pay(cycle);
    }
    top.m_axi_rvalid = offered_read_;
    if (!offered_response_ && !responses_.empty() && responses_.front().ready <= cycle &&
        !stalls_[4]()) {
      offered_response_ = true;
      top.m_axi_bresp = responses_.front().response;
      if constexpr (requires { top.m_axi_bid; }) top.m_axi_bid = responses_.front().id;
    }
    top.m_axi_bvalid = offered_response_;
  }

  // See what was exchanged in a cycle.
  void observe(Top& top, uint64_t cycle) {
    check_stable(top, cycle);
    if (top.m_axi_arvalid && top.m_axi_arready) {
      uint8_t id = 0;
      if constexpr (requires { top.m_axi_arid; }) id = top.m_axi_arid;
      if constexpr (requires { top.m_axi_arsize; })
        check_shape(top.m_axi_arsize, top.m_axi_arburst, cycle, "read");
      check_burst(top.m_axi_araddr, top.m_axi_arlen, cycle, "read");
      reads_.push_back({top.m_axi_araddr, top.m_axi_arlen + 1u, 0, cycle + settings.latency, id});
    }
    if (offered_read_ && top.m_axi_rready) {
      offered_read_ = false;
      if (++reads_.front().done == reads_.front().beats) reads_.pop_front();
    }
    if (top.m_axi_awvalid && top.m_axi_awready) {
      uint8_t id = 0;
      if constexpr (requires { top.m_axi_awid; }) id = top.m_axi_awid;
      if constexpr (requires { top.m_axi_awsize; })
        check_shape(top.m_axi_awsize, top.m_axi_awburst, cycle, "write");
      check_burst(top.m_axi_awaddr, top.m_axi_awlen, cycle, "write");
      addresses_.push_back({top.m_axi_awaddr, top.m_axi_awlen + 1u, 0, 0, id});
    }
    if (top.m_axi_wvalid && top.m_axi_wready) {
      beats_.push_back(beat_of(top, cycle));
      writing_.pay(cycle);
    }
    while (!addresses_.empty() && !beats_.empty()) store_beat(cycle);
    if (offered_response_ && top.m_axi_bready) {
      offered_response_ = false;
      responses_.pop_front();
    }
  }

  bool idle() const {
    return reads_.empty() && addresses_.empty() && beats_.empty() && responses_.empty();
  }

 private:
  struct Burst {
    uint64_t address;
    uint32_t beats;
    uint32_t done;
    uint64_t ready;
    uint8_t id;
    uint8_t response = OKAY;
  };
  struct Beat {
    uint8_t bytes[kBeatBytes];
    uint32_t strobe;
    bool last;
    uint64_t cycle;
  };
  struct Response {
    uint64_t ready;
    uint8_t response;
    uint8_t id;
  };

  std::deque<Burst> reads_, addresses_;
  std::deque<Beat> beats_;
  std::deque<Response> responses_;
  Stalls stalls_[5];  // AR, R, AW, W, B
  Pace reading_, writing_;
  bool offered_read_ = false, offered_response_ = false;
  bool waiting_[3] = {};  // AR, AW, W: offered in the cycle before, and not taken
  uint64_t held_address_[2] = {};
  uint32_t held_length_[2] = {};
  Beat held_beat_{};

  void complain(uint64_t cycle, const std::string& what) {
    if (violation.empty()) violation = "cycle " + std::to_string(cycle) + ": " + what;
  }

  Region* region_of(uint64_t begin, uint64_t end) {
    for (Region& region : regions)
      if (begin < region.end && end > region.begin) return &region;
    return nullptr;
  }

  static uint64_t beat_address(const Burst& burst) {
    return (burst.address / kBeatBytes + burst.done) * kBeatBytes;
  }

  uint8_t injected(uint64_t address) const {
    bool touches = address < settings.error_end && address + kBeatBytes > settings.error_begin;
    return touches ? settings.error_response : OKAY;
  }

  void offer_read(Top& top) {
    Burst& burst = reads_.front();
    const uint64_t address = beat_address(burst);
    uint8_t bytes[kBeatBytes] = {};
    uint8_t response = injected(address);
    if (Region* region = region_of(address, address + kBeatBytes)) {
      const uint64_t begin = std::max(address, region->begin);
      const uint64_t end = std::min(address + kBeatBytes, region->end);
      std::memcpy(bytes + (begin - address), region->bytes + (begin - region->begin), end - begin);
    } else if (response == OKAY) {
      response = DECERR;
    }
    std::memcpy(&top.m_axi_rdata, bytes, kBeatBytes);
    top.m_axi_rresp = response;
    top.m_axi_rlast = burst.done + 1 == burst.beats;
    if constexpr (requires { top.m_axi_rid; }) top.m_axi_rid = burst.id;
    offered_read_ = true;
  }

  static Beat beat_of(const Top& top, uint64_t cycle) {
    Beat beat{{}, top.m_axi_wstrb, bool(top.m_axi_wlast), cycle};
    std::memcpy(beat.bytes, &top.m_axi_wdata, kBeatBytes);
    return beat;
  }

  void store_beat(uint64_t cycle) {
    Burst& burst = addresses_.front();
    const Beat beat = beats_.front();
    beats_.pop_front();
    const uint64_t address = beat_address(burst);
    uint8_t response = injected(address);
    for (uint32_t byte = 0; byte < kBeatBytes && response == OKAY; ++byte) {
      if (!(beat.strobe >> byte & 1)) continue;
      if (Region* region = region_of(address + byte, address + byte + 1))
        region->bytes[address + byte - region->begin] = beat.bytes[byte];
      else
        response = DECERR;
    }
    burst.response = std::max(burst.response, response);
    const bool last = ++burst.done == burst.beats;
    if (last != beat.last)
      complain(cycle, "WLAST must mark the last beat of its burst, not beat " +
                          std::to_string(burst.done) + " of " + std::to_string(burst.beats));
    if (last) {
      responses_.push_back({beat.cycle + settings.latency, burst.response, burst.id});
      addresses_.pop_front();
    }
  }

  void check_shape(uint32_t size, uint32_t burst, uint64_t cycle, const char* which) {
    if (1u << size != kBeatBytes || burst != 1)
      complain(cycle, std::string("a ") + which + " burst must be INCR with beats of " +
                          std::to_string(kBeatBytes) + " bytes");
  }

  void check_burst(uint64_t address, uint32_t length, uint64_t cycle, const char* which) {
    const std::string burst = std::string("a ") + which + " burst of " + std::to_string(length + 1) +
                              " beats at address " + std::to_string(address);
    if (length + 1 > settings.longest_burst)
      complain(cycle, burst + " must have at most " + std::to_string(settings.longest_burst));
    const uint64_t end = address / kBeatBytes * kBeatBytes + uint64_t(length + 1) * kBeatBytes;
    if (address / 4096 != (end - 1) / 4096) complain(cycle, burst + " must not cross 4 KiB");
  }

  // What is offered must stay as it is until it is taken.
  void check_stable(Top& top, uint64_t cycle) {
    check_held(0, top.m_axi_arvalid, top.m_axi_arready, top.m_axi_araddr, top.m_axi_arlen,
               cycle, "AR");
    check_held(1, top.m_axi_awvalid, top.m_axi_awready, top.m_axi_awaddr, top.m_axi_awlen,
               cycle, "AW");
    if (waiting_[2]) {
      const Beat beat = beat_of(top, 0);
      if (!top.m_axi_wvalid || std::memcmp(beat.bytes, held_beat_.bytes, kBeatBytes) ||
          beat.strobe != held_beat_.strobe || beat.last != held_beat_.last)
        complain(cycle, "W must hold its beat until it is taken");
    }
    waiting_[2] = top.m_axi_wvalid && !top.m_axi_wready;
    if (waiting_[2]) held_beat_ = beat_of(top, 0);
  }

  void check_held(int channel, bool valid, bool ready, uint64_t address, uint32_t length,
                  uint64_t cycle, const char* name) {
    if (waiting_[channel] &&
        (!valid || address != held_address_[channel] || length != held_length_[channel]))
      complain(cycle, std::string(name) + " must hold its burst until it is taken");
    waiting_[channel] = valid && !ready;
    held_address_[channel] = address;
    held_length_[channel] = length;
  }
};

}  // namespace vdla
