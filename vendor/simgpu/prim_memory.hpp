// Loads, stores and atomics of the CPU target.
#pragma once
#include <cstring>

#include "prim_lanes.hpp"

namespace prim {

namespace races = simgpu::races;
using simgpu::Wait;
using simgpu::Action;
using simgpu::Engine;

// ---- costs of plain data loops
// This warp turns to item `index` of its kernel's work. How far the item's memory lies is drawn from its place alone, so that
// runs repeat and arms that do the same work see the same distances.
inline void begin_task(int index) {
  self().has_task = true;
  const simgpu::Kernel& kernel = *self().cta->kernel;
  std::uint64_t place = 0x9E3779B97F4A7C15ull * static_cast<std::uint64_t>(index + 1);
  for (const char* c = kernel.launch.name; *c != 0; ++c) place = (place ^ static_cast<unsigned char>(*c)) * 0x100000001B3ull;
  simgpu::Random random(place ^ static_cast<std::uint64_t>(kernel.launch.tag) << 40 ^ static_cast<std::uint64_t>(own_rank()) << 20);
  const double place_in_range = random.uniform();
  self().latency_factor = 1 + 3 * cost().latency_spread * place_in_range * place_in_range;
}
// Loads that one warp has in flight together: add() each row, then wait() once for all of them.
class Gather {
 public:
  void add(const void* p, int bytes) {
    if (!leads()) return;
    if (first_) engine->sync();
    first_ = false;
    Fiber& fiber = self();
    engine->check(p, static_cast<std::size_t>(bytes), "load");
    double latency = 0;
    simgpu::Sm& sm = engine->gpu(own_rank()).sms[static_cast<std::size_t>(fiber.cta->sm)];
    const double rate = fiber.cta->kernel->launch.leaves_l1 ? cost().sm_load_l1_gb_per_s : cost().sm_load_gb_per_s;
    const Time path = sm.load.use(fiber.clock, bytes, rate);
    const Time memory = engine->memory_traffic(own_rank(), p, static_cast<std::size_t>(bytes), fiber.clock, &latency);
    done_ = std::max(done_, std::max(path, memory) + from_ns(latency * fiber.latency_factor));
  }
  void wait() {
    if (!leads()) return;
    Fiber& fiber = self();
    fiber.clock = std::max(fiber.clock, done_);
    done_ = 0;
    first_ = true;
  }

 private:
  Time done_ = 0;
  bool first_ = true;
};
inline void charge_load(const void* p, int bytes) {
  Gather gather;
  gather.add(p, bytes);
  gather.wait();
}
inline void charge_store(const void* p, int bytes) {
  if (!leads()) return;
  engine->sync();
  Fiber& fiber = self();
  engine->check(p, static_cast<std::size_t>(bytes), "store");
  simgpu::Sm& sm = engine->gpu(own_rank()).sms[static_cast<std::size_t>(fiber.cta->sm)];
  const Time path = sm.load.use(fiber.clock, bytes, cost().sm_load_gb_per_s);
  const Time memory = engine->memory_traffic(own_rank(), p, static_cast<std::size_t>(bytes), fiber.clock, nullptr);
  fiber.clock = path;
  fiber.horizon = std::max(fiber.horizon, memory + from_ns(cost().l2_latency_ns));
}
// FP32 accumulation of `vectors` 16-byte vectors a lane.
inline void charge_accumulate(int vectors) { charge(vectors * cost().accumulate_ns); }
// Packed BF16 addition of two such vectors: 4 instructions where unpacking and adding one in FP32 takes 16.
inline void charge_packed_add(int vectors) { charge(vectors * cost().accumulate_ns / 4); }
inline bool payload() { return engine->options().payload; }

// What must hold for the next access to make sense; a kernel that breaks it has left its memory.
inline void expect(bool holds, const char* what) {
  if (!holds) engine->stop(what);
}

// ---- plain memory of the own rank
namespace detail {

inline void see_own_stores(const void* p) {
  if (!self().late_stores.empty()) engine->land_stores_at(self(), p);
}

}  // namespace detail
template <class T>
inline T load(const T* p) {
  charge(cost().l2_latency_ns);
  engine->check(p, sizeof(T), "load");
  detail::see_own_stores(p);
  return *p;
}
template <class T>
inline void store(T* p, T v) {
  charge(cost().store_ns);
  engine->check(p, sizeof(T), "store");
  if constexpr (sizeof(T) <= 8) {
    if (engine->adversary().active()) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, &v, sizeof(T));
      engine->store_late(p, bits, sizeof(T));
      return;
    }
  }
  Fiber& fiber = self();
  fiber.horizon = std::max(fiber.horizon, fiber.clock + from_ns(cost().l2_latency_ns));
  *p = v;
}
// Shared memory.
template <class T>
SIMGPU_UNSEEN inline void shared_add(T* p, std::type_identity_t<T> v) {
  charge(cost().shared_ns);
  *p = static_cast<T>(*p + v);
}
template <class T>
SIMGPU_UNSEEN inline T shared_fetch_add(T* p, std::type_identity_t<T> v) {
  charge(cost().shared_ns);
  const T old = *p;
  *p = static_cast<T>(old + v);
  return old;
}

// ---- other ranks' memory: an address that cannot be dereferenced
template <class T>
class Remote {
 public:
  explicit Remote(T* address) : address_(address) {}
  Remote operator+(std::int64_t n) const { return Remote(address_ + n); }
  T* address() const { return address_; }

 private:
  T* address_;
};

namespace detail {

template <class T>
SIMGPU_UNSEEN inline void land(Engine& e, Action& a) {
  T* word = static_cast<T*>(a.target);
  *word = static_cast<T>(a.value);
  e.notify(word, a.when);
}
template <class T>
SIMGPU_UNSEEN inline void land_add(Engine& e, Action& a) {
  T* word = static_cast<T*>(a.target);
  *word = static_cast<T>(*word + static_cast<T>(a.value));
  e.notify(word, a.when);
}
template <class T>
SIMGPU_UNSEEN inline void land_once(Engine& e, Action& a) {
  if (*static_cast<const volatile T*>(a.target) == 0) land<T>(e, a);
}
// Sends one word to `word`, wherever it lives; `run` applies it when it lands, so much later than it could.
template <class T>
SIMGPU_UNSEEN inline void send(T* word, T v, void (*run)(Engine&, Action&), Time late = 0) {
  engine->check(word, sizeof(T), "remote store");
  charge(cost().store_ns);
  engine->sync();
  Fiber& fiber = self();
  const int owner = engine->memory().owner(word);
  const Time lands = owner == own_rank()
                         ? fiber.clock + from_ns(cost().l2_latency_ns) + engine->adversary().delay(300)
                         : engine->transfer(own_rank(), owner, fiber.clock, 32) + late;
  fiber.horizon = std::max(fiber.horizon, lands + (owner == own_rank() ? 0 : from_ns(cost().nvlink_latency_ns)));
  Action* action = engine->act(lands, run);
  action->target = word;
  action->value = static_cast<std::uint64_t>(v);
}

}  // namespace detail

template <class T>
inline void store_relaxed_sys(Remote<T> word, T v) {
  detail::send(word.address(), v, detail::land<T>);
}
// Waits until this fiber's earlier generic writes have landed: they are ordered before what follows.
inline void fence_sys() {
  Fiber& fiber = self();
  fiber.clock = std::max(fiber.clock + from_ns(cost().fence_ns), fiber.horizon);
}
template <class T>
inline void store_release_sys(Remote<T> word, T v) {
  fence_sys();
  races::release(word.address());
  detail::send(word.address(), v, detail::land<T>);
}
template <class T>
inline void add_release_sys(Remote<T> word, T v) {
  fence_sys();
  races::release(word.address());
  detail::send(word.address(), v, detail::land_add<T>);
}

// store_release_sys() where the word is zero as it lands, otherwise nothing. The thread sees its own rank's word set at once.
template <class T>
SIMGPU_UNSEEN inline void set_once_release_sys(Remote<T> word, T v) {
  fence_sys();
  races::release(word.address());
  if (engine->memory().owner(word.address()) != own_rank()) return detail::send(word.address(), v, detail::land_once<T>);
  engine->sync();
  auto* own = static_cast<volatile T*>(word.address());
  if (*own != 0) return;
  *own = v;
  engine->notify(word.address(), self().clock + from_ns(cost().l2_latency_ns));
  charge(cost().atomic_ns);
}

// ---- atomics at GPU scope on the own rank; applied at once, visible to waiters when they land
template <class T>
SIMGPU_UNSEEN inline T fetch_add_gpu(T* word, T v) {
  engine->check(word, sizeof(T), "atomic");
  engine->sync();
  detail::see_own_stores(word);
  const T old = *word;
  *word = static_cast<T>(old + v);
  engine->notify(word, self().clock + from_ns(cost().l2_latency_ns));
  charge(cost().atomic_ns);
  return old;
}
template <class T>
inline T fetch_add_acq_rel_gpu(T* word, T v) {
  fence_sys();
  races::release(word);
  const T old = fetch_add_gpu(word, v);
  races::acquire(word);
  return old;
}
template <class T>
SIMGPU_UNSEEN inline void add_gpu(T* word, T v) {
  engine->check(word, sizeof(T), "atomic");
  engine->sync();
  detail::see_own_stores(word);
  *word = static_cast<T>(*word + v);
  charge(cost().store_ns);
  engine->notify(word, self().clock + from_ns(cost().atomic_ns));
}
template <class T>
SIMGPU_UNSEEN inline T load_acquire_sys(const T* word) {
  engine->sync();
  races::acquire(word);
  charge(cost().acquire_ns);
  detail::see_own_stores(word);
  return *static_cast<const volatile T*>(word);
}

}  // namespace prim
