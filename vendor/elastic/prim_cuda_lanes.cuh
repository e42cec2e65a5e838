// Identity, lane sections, warp collectives and barriers of the CUDA target. Code outside a lane section runs with the 32 lanes
// of a warp converged or about to converge: every collective here, elect() included, names all of them.
#pragma once
#include <cooperative_groups.h>

#include <cstdint>
#include <type_traits>

namespace prim {

namespace detail {

constexpr unsigned kAllLanes = 0xffffffffu;
extern __shared__ __align__(1024) char dynamic_shared[];

PRIM_FN int lane() {
  int id;
  asm("mov.u32 %0, %%laneid;" : "=r"(id));
  return id;
}

}  // namespace detail

// ---- identity
PRIM_FN int cta() { return static_cast<int>(blockIdx.x); }
PRIM_FN int num_ctas() { return static_cast<int>(gridDim.x); }
PRIM_FN int num_threads() { return static_cast<int>(blockDim.x); }
PRIM_FN int num_warps() { return static_cast<int>(blockDim.x) / 32; }
// Through a shuffle, so that the compiler keeps it, and branches on it, in uniform registers.
PRIM_FN int warp() { return __shfl_sync(detail::kAllLanes, static_cast<int>(threadIdx.x) / 32, 0); }
template <class T>
PRIM_FN T* shared(int byte_offset) {
  return reinterpret_cast<T*>(detail::dynamic_shared + byte_offset);
}

// ---- lane sections
// One value a lane.
template <class T>
struct Lanes {
  T value;
  PRIM_FN T& at(int) { return value; }
  PRIM_FN const T& at(int) const { return value; }
};

template <class F>
PRIM_FN auto lanes(F&& f) {
  return Lanes<std::decay_t<decltype(f(0))>>{f(detail::lane())};
}
// A value that every lane computes alike.
template <class F>
PRIM_FN auto alike(F&& f) {
  return Lanes<std::decay_t<decltype(f())>>{f()};
}
template <class F>
PRIM_FN void each_lane(F&& f) {
  f(detail::lane());
}
// One lane, the same one in every call.
template <class F>
PRIM_FN void elect(F&& f) {
  int elected;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.s32 %0, 1, 0, p;\n"
      "}"
      : "=r"(elected)::"memory");
  if (elected) f();
}
// Lane-parallel loop over [0, n) in steps of `stride` warps of 32, starting at this warp's place `first`.
template <class F>
PRIM_FN void for_strided(int first, int stride, int n, F&& f) {
  _Pragma("unroll 1") for (int i = first * 32 + detail::lane(); i < n; i += stride * 32) f(i);
}
// 16-byte vectors of plain data without primitives inside.
template <class F>
PRIM_FN void for_vectors(int n, F&& f) {
  _Pragma("unroll 4") for (int i = detail::lane(); i < n; i += 32) f(i);
}

// ---- collectives
namespace detail {

// What the shuffle and match intrinsics take: 32 or 64 bits.
template <class T>
using Word = std::conditional_t<sizeof(T) <= 4, unsigned, unsigned long long>;

}  // namespace detail

template <class T>
PRIM_FN T broadcast(const Lanes<T>& v, int lane) {
  return __shfl_sync(detail::kAllLanes, v.value, lane);
}
template <class T>
PRIM_FN std::uint32_t ballot(const Lanes<T>& v) {
  return __ballot_sync(detail::kAllLanes, static_cast<bool>(v.value));
}
template <class T>
PRIM_FN bool any(const Lanes<T>& v) {
  return __any_sync(detail::kAllLanes, static_cast<bool>(v.value)) != 0;
}
template <class T>
PRIM_FN T reduce_add(const Lanes<T>& v) {
  static_assert(std::is_integral_v<T>);
  if constexpr (sizeof(T) == 4) {
    return __reduce_add_sync(detail::kAllLanes, v.value);
  } else {
    T sum = v.value;
    PRIM_UNROLL
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(detail::kAllLanes, sum, distance);
    return sum;
  }
}
template <class T>
PRIM_FN T reduce_max(const Lanes<T>& v) {
  static_assert(std::is_integral_v<T>);
  if constexpr (sizeof(T) == 4) {
    return __reduce_max_sync(detail::kAllLanes, v.value);
  } else {
    T most = v.value;
    PRIM_UNROLL
    for (int distance = 16; distance > 0; distance /= 2) {
      const T other = __shfl_xor_sync(detail::kAllLanes, most, distance);
      most = other > most ? other : most;
    }
    return most;
  }
}
template <class T>
PRIM_FN Lanes<T> scan_inclusive(const Lanes<T>& v) {
  T sum = v.value;
  PRIM_UNROLL
  for (int distance = 1; distance < 32; distance *= 2) {
    const T below = __shfl_up_sync(detail::kAllLanes, sum, distance);
    if (detail::lane() >= distance) sum += below;
  }
  return {sum};
}
// For each lane the set of lanes with an equal value.
template <class T>
PRIM_FN Lanes<std::uint32_t> match(const Lanes<T>& v) {
  static_assert(std::is_integral_v<T>);
  return {__match_any_sync(detail::kAllLanes, static_cast<detail::Word<T>>(v.value))};
}

// ---- barriers
PRIM_FN void sync_warp() { __syncwarp(); }
// Named barrier among `warps` warps of the CTA; 0 is sync_cta()'s.
PRIM_FN void sync_warps(int barrier, int warps) { asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(warps * 32) : "memory"); }
PRIM_FN void sync_cta() { __syncthreads(); }
// Needs a cooperative launch.
PRIM_FN void sync_grid() { cooperative_groups::this_grid().sync(); }
// Until the preceding kernel has completed and its writes are visible.
PRIM_FN void wait_for_predecessor() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
// The first thread of a CTA to call it speaks for the CTA. It orders no memory: that is what the dependent's wait is for.
PRIM_FN void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

}  // namespace prim
