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

// No wait times out, so nobody need be told: a word that nothing can change any more ends the run.
struct Peers {
  char* const* windows = nullptr;
  std::int64_t abort_word = 0;
  std::int64_t missing_word = 0;
  int num_ranks = 0;
};
inline Guard make_guard(const std::uint64_t* abort_word, void*, std::uint64_t, std::uint64_t, const Peers&) { return {abort_word}; }
// Nor need a rank that was told tell the others: the host of a simulated group looks at all ranks when all is over.
inline void pass_on_abort(const Guard&) {}
template <class T, class Predicate>
inline bool wait_value(const Guard& guard, const T* word, Predicate predicate, const Wait& wait) {
  const Time earliest = self().clock + from_ns(cost().acquire_ns);
  const bool ok = detail::wait_word(guard, word, predicate, wait);
  self().clock = std::max(self().clock, earliest);
  return ok;
}

}  // namespace prim
