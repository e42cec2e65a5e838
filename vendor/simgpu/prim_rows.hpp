// Rows that carry their own arrival, CPU target: a 32-bit word that still holds the poison has not arrived. In time mode each
// store of a warp lands as a whole; when hunting each 4-byte word of it lands on its own.
#pragma once
#include <cstdlib>

#include "prim_atomics.hpp"

namespace prim {

constexpr std::uint32_t kPoison = 0xffffffffu;

namespace detail {

constexpr int kRowBatch = 4;          // vectors that a lane has in flight
constexpr double kTearNs = 4000;      // between words of one vector, when hunting

inline Vec16 unlike_poison(Vec16 v) {
  for (std::uint32_t& word : v.word)
    if (word == kPoison) word &= 0x7fffffffu;
  return v;
}
// The first word of a vector that has not arrived, or -1.
inline int missing_word(const Vec16& v) {
  for (int k = 0; k < 4; ++k)
    if (v.word[k] == kPoison) return k;
  return -1;
}
inline void land_chunk(Engine& e, Action& a) {
  std::memcpy(a.target, a.source, a.bytes);
  std::free(a.source);
  e.notify_range(a.target, a.bytes, a.when);
}
// One store of a warp: `chunk` holds its vectors and belongs to the landing.
SIMGPU_UNSEEN inline void send_chunk(Vec16* to, Vec16* chunk, std::size_t bytes) {
  engine->check(to, bytes, "row store");
  charge(cost().store_ns);
  engine->sync();
  Fiber& fiber = self();
  const int owner = engine->memory().owner(to), rank = own_rank();
  const Time lands = owner == rank ? fiber.clock + from_ns(cost().l2_latency_ns) + engine->adversary().delay(300)
                                   : engine->transfer(rank, owner, fiber.clock, bytes);
  const Time acknowledged = owner == rank ? 0 : from_ns(cost().nvlink_latency_ns);
  engine->gpu(owner).l2_residency.touch(engine->memory().offset(to), bytes);
  fiber.horizon = std::max(fiber.horizon, lands + acknowledged);
  if (!engine->adversary().active()) {
    Action* landing = engine->act(lands, land_chunk);
    landing->target = to;
    landing->source = chunk;
    landing->bytes = static_cast<std::uint32_t>(bytes);
    return;
  }
  for (std::size_t i = 0; i < bytes / 4; ++i) {
    const Time torn = lands + engine->adversary().delay(kTearNs);
    Action* landing = engine->act(torn, land<std::uint32_t>);
    landing->target = &to[i / 4].word[i % 4];
    landing->value = chunk[i / 4].word[i % 4];
    fiber.horizon = std::max(fiber.horizon, torn + acknowledged);
  }
  std::free(chunk);
}
// Polls one vector until all of it has arrived; `polled` is what the last poll loaded.
inline bool wait_vector(const Guard& guard, const Vec16* at, Vec16& polled, const Wait& wait) {
  for (const std::uint32_t& word : at->word) see_own_stores(&word);
  for (;;) {
    polled = *at;
    const int missing = missing_word(polled);
    if (missing < 0) return true;
    if (gives_up(guard, wait)) return false;
    const auto arrived = [](std::uint32_t word) { return word != kPoison; };
    Watched<std::uint32_t, decltype(arrived)> watched{&at->word[missing], &arrived};
    simgpu::Watch watch{&at->word[missing], 4, &watched.satisfied, &watched, wait};
    engine->watch(&watch, 1);
  }
}

}  // namespace detail

// The warp sends a row of 16-byte vectors: vector(i), asked of one lane. A word equal to the poison goes out with its top bit
// cleared. Nothing orders it, or its words among themselves.
template <class Vector>
inline void push_row(Remote<Vec16> to, int vectors, Vector vector) {
  for (int base = 0; base < vectors; base += 32) {
    const auto bytes = static_cast<std::size_t>(std::min(32, vectors - base)) * sizeof(Vec16);
    Vec16* chunk = broadcast(lanes([&](int l) { return l == 0 ? static_cast<Vec16*>(std::malloc(bytes)) : nullptr; }), 0);
    each_lane([&](int l) {
      if (base + l < vectors) chunk[l] = detail::unlike_poison(vector(base + l));
    });
    sync_warp();
    elect([&] { detail::send_chunk(to.address() + base, chunk, bytes); });
  }
}

// The warp waits until every 32-bit word of a row differs from the poison; use(i, v) gets vector i as its poll loaded it, on one
// lane. All lanes learn whether the row arrived; false when the rank was aborted instead.
template <class Use>
inline bool wait_row(const Guard& guard, const Vec16* from, int vectors, Use use, const Wait& wait) {
#ifndef SIMGPU_THREAD_FIBERS
  constexpr int kStep = 1, kPolled = 32 * detail::kRowBatch;
  const int first = 0;
#else
  constexpr int kStep = 32, kPolled = detail::kRowBatch;
  const int first = self().lane;
#endif
  Vec16 polled[kPolled];
  bool ok = true;
  for (int base = 0; base < vectors; base += 32 * detail::kRowBatch) {
    const int n = std::min(32 * detail::kRowBatch, vectors - base);
    charge_load(from + base, n * static_cast<int>(sizeof(Vec16)));
    for (int i = first; i < n; i += kStep) ok = ok && detail::wait_vector(guard, from + base + i, polled[i / kStep], wait);
    for_strided(0, 1, n, [&](int i) {
      if (ok) use(base + i, polled[i / kStep]);
    });
  }
#ifdef SIMGPU_THREAD_FIBERS
  ok = !any(Lanes<bool>{!ok});
#endif
  sync_warp();
  return ok;
}

// The warp makes a row of the own rank ready to be pushed again.
inline void poison_row(Vec16* row, int vectors) {
  charge_store(row, vectors * static_cast<int>(sizeof(Vec16)));
  for_strided(0, 1, vectors, [&](int i) {
    if (!engine->adversary().active()) {
      row[i] = Vec16{{kPoison, kPoison, kPoison, kPoison}};
      return;
    }
    for (std::uint32_t& word : row[i].word) store(&word, kPoison);
  });
}

}  // namespace prim
