// A warp's wait for any of several words on the CPU target.
#pragma once
#include <array>

#include "prim_waits.hpp"

namespace prim {

namespace detail {

// The K words of one lane; `predicate` is the caller's, asked for this lane.
template <int K, class T, class Predicate>
struct LaneWords {
  struct Asked {
    const LaneWords* lane;
    int k;
    static bool satisfied(void* context) {
      const auto* asked = static_cast<const Asked*>(context);
      return asked->lane->holds(asked->k);
    }
  };
  int lane = 0;
  Predicate* predicate = nullptr;
  std::array<const T*, K> words{};
  std::array<Asked, K> asked{};
  Wait wait;

  SIMGPU_UNSEEN bool holds(int k) const { return (*predicate)(lane, k, *static_cast<const volatile T*>(words[static_cast<std::size_t>(k)])); }
  bool any() const {
    bool found = false;
    for (int k = 0; k < K; ++k) found |= holds(k);
    return found;
  }
  template <class Word, class Describe>
  void fill(int own_lane, Predicate& asks, Word&& word, Describe&& describe) {
    lane = own_lane;
    predicate = &asks;
    wait = describe(own_lane);
    for (int k = 0; k < K; ++k) {
      const auto at = static_cast<std::size_t>(k);
      words[at] = word(own_lane, k);
      asked[at] = {this, k};
      engine->check(words[at], sizeof(T), "wait");
      see_own_stores(words[at]);
    }
  }
};

template <int K, class Lane>
inline void watch_lanes(Lane* const* lanes, int n) {
  simgpu::Watch watches[32 * K];
  for (int i = 0; i < n * K; ++i) {
    Lane& lane = *lanes[i / K];
    auto& asked = lane.asked[static_cast<std::size_t>(i % K)];
    watches[i] = {lane.words[static_cast<std::size_t>(i % K)], sizeof(*lane.words[0]), &asked.satisfied, &asked, lane.wait};
  }
  engine->watch(watches, n * K);
}

}  // namespace detail

// The warp waits until any of lanes 0 to n - 1 (n at most 32) finds one of its K words satisfied: word(lane, k),
// predicate(lane, k, value), wait(lane). Returns the set of lanes that do, none when the rank was aborted instead.
template <int K, class Word, class Predicate, class Describe>
inline std::uint32_t wait_any(const Guard& guard, int n, Word word, Predicate predicate, Describe describe) {
  using T = std::remove_cv_t<std::remove_pointer_t<decltype(word(0, 0))>>;
  using Lane = detail::LaneWords<K, T, Predicate>;
  const Time earliest = self().clock + from_ns(cost().acquire_ns);
  engine->sync();
  std::uint32_t ready = 0;
#ifndef SIMGPU_THREAD_FIBERS
  Lane words[32], *all[32];
  for (int l = 0; l < n; ++l) words[l].fill(l, predicate, word, describe), all[l] = &words[l];
  for (;;) {
    for (int l = 0; l < n; ++l) ready |= static_cast<std::uint32_t>(words[l].any()) << l;
    if (ready != 0 || detail::gives_up(guard, all[0]->wait)) break;
    detail::watch_lanes<K>(all, n);
  }
#else
  Lane words, *all[32];
  const int lane = self().lane;
  if (lane < n) words.fill(lane, predicate, word, describe);
  exchange(Lanes<Lane*>{&words}, [&](Lane* const* every) { return std::copy(every, every + 32, all); });
  for (;;) {  // lane 0 watches everybody's words
    ready = ballot(Lanes<bool>{lane < n && words.any()});
    if (ready != 0 || any(Lanes<bool>{lane == 0 && detail::gives_up(guard, all[0]->wait)})) break;
    const auto satisfied = [&] { return std::any_of(all, all + n, [](const Lane* l) { return l->any(); }); };
    if (lane == 0 && !satisfied() && !detail::is_over(guard)) detail::watch_lanes<K>(all, n);
    sync_warp();
  }
#endif
  self().clock = std::max(self().clock, earliest);
  sync_warp();
  return ready;
}

}  // namespace prim
