// Returning atomics at GPU scope on 32- and 64-bit words of the own rank, and a word of a peer that is set once; CPU target.
#pragma once
#include "prim_any.hpp"

namespace prim {

namespace detail {

// Applied at once, visible to waiters when it lands, like fetch_add_gpu().
template <class T, class Next>
SIMGPU_UNSEEN inline T update(T* word, Next next) {
  engine->check(word, sizeof(T), "atomic");
  engine->sync();
  see_own_stores(word);
  const T old = *word;
  *word = next(old);
  engine->notify(word, self().clock + from_ns(cost().l2_latency_ns));
  charge(cost().atomic_ns);
  return old;
}

}  // namespace detail

// Each returns what the word held before.
template <class T>
inline T fetch_or_gpu(T* word, T bits) {
  return detail::update(word, [=](T old) { return static_cast<T>(old | bits); });
}
template <class T>
inline T fetch_max_gpu(T* word, T v) {
  return detail::update(word, [=](T old) { return std::max(old, v); });
}
template <class T>
inline T swap_gpu(T* word, T v) {
  return detail::update(word, [=](T) { return v; });
}
// Stores v where the word holds `expected`.
template <class T>
inline T compare_swap_gpu(T* word, T expected, T v) {
  return detail::update(word, [=](T old) { return old == expected ? v : old; });
}

}  // namespace prim
