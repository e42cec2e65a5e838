// What kernels ask of the NIC, CPU target. vendor/elastic/prim_nic.cuh says what each call promises.
#pragma once
#include "nic.hpp"
#include "prim_rows.hpp"

namespace prim {

struct NicQueue {
  int peer, queue_pair;
};

namespace detail {

inline simgpu::Nics& nics() {
  if (engine->nics == nullptr) engine->stop("NIC: expected a fabric, the simulated machine has none");
  return *engine->nics;
}
// Waits until `reached` of the entries posted to the queue so far have been read.
template <class Predicate>
inline bool wait_queue(const Guard& guard, const NicQueue& queue, Predicate reached, const Wait& wait) {
  simgpu::NicQueue& entries = nics().queue(own_rank(), queue.peer, queue.queue_pair);
  Watched<std::uint64_t, Predicate> watched{&entries.read, &reached};
  simgpu::Watch watch{&entries.read, 8, &watched.satisfied, &watched, wait};
  engine->sync();
  while (!watched.satisfied(&watched)) {
    if (gives_up(guard, wait)) return false;
    engine->watch(&watch, 1);
  }
  return !aborted(guard);
}
inline void check_peer(const NicQueue& queue, const void* to, std::size_t bytes) {
  engine->check(to, bytes, "NIC target");
  if (engine->memory().owner(to) != queue.peer)
    engine->stop("NIC target: expected memory of rank " + std::to_string(queue.peer) + ", it is of rank " +
                 std::to_string(engine->memory().owner(to)));
}
inline bool post(const Guard& guard, const NicQueue& queue, const simgpu::NicEntry& entry) {
  if (entry.to != nullptr) check_peer(queue, entry.to, entry.bytes);
  if (entry.from != nullptr) engine->check(entry.from, entry.bytes, "NIC source");
  if (entry.signal != nullptr) check_peer(queue, entry.signal, 8);
  simgpu::NicQueue& entries = nics().queue(own_rank(), queue.peer, queue.queue_pair);
  const auto has_place = [&](std::uint64_t) { return !nics().full(entries); };
  if (!wait_queue(guard, queue, has_place, {"a place in a NIC queue", queue.peer, entries.posted})) return false;
  charge(nics().machine().post_ns);
  entries.waiting.push_back(entry);
  ++entries.posted;
  return true;
}

}  // namespace detail

inline bool nic_put(const Guard& guard, const NicQueue& queue, Remote<char> to, const void* from, int bytes) {
  return detail::post(guard, queue, {to.address(), from, static_cast<std::uint32_t>(bytes), 0, nullptr, 0});
}
inline bool nic_put_signal(const Guard& guard, const NicQueue& queue, Remote<char> to, const void* from, int bytes,
                           Remote<std::uint64_t> signal, std::uint64_t addend) {
  return detail::post(guard, queue, {to.address(), from, static_cast<std::uint32_t>(bytes), 0, signal.address(), addend});
}
template <class T>
inline bool nic_put_value(const Guard& guard, const NicQueue& queue, Remote<T> to, T v) {
  return detail::post(guard, queue, {to.address(), nullptr, sizeof(T), static_cast<std::uint64_t>(v), nullptr, 0});
}
inline bool nic_add(const Guard& guard, const NicQueue& queue, Remote<std::uint64_t> word, std::uint64_t addend) {
  return detail::post(guard, queue, {nullptr, nullptr, 0, 0, word.address(), addend});
}
inline void nic_ring(const NicQueue& queue) {
  engine->sync();
  detail::nics().ring(own_rank(), queue.peer, queue.queue_pair, self().clock);
  charge(detail::nics().machine().post_ns);
}
inline bool nic_flush(const Guard& guard, const NicQueue& queue) {
  const std::uint64_t posted = detail::nics().queue(own_rank(), queue.peer, queue.queue_pair).posted;
  const auto all = [posted](std::uint64_t read) { return read >= posted; };
  return detail::wait_queue(guard, queue, all, {"NIC flush", queue.peer, posted});
}

}  // namespace prim
