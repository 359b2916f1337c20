// What Verilator's FST writer takes from lz4.h and zlib.h, for machines without their headers.
//
// The build puts this file under both names. The block is LZ4's, found greedily. What zlib would
// compress is declared no smaller than it was, which the writer takes as a reason to store it as
// it is: a reader sees by the two lengths that nothing is compressed.
#ifndef VDLA_COMPRESSION_H
#define VDLA_COMPRESSION_H

#include <cstdint>
#include <cstring>
#include <vector>

inline int LZ4_compressBound(int size) { return size + size / 255 + 16; }

namespace vdla {

constexpr int kShortestMatch = 4, kFarthestMatch = 65535;
constexpr int kLastLiterals = 5, kLastMatchStart = 12;  // how far from the end the format wants both
constexpr int kHashBits = 12;

class Lz4Block {
 public:
  explicit Lz4Block(uint8_t* target) : begin_(target), out_(target) {}

  // Write literals, and a match behind them where it has a length.
  void sequence(const uint8_t* literals, int count, int offset, int match) {
    uint8_t* token = out_++;
    *token = static_cast<uint8_t>(length(count) << 4);
    extend(count);
    std::memcpy(out_, literals, count);
    out_ += count;
    if (match == 0) return;
    *out_++ = static_cast<uint8_t>(offset);
    *out_++ = static_cast<uint8_t>(offset >> 8);
    *token |= length(match - kShortestMatch);
    extend(match - kShortestMatch);
  }

  int size() const { return static_cast<int>(out_ - begin_); }

 private:
  static uint8_t length(int count) { return static_cast<uint8_t>(count < 15 ? count : 15); }

  void extend(int count) {
    if (count < 15) return;
    for (count -= 15; count >= 255; count -= 255) *out_++ = 255;
    *out_++ = static_cast<uint8_t>(count);
  }

  uint8_t* begin_;
  uint8_t* out_;
};

inline uint32_t four_bytes(const uint8_t* at) {
  uint32_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace vdla

// Return the size of the block. The target has the bound's room, as the writer makes it.
inline int LZ4_compress_default(const char* source, char* target, int size, int /*capacity*/) {
  using namespace vdla;
  const uint8_t* in = reinterpret_cast<const uint8_t*>(source);
  Lz4Block block(reinterpret_cast<uint8_t*>(target));
  std::vector<int> seen(1 << kHashBits, -1);  // where four bytes of a hash last began
  int first = 0, at = 0;                      // of the literals not written yet; where we look
  while (at + kLastMatchStart <= size) {
    int& place = seen[four_bytes(in + at) * 2654435761u >> (32 - kHashBits)];
    const int before = place;
    place = at;
    if (before < 0 || at - before > kFarthestMatch ||
        four_bytes(in + before) != four_bytes(in + at)) {
      ++at;
      continue;
    }
    int match = kShortestMatch;
    while (at + match < size - kLastLiterals && in[before + match] == in[at + match]) ++match;
    block.sequence(in + first, at - first, at - before, match);
    first = at += match;
  }
  block.sequence(in + first, size - first, 0, 0);
  return block.size();
}

using Bytef = unsigned char;
using uLong = unsigned long;
using uLongf = unsigned long;
constexpr int Z_OK = 0;

inline uLong compressBound(uLong size) { return size; }

inline int compress2(Bytef*, uLongf*, const Bytef*, uLong, int) { return Z_OK; }

#endif  // VDLA_COMPRESSION_H
