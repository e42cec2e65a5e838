// Rows that carry their own arrival, CUDA target: a 32-bit word that still holds the poison has not arrived. PTX treats a vector
// access as scalar ones in no order, so each word of the poll is tested, and what is used is what the poll loaded.
#pragma once
#include "prim_cuda.cuh"

namespace prim {

constexpr std::uint32_t kPoison = 0xffffffffu;

namespace detail {

constexpr int kRowBatch = 4;  // vectors that a lane has in flight

PRIM_FN std::uint32_t unlike_poison(std::uint32_t word) { return word == kPoison ? word & 0x7fffffffu : word; }
PRIM_FN bool has_arrived(const Vec16& v) {
  return v.word[0] != kPoison && v.word[1] != kPoison && v.word[2] != kPoison && v.word[3] != kPoison;
}
PRIM_FN Vec16 load_relaxed_sys(const Vec16* p) {
  Vec16 v;
  asm volatile("ld.relaxed.sys.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(p)
               : "memory");
  return v;
}
// This lane's vectors first, first + 32, ... below `vectors`, at most kRowBatch of them, polled together until all have arrived.
PRIM_FN bool wait_batch(const Guard& guard, const Vec16* from, int first, int vectors, Vec16 (&polled)[kRowBatch], const Wait& wait) {
  std::uint64_t since = 0;
  for (unsigned polls = 1;; ++polls) {
    bool arrived = true;
    PRIM_UNROLL
    for (int j = 0; j < kRowBatch; ++j)
      if (first + 32 * j < vectors) polled[j] = load_relaxed_sys(from + first + 32 * j);
    PRIM_UNROLL
    for (int j = 0; j < kRowBatch; ++j)
      if (first + 32 * j < vectors) arrived &= has_arrived(polled[j]);
    if (arrived) {
      if (since != 0) found(guard, wait.peer);
      return true;
    }
    if (polls % kPollsPerCheck != 0) continue;
    since = look_around(guard, wait, since, kPoison);
    if (since == 0) return false;
  }
}

}  // namespace detail

// The warp sends a row of 16-byte vectors: vector(i), asked of one lane. A word equal to the poison goes out with its top bit
// cleared. Nothing orders it, or its words among themselves.
template <class Vector>
PRIM_FN void push_row(Remote<Vec16> to, int vectors, Vector vector) {
  for (int i = detail::lane(); i < vectors; i += 32) {
    const Vec16 v = vector(i);
    asm volatile("st.relaxed.sys.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to.address() + i), "r"(detail::unlike_poison(v.word[0])),
                 "r"(detail::unlike_poison(v.word[1])), "r"(detail::unlike_poison(v.word[2])), "r"(detail::unlike_poison(v.word[3]))
                 : "memory");
  }
  __syncwarp();
}

// The warp waits until every 32-bit word of a row differs from the poison; use(i, v) gets vector i as its poll loaded it, on one
// lane. All lanes learn whether the row arrived; false when the rank was aborted instead.
template <class Use>
PRIM_FN bool wait_row(const Guard& guard, const Vec16* from, int vectors, Use use, const Wait& wait) {
  bool ok = true;
  for (int first = detail::lane(); ok && first < vectors; first += 32 * detail::kRowBatch) {
    Vec16 polled[detail::kRowBatch];
    ok = detail::wait_batch(guard, from, first, vectors, polled, wait);
    if (!ok) break;
    PRIM_UNROLL
    for (int j = 0; j < detail::kRowBatch; ++j)
      if (first + 32 * j < vectors) use(first + 32 * j, polled[j]);
  }
  return __all_sync(detail::kAllLanes, ok) != 0;
}

// The warp makes a row of the own rank ready to be pushed again.
PRIM_FN void poison_row(Vec16* row, int vectors) {
  for (int i = detail::lane(); i < vectors; i += 32)
    asm volatile("st.global.v4.b32 [%0], {%1, %1, %1, %1};" ::"l"(row + i), "r"(kPoison) : "memory");
  __syncwarp();
}

}  // namespace prim
