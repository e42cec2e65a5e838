// A warp's wait for any of several words on the CUDA target.
#pragma once
#include "prim_cuda.cuh"

namespace prim {

// The warp waits until any of lanes 0 to n - 1 (n at most 32) finds one of its K words satisfied: word(lane, k),
// predicate(lane, k, value), wait(lane). Returns the set of lanes that do, none when the rank was aborted instead. A time-out
// names the first lane's wait.
template <int K, class Word, class Predicate, class Describe>
PRIM_FN std::uint32_t wait_any(const Guard& guard, int n, Word word, Predicate predicate, Describe describe) {
  const int lane = detail::lane();
  std::uint64_t since = 0, seen = 0;
  for (unsigned polls = 1;; ++polls) {
    bool satisfied = false;
    PRIM_UNROLL
    for (int k = 0; k < K; ++k) {
      if (lane >= n) continue;
      const auto value = load_acquire_sys(word(lane, k));
      satisfied |= predicate(lane, k, value);
      if (k == 0) seen = static_cast<std::uint64_t>(value);
    }
    const std::uint32_t ready = __ballot_sync(detail::kAllLanes, satisfied);
    __syncwarp();  // what the satisfied lanes acquired, the others may read too
    if (ready != 0) {
      if (lane == 0 && since != 0) detail::found(guard, describe(0).peer);
      return ready;
    }
    if (polls % detail::kPollsPerCheck != 0) continue;
    if (lane == 0) since = detail::look_around(guard, describe(0), since, seen);
    since = __shfl_sync(detail::kAllLanes, since, 0);
    if (since == 0) return 0;
  }
}

}  // namespace prim
