// Lane-parallel sections and warp collectives of the CPU target. With warp fibers the 32 lanes of a section run in a loop and
// virtual time advances by the slowest lane; with thread fibers each lane is a fiber and collectives go through the CTA.
#pragma once
#include <cstring>
#include <type_traits>

#include "engine.hpp"

namespace prim {

using simgpu::engine;
using simgpu::Fiber;
using simgpu::from_ns;
using simgpu::Time;

inline Fiber& self() { return *engine->current; }
inline void charge(double ns) { engine->current->clock += from_ns(ns); }
inline const simgpu::Machine& cost() { return engine->machine(); }

inline int cta() { return self().cta->index; }
inline int num_ctas() { return self().cta->kernel->launch.grid; }
inline int num_threads() { return self().cta->kernel->launch.threads; }
inline int num_warps() { return num_threads() / 32; }
inline int warp() { return self().warp; }
inline int own_rank() { return engine->rank(); }
template <class T>
inline T* shared(int byte_offset) {
  return reinterpret_cast<T*>(self().cta->shared + byte_offset);
}

#ifndef SIMGPU_THREAD_FIBERS

inline bool leads() { return true; }

// One value a lane.
template <class T>
struct Lanes {
  T value[32];
  T& at(int lane) { return value[lane]; }
  const T& at(int lane) const { return value[lane]; }
};

// Runs lanes one after another, all from the same clock, and leaves at the latest.
class LaneSection {
 public:
  LaneSection() : fiber_(self()), clock_(fiber_.clock), horizon_(fiber_.horizon), last_clock_(clock_), last_horizon_(horizon_) {
    fiber_.in_lanes = true;
    fiber_.last_sync = -1;
  }
  ~LaneSection() {
    fiber_.clock = last_clock_;
    fiber_.horizon = last_horizon_;
    fiber_.in_lanes = false;
    fiber_.last_sync = -1;
  }
  template <class F>
  void run(F&& lane) {
    fiber_.clock = clock_;
    fiber_.horizon = horizon_;
    lane();
    // A yield may have moved the section's start: nobody in it can still be earlier.
    last_clock_ = std::max(last_clock_, fiber_.clock);
    last_horizon_ = std::max(last_horizon_, fiber_.horizon);
  }

 private:
  Fiber& fiber_;
  Time clock_, horizon_, last_clock_, last_horizon_;
};

template <class F>
inline auto lanes(F&& f) {
  Lanes<std::decay_t<decltype(f(0))>> result;
  LaneSection section;
  for (int l = 0; l < 32; ++l) section.run([&] { result.value[l] = f(l); });
  return result;
}
// A value that every lane computes alike; one evaluation stands for all of them. broadcast() takes it.
template <class T>
struct Alike {
  T value;
};
template <class F>
inline auto alike(F&& f) {
  return Alike<std::decay_t<decltype(f())>>{f()};
}
template <class T>
inline T broadcast(const Alike<T>& v, int) {
  return v.value;
}
template <class F>
inline void each_lane(F&& f) {
  LaneSection section;
  for (int l = 0; l < 32; ++l) section.run([&] { f(l); });
}
template <class F>
inline void elect(F&& f) {
  f();
}
inline void sync_warp() { charge(cost().syncwarp_ns); }

// Lane-parallel loop over [0, n) in steps of `stride` warps of 32, starting at this warp's place `first`.
template <class F>
inline void for_strided(int first, int stride, int n, F&& f) {
  for (int base = first * 32; base < n; base += stride * 32) {
    LaneSection section;
    for (int i = base; i < base + 32 && i < n; ++i) section.run([&] { f(i); });
  }
}
// 16-byte vectors of plain data without primitives inside; its cost is charged by the caller.
template <class F>
inline void for_vectors(int n, F&& f) {
  for (int i = 0; i < n; ++i) f(i);
}

template <class T>
inline T broadcast(const Lanes<T>& v, int lane) {
  return v.value[lane];
}
template <class T>
inline std::uint32_t ballot(const Lanes<T>& v) {
  std::uint32_t bits = 0;
  for (int l = 0; l < 32; ++l) bits |= static_cast<std::uint32_t>(static_cast<bool>(v.value[l])) << l;
  charge(cost().shuffle_ns);
  return bits;
}
template <class T>
inline T reduce_add(const Lanes<T>& v) {
  T sum = 0;
  for (T x : v.value) sum += x;
  charge(cost().shuffle_ns);
  return sum;
}
template <class T>
inline T reduce_max(const Lanes<T>& v) {
  T most = v.value[0];
  for (T x : v.value) most = std::max(most, x);
  charge(cost().shuffle_ns);
  return most;
}
template <class T>
inline Lanes<T> scan_inclusive(const Lanes<T>& v) {
  Lanes<T> result;
  T sum = 0;
  for (int l = 0; l < 32; ++l) result.value[l] = sum += v.value[l];
  charge(5 * cost().shuffle_ns);
  return result;
}
// For each lane the set of lanes with an equal value.
template <class T>
inline Lanes<std::uint32_t> match(const Lanes<T>& v) {
  Lanes<std::uint32_t> result{};
  for (int l = 0; l < 32; ++l)
    for (int m = 0; m < 32; ++m) result.value[l] |= static_cast<std::uint32_t>(v.value[l] == v.value[m]) << m;
  charge(cost().shuffle_ns);
  return result;
}

#else  // thread fibers

inline bool leads() { return self().lane == 0; }

template <class T>
struct Lanes {
  T value;
  T& at(int) { return value; }
  const T& at(int) const { return value; }
};

template <class F>
inline auto lanes(F&& f) {
  return Lanes<std::decay_t<decltype(f(0))>>{f(self().lane)};
}
template <class F>
inline auto alike(F&& f) {
  return Lanes<std::decay_t<decltype(f())>>{f()};
}
template <class F>
inline void each_lane(F&& f) {
  f(self().lane);
}
template <class F>
inline void elect(F&& f) {
  if (leads()) f();
}
inline void sync_warp() {
  simgpu::Cta& c = *self().cta;
  engine->arrive_and_wait(c.warp_barriers[static_cast<std::size_t>(self().warp)], 32, from_ns(cost().syncwarp_ns));
}
template <class F>
inline void for_strided(int first, int stride, int n, F&& f) {
  for (int i = first * 32 + self().lane; i < n; i += stride * 32) f(i);
}
template <class F>
inline void for_vectors(int n, F&& f) {
  for (int i = self().lane; i < n; i += 32) f(i);
}

// Every lane's value as seen by every lane; `use` reads the 32 slots before they may be overwritten.
template <class T, class F>
inline auto exchange(const Lanes<T>& v, F&& use) {
  static_assert(sizeof(T) <= 8);
  Fiber& fiber = self();
  std::uint64_t* slots = fiber.cta->exchange.data() + fiber.warp * 32;
  std::memcpy(&slots[fiber.lane], &v.value, sizeof(T));
  sync_warp();
  charge(cost().shuffle_ns);
  T all[32];
  for (int l = 0; l < 32; ++l) std::memcpy(&all[l], &slots[l], sizeof(T));
  sync_warp();
  return use(all);
}
template <class T>
inline T broadcast(const Lanes<T>& v, int lane) {
  return exchange(v, [&](const T* all) { return all[lane]; });
}
template <class T>
inline std::uint32_t ballot(const Lanes<T>& v) {
  return exchange(v, [](const T* all) {
    std::uint32_t bits = 0;
    for (int l = 0; l < 32; ++l) bits |= static_cast<std::uint32_t>(static_cast<bool>(all[l])) << l;
    return bits;
  });
}
template <class T>
inline T reduce_add(const Lanes<T>& v) {
  return exchange(v, [](const T* all) {
    T sum = 0;
    for (int l = 0; l < 32; ++l) sum += all[l];
    return sum;
  });
}
template <class T>
inline T reduce_max(const Lanes<T>& v) {
  return exchange(v, [](const T* all) { return *std::max_element(all, all + 32); });
}
template <class T>
inline Lanes<T> scan_inclusive(const Lanes<T>& v) {
  const int lane = self().lane;
  return Lanes<T>{exchange(v, [&](const T* all) {
    T sum = 0;
    for (int l = 0; l <= lane; ++l) sum += all[l];
    return sum;
  })};
}
template <class T>
inline Lanes<std::uint32_t> match(const Lanes<T>& v) {
  const T own = v.value;
  return Lanes<std::uint32_t>{exchange(v, [&](const T* all) {
    std::uint32_t bits = 0;
    for (int l = 0; l < 32; ++l) bits |= static_cast<std::uint32_t>(all[l] == own) << l;
    return bits;
  })};
}

#endif

template <class T>
inline bool any(const Lanes<T>& v) {
  return ballot(v) != 0;
}

// ---- barriers
inline void sync_warps(int barrier, int warps) {  // named barrier among `warps` warps of the CTA
  engine->arrive_and_wait(self().cta->barriers[barrier], warps * SIMGPU_LANE_FIBERS,
                          from_ns(cost().cta_barrier_ns + cost().warp_barrier_ns * warps));
}
inline void sync_cta() { sync_warps(0, num_warps()); }
inline void sync_grid() {
  simgpu::Kernel& kernel = *self().cta->kernel;
  engine->arrive_and_wait(kernel.grid_barrier, kernel.launch.grid * num_warps() * SIMGPU_LANE_FIBERS, from_ns(cost().grid_sync_ns));
}
inline void wait_for_predecessor() { engine->grid_dependency_wait(); }
inline void launch_dependents() {
  if (leads()) engine->trigger_dependents();
}

}  // namespace prim
