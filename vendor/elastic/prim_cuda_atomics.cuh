// Returning atomics at GPU scope on 32- and 64-bit words of the own rank, CUDA target. They order no other memory.
#pragma once
#include "prim_cuda_memory.cuh"

namespace prim {

// Each returns what the word held before.
template <class T>
PRIM_FN T fetch_or_gpu(T* word, T bits) {
  static_assert(detail::kIsWord<T>);
  T old;
  if constexpr (sizeof(T) == 4)
    asm volatile("atom.relaxed.gpu.global.or.b32 %0, [%1], %2;" : "=r"(old) : "l"(word), "r"(bits) : "memory");
  else
    asm volatile("atom.relaxed.gpu.global.or.b64 %0, [%1], %2;" : "=l"(old) : "l"(word), "l"(bits) : "memory");
  return old;
}
template <class T>
PRIM_FN T fetch_max_gpu(T* word, T v) {
  static_assert(detail::kIsWord<T>);
  T old;
  if constexpr (sizeof(T) == 4 && std::is_signed_v<T>)
    asm volatile("atom.relaxed.gpu.global.max.s32 %0, [%1], %2;" : "=r"(old) : "l"(word), "r"(v) : "memory");
  else if constexpr (sizeof(T) == 4)
    asm volatile("atom.relaxed.gpu.global.max.u32 %0, [%1], %2;" : "=r"(old) : "l"(word), "r"(v) : "memory");
  else if constexpr (std::is_signed_v<T>)
    asm volatile("atom.relaxed.gpu.global.max.s64 %0, [%1], %2;" : "=l"(old) : "l"(word), "l"(v) : "memory");
  else
    asm volatile("atom.relaxed.gpu.global.max.u64 %0, [%1], %2;" : "=l"(old) : "l"(word), "l"(v) : "memory");
  return old;
}
template <class T>
PRIM_FN T swap_gpu(T* word, T v) {
  static_assert(detail::kIsWord<T>);
  T old;
  if constexpr (sizeof(T) == 4)
    asm volatile("atom.relaxed.gpu.global.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(word), "r"(v) : "memory");
  else
    asm volatile("atom.relaxed.gpu.global.exch.b64 %0, [%1], %2;" : "=l"(old) : "l"(word), "l"(v) : "memory");
  return old;
}
// Stores v where the word holds `expected`.
template <class T>
PRIM_FN T compare_swap_gpu(T* word, T expected, T v) {
  static_assert(detail::kIsWord<T>);
  T old;
  if constexpr (sizeof(T) == 4)
    asm volatile("atom.relaxed.gpu.global.cas.b32 %0, [%1], %2, %3;" : "=r"(old) : "l"(word), "r"(expected), "r"(v) : "memory");
  else
    asm volatile("atom.relaxed.gpu.global.cas.b64 %0, [%1], %2, %3;" : "=l"(old) : "l"(word), "l"(expected), "l"(v) : "memory");
  return old;
}

}  // namespace prim
