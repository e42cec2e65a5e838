// Loads, stores, atomics and fences of the CUDA target. Words are 32 or 64 bits, signed or not; PTX's untyped .b32 and .b64 move
// them, and an unsigned addition serves both kinds.
#pragma once
#include <cstdint>
#include <type_traits>

namespace prim {

// ---- plain memory of the own rank
template <class T>
PRIM_FN T load(const T* p) {
  return *p;
}
template <class T>
PRIM_FN void store(T* p, T v) {
  *p = v;
}

// ---- shared memory
namespace detail {

template <class T>
constexpr bool kIsWord = std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8);

PRIM_FN std::uint32_t shared_address(const void* p) { return static_cast<std::uint32_t>(__cvta_generic_to_shared(p)); }

}  // namespace detail

template <class T>
PRIM_FN void shared_add(T* p, std::type_identity_t<T> v) {
  static_assert(detail::kIsWord<T>);
  if constexpr (sizeof(T) == 4)
    asm volatile("red.relaxed.cta.shared::cta.add.u32 [%0], %1;" ::"r"(detail::shared_address(p)), "r"(v) : "memory");
  else
    asm volatile("red.relaxed.cta.shared::cta.add.u64 [%0], %1;" ::"r"(detail::shared_address(p)), "l"(v) : "memory");
}
template <class T>
PRIM_FN T shared_fetch_add(T* p, std::type_identity_t<T> v) {
  static_assert(detail::kIsWord<T>);
  T old;
  if constexpr (sizeof(T) == 4)
    asm volatile("atom.relaxed.cta.shared::cta.add.u32 %0, [%1], %2;"
                 : "=r"(old)
                 : "r"(detail::shared_address(p)), "r"(v)
                 : "memory");
  else
    asm volatile("atom.relaxed.cta.shared::cta.add.u64 %0, [%1], %2;"
                 : "=l"(old)
                 : "r"(detail::shared_address(p)), "l"(v)
                 : "memory");
  return old;
}

// ---- other ranks' memory: an address that cannot be dereferenced
template <class T>
class Remote {
 public:
  PRIM_FN explicit Remote(T* address) : address_(address) {}
  PRIM_FN Remote operator+(std::int64_t n) const { return Remote(address_ + n); }
  PRIM_FN T* address() const { return address_; }

 private:
  T* address_;
};

template <class T>
PRIM_FN void store_relaxed_sys(Remote<T> word, T v) {
  static_assert(detail::kIsWord<T>);
  if constexpr (sizeof(T) == 4)
    asm volatile("st.relaxed.sys.global.b32 [%0], %1;" ::"l"(word.address()), "r"(v) : "memory");
  else
    asm volatile("st.relaxed.sys.global.b64 [%0], %1;" ::"l"(word.address()), "l"(v) : "memory");
}
template <class T>
PRIM_FN void store_release_sys(Remote<T> word, T v) {
  static_assert(detail::kIsWord<T>);
  if constexpr (sizeof(T) == 4)
    asm volatile("st.release.sys.global.b32 [%0], %1;" ::"l"(word.address()), "r"(v) : "memory");
  else
    asm volatile("st.release.sys.global.b64 [%0], %1;" ::"l"(word.address()), "l"(v) : "memory");
}
// The same where the word is zero; otherwise nothing.
template <class T>
PRIM_FN void set_once_release_sys(Remote<T> word, T v) {
  static_assert(detail::kIsWord<T> && sizeof(T) == 8);
  asm volatile("atom.release.sys.global.cas.b64 _, [%0], %1, %2;" ::"l"(word.address()), "l"(std::uint64_t{0}), "l"(v) : "memory");
}
template <class T>
PRIM_FN void add_release_sys(Remote<T> word, T v) {
  static_assert(detail::kIsWord<T>);
  if constexpr (sizeof(T) == 4)
    asm volatile("red.release.sys.global.add.u32 [%0], %1;" ::"l"(word.address()), "r"(v) : "memory");
  else
    asm volatile("red.release.sys.global.add.u64 [%0], %1;" ::"l"(word.address()), "l"(v) : "memory");
}

// ---- atomics at GPU scope on the own rank
template <class T>
PRIM_FN T fetch_add_gpu(T* word, T v) {
  static_assert(detail::kIsWord<T>);
  T old;
  if constexpr (sizeof(T) == 4)
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(word), "r"(v) : "memory");
  else
    asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(word), "l"(v) : "memory");
  return old;
}
template <class T>
PRIM_FN T fetch_add_acq_rel_gpu(T* word, T v) {
  static_assert(detail::kIsWord<T>);
  T old;
  if constexpr (sizeof(T) == 4)
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(word), "r"(v) : "memory");
  else
    asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(word), "l"(v) : "memory");
  return old;
}
template <class T>
PRIM_FN void add_gpu(T* word, T v) {
  static_assert(detail::kIsWord<T>);
  if constexpr (sizeof(T) == 4)
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(word), "r"(v) : "memory");
  else
    asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(word), "l"(v) : "memory");
}

// ---- ordering
template <class T>
PRIM_FN T load_acquire_sys(const T* word) {
  static_assert(detail::kIsWord<T>);
  T v;
  if constexpr (sizeof(T) == 4)
    asm volatile("ld.acquire.sys.global.b32 %0, [%1];" : "=r"(v) : "l"(word) : "memory");
  else
    asm volatile("ld.acquire.sys.global.b64 %0, [%1];" : "=l"(v) : "l"(word) : "memory");
  return v;
}
// Orders this thread's earlier generic accesses before its later ones, for every observer in the system.
PRIM_FN void fence_sys() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

}  // namespace prim
