// Primitives that differ from their plain forms in machine code alone: here each is the plain one, at the same cost.
#pragma once
#include "prim.hpp"

namespace prim {

inline Vec16 load_streaming_if(bool present, const Vec16* p, std::uint32_t otherwise) {
  return present ? load_streaming(p) : Vec16{{otherwise, otherwise, otherwise, otherwise}};
}
// The sum of two BF16 in FP32 has bits enough that rounding it once more gives the exact sum's rounding.
inline std::uint32_t add_bf16x2(std::uint32_t a, std::uint32_t b) {
  const std::uint32_t low = float_to_bf16(bf16_to_float(a & 0xffffu) + bf16_to_float(b & 0xffffu));
  return low | float_to_bf16(bf16_to_float(a >> 16) + bf16_to_float(b >> 16)) << 16;
}

}  // namespace prim
