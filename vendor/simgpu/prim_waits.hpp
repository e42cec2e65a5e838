// Named waits of the CPU target, and how a rank that gives up tells the others. A wait times out only where Engine::lose_patience()
// says so; otherwise a word that nothing can change any more ends the run.
#pragma once
#include "prim_alike.hpp"

namespace prim {

// The ranks that whoever gives up tells: where each one's window starts, and where its abort word lies.
struct Peers {
  char* const* windows = nullptr;
  std::int64_t abort_word = 0;
  std::int64_t missing_word = 0;
  int num_ranks = 0;
};

// Where a rank learns that it or somebody else gave up: every wait ends when the word is not zero.
struct Guard {
  const std::uint64_t* abort_word;
  std::uint64_t code = 0;  // what a time-out puts into abort words, beside the missing peer
  Peers peers{};
};
inline Guard make_guard(const std::uint64_t* abort_word, void*, std::uint64_t, std::uint64_t code, const Peers& peers) {
  return {abort_word, code, peers};
}
SIMGPU_UNSEEN inline bool aborted(const Guard& guard) { return *static_cast<const volatile std::uint64_t*>(guard.abort_word) != 0; }

namespace detail {

constexpr double kTellNs = 300'000;  // hunt: how late some rank hears what others know already

// Every rank that has not heard, in no order among them; what the thread releases afterwards lands behind.
inline void tell(const Guard& guard, std::uint64_t code) {
  for (int rank = 0; rank < guard.peers.num_ranks; ++rank)
    send(reinterpret_cast<std::uint64_t*>(guard.peers.windows[rank] + guard.peers.abort_word), code, land_once<std::uint64_t>,
         engine->adversary().delay(kTellNs));
}
SIMGPU_UNSEEN inline void pass_on(const Guard& guard) { tell(guard, *static_cast<const volatile std::uint64_t*>(guard.abort_word)); }
SIMGPU_UNSEEN inline void time_out(const Guard& guard, const Wait& wait) {
  engine->sync();
  auto* word = const_cast<volatile std::uint64_t*>(guard.abort_word);
  if (*word == 0) {
    *word = guard.code | static_cast<std::uint64_t>(wait.peer + 1) << 16;
    engine->notify(guard.abort_word, self().clock + from_ns(cost().atomic_ns));
  }
  charge(cost().atomic_ns);
  pass_on(guard);
}
inline bool is_over(const Guard& guard) { return aborted(guard) || engine->lost_patience(own_rank()); }
// Whether a wait ends without its word; who gives up tells the others before anything else.
inline bool gives_up(const Guard& guard, const Wait& wait) {
  if (!is_over(guard)) return false;
  if (aborted(guard))
    pass_on(guard);
  else
    time_out(guard, wait);
  return true;
}

template <class T, class Predicate>
struct Watched {
  const T* word;
  Predicate* predicate;
  SIMGPU_UNSEEN static bool satisfied(void* context) {
    auto* self = static_cast<Watched*>(context);
    return (*self->predicate)(*static_cast<const volatile T*>(self->word));
  }
};
template <class T, class Predicate>
inline bool wait_word(const Guard& guard, const T* word, Predicate predicate, const Wait& wait) {
  engine->check(word, sizeof(T), "wait");
  Watched<T, Predicate> watched{word, &predicate};
  simgpu::Watch watch{word, sizeof(T), &watched.satisfied, &watched, wait};
  engine->sync();
  see_own_stores(word);
  while (!watched.satisfied(&watched)) {
    if (gives_up(guard, wait)) return false;
    engine->watch(&watch, 1);
  }
  return true;  // believed, though the rank may have been told meanwhile
}

}  // namespace detail

// A rank that was told to give up tells the others before it goes on: what it releases afterwards reaches nobody ahead of that.
inline void pass_on_abort(const Guard& guard) { detail::pass_on(guard); }

// Waits until predicate(*word); false when the rank was aborted instead. `wait` names the wait, its peer and what it expects.
template <class T, class Predicate>
inline bool wait_until(const Guard& guard, const T* word, Predicate predicate, const Wait& wait) {
  const Time earliest = self().clock + from_ns(cost().acquire_ns);
  const bool ok = detail::wait_word(guard, word, predicate, wait);
  races::acquire(word);
  self().clock = std::max(self().clock, earliest);
  return ok;
}
// The same for a word that says all there is to know: its polls order nothing else.
template <class T, class Predicate>
inline bool wait_value(const Guard& guard, const T* word, Predicate predicate, const Wait& wait) {
  const Time earliest = self().clock + from_ns(cost().acquire_ns);
  const bool ok = detail::wait_word(guard, word, predicate, wait);
  self().clock = std::max(self().clock, earliest);
  return ok;
}
// The warp's lanes wait for n words in parallel: word(i), predicate(i, value), wait(i).
template <class Word, class Predicate, class Describe>
inline bool wait_all(const Guard& guard, int n, Word word, Predicate predicate, Describe describe) {
  const Time earliest = self().clock + from_ns(cost().acquire_ns);
  bool ok = true;
#ifndef SIMGPU_THREAD_FIBERS
  const int first = 0, step = 1;
#else
  const int first = self().lane, step = 32;
#endif
  for (int i = first; i < n; i += step) {
    ok &= detail::wait_word(guard, word(i), [&](auto value) { return predicate(i, value); }, describe(i));
    races::acquire(word(i));
  }
  self().clock = std::max(self().clock, earliest);
#ifdef SIMGPU_THREAD_FIBERS
  ok = !any(Lanes<bool>{!ok});
#endif
  sync_warp();
  return ok;
}

}  // namespace prim
