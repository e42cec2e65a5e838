// What edited kernels say and bear: marks that prove a place ran, and delays that the host sets there. A harness copies this file
// beside the primitives of a tree that it edits; no shipped kernel includes it.
#pragma once
#include <cstdint>

namespace prim {

constexpr int kPlaces = 32;
constexpr int kFaultPlace = 0;  // where a fault is injected; the others are delays

}  // namespace prim

#ifdef __CUDACC__
#include "prim_cuda_wait.cuh"

namespace prim {

// Set by the host between runs.
struct Faults {
  std::uint32_t untold[kPlaces];   // whether the place has still to say that it ran
  std::uint32_t late_us[kPlaces];  // how long each thread that comes by is held
  std::uint32_t* told;             // words of the host, which outlive an error of the device
};
static __device__ Faults faults;

namespace detail {

// Once a place, by one of the threads that came by together; later ones see a word of this device and go on.
PRIM_FN void tell_place(int place) {
  std::uint32_t untold;
  asm volatile("ld.relaxed.gpu.global.b32 %0, [%1];" : "=r"(untold) : "l"(&faults.untold[place]) : "memory");
  if (untold == 0) return;
  asm volatile("st.relaxed.gpu.global.b32 [%0], %1;" ::"l"(&faults.untold[place]), "r"(0u) : "memory");
  asm volatile("st.relaxed.sys.global.b32 [%0], %1;" ::"l"(faults.told + place), "r"(1u) : "memory");
}

}  // namespace detail

// A fault is injected here.
PRIM_FN void mark() { detail::tell_place(kFaultPlace); }

// Holds the calling thread as long as the host says.
PRIM_FN void late(int place) {
  std::uint32_t us;
  asm volatile("ld.relaxed.gpu.global.b32 %0, [%1];" : "=r"(us) : "l"(&faults.late_us[place]) : "memory");
  if (us == 0) return;
  detail::tell_place(place);
  const std::uint64_t started = detail::clock_ns();
  while (detail::clock_ns() - started < us * std::uint64_t{1000}) {
  }
}

}  // namespace prim

#else

namespace prim {

// Set by the host between runs, for all simulated ranks.
struct Faults {
  std::uint32_t late_us[kPlaces];
  std::uint32_t told[kPlaces];
  std::int32_t rank;  // which one is late; -1: every one
};
inline Faults faults{};

inline void mark() { faults.told[kFaultPlace] = 1; }

// Moves the clock of the calling warp on.
inline void late(int place) {
  if (faults.late_us[place] == 0 || (faults.rank >= 0 && faults.rank != engine->rank())) return;
  faults.told[place] = 1;
  charge(faults.late_us[place] * 1e3);
}

}  // namespace prim
#endif
