// The CUDA target's primitive set (sm_90a, PTX ISA 8.0 and newer). prim.cuh includes it when the compiler is nvcc.
#pragma once
#include <cuda_bf16.h>

#include <cstdint>
#include <type_traits>

#define PRIM_FN __device__ __forceinline__
#define PRIM_HOST_FN inline __host__ __device__
#define PRIM_FN_COLD static __device__ __noinline__  // off every fast path, whose instructions it would spread
#define PRIM_KERNEL __global__
#define PRIM_LAUNCH_BOUNDS(threads) __launch_bounds__(threads, 1)
#define PRIM_ARGS(type) const __grid_constant__ type
#define PRIM_UNROLL _Pragma("unroll")

#include "prim_cuda_bulk.cuh"
#include "prim_cuda_lanes.cuh"
#include "prim_cuda_memory.cuh"
#include "prim_cuda_wait.cuh"

namespace prim {

// ---- 16 bytes of payload
struct alignas(16) Vec16 {
  std::uint32_t word[4];
};

namespace detail {

// The L2 policy "evict first", as createpolicy.fractional.L2::evict_first with fraction 1 encodes it. Loads of 16 bytes take
// their L2 priority through a policy; the suffix .L2::evict_first exists for 32-byte loads of later architectures only.
constexpr std::uint64_t kEvictFirst = 0x12f0000000000000;

}  // namespace detail

// Read once by this kernel and written by none that runs: no L1, first to leave L2.
PRIM_FN Vec16 load_streaming(const Vec16* p) {
  Vec16 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(p), "l"(detail::kEvictFirst));
  return v;
}

// The same, or `otherwise` in every word where `present` is false: predicated, so that several such loads go out together.
PRIM_FN Vec16 load_streaming_if(bool present, const Vec16* p, std::uint32_t otherwise) {
  Vec16 v{otherwise, otherwise, otherwise, otherwise};
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.s32 p, %6, 0;\n"
      "@p ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;\n"
      "}"
      : "+r"(v.word[0]), "+r"(v.word[1]), "+r"(v.word[2]), "+r"(v.word[3])
      : "l"(p), "l"(detail::kEvictFirst), "r"(static_cast<int>(present)));
  return v;
}

// ---- numbers
PRIM_FN int popcount(std::uint32_t v) { return __popc(v); }
PRIM_FN int highest_bit(std::uint32_t v) { return 31 - __clz(static_cast<int>(v)); }
PRIM_FN int lowest_bit(std::uint32_t v) { return __ffs(static_cast<int>(v)) - 1; }

PRIM_FN float bf16_to_float(std::uint32_t bits) { return __uint_as_float(bits << 16); }
// Round to nearest even; a NaN becomes 0x7fff.
PRIM_FN std::uint32_t float_to_bf16(float f) { return __bfloat16_as_ushort(__float2bfloat16_rn(f)); }

// Two BF16 additions, each rounded once to nearest even.
PRIM_FN std::uint32_t add_bf16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t sum;
  asm("add.rn.bf16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
  return sum;
}

// ---- costs: for the simulator's clock, nothing here
PRIM_FN void begin_task(int) {}
class Gather {
 public:
  PRIM_FN void add(const void*, int) {}
  PRIM_FN void wait() {}
};
PRIM_FN void charge_load(const void*, int) {}
PRIM_FN void charge_store(const void*, int) {}
PRIM_FN void charge_accumulate(int) {}
PRIM_FN void charge_packed_add(int) {}
PRIM_FN void expect(bool, const char*) {}
PRIM_FN constexpr bool payload() { return true; }

}  // namespace prim
