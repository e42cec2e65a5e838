// The CPU target's primitive set. vendor/elastic/prim.cuh includes it when the compiler is not nvcc.
#pragma once
#include <cstdint>

#include "prim_bulk.hpp"

#define PRIM_FN inline
#define PRIM_FN_COLD inline
#define PRIM_HOST_FN inline
#define PRIM_KERNEL inline
#define PRIM_LAUNCH_BOUNDS(threads)
#define PRIM_ARGS(type) const type&
#define PRIM_UNROLL

namespace prim {

struct alignas(16) Vec16 {
  std::uint32_t word[4];
};
inline Vec16 load_streaming(const Vec16* p) { return *p; }  // read once: no L1, first to leave L2

inline int popcount(std::uint32_t v) { return __builtin_popcount(v); }
inline int highest_bit(std::uint32_t v) { return 31 - __builtin_clz(v); }
inline int lowest_bit(std::uint32_t v) { return __builtin_ctz(v); }

inline float bf16_to_float(std::uint32_t bits) {
  bits <<= 16;
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}
// Round to nearest even; NaN stays NaN.
inline std::uint32_t float_to_bf16(float f) {
  std::uint32_t u;
  std::memcpy(&u, &f, 4);
  if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fffu;
  return (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
}

}  // namespace prim
