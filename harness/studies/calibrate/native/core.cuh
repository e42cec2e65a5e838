// Inside one SM, and its words in L2: barriers, shuffles, shared memory, polls, atomics, fences, stores, additions.
#pragma once
#include "probing.cuh"

namespace probes {

constexpr int kCoreRepeats = 21, kRounds = 512, kBurst = 16, kAtomicRounds = 64;

// What a chain repeats: first(address of an own word in shared memory) gives its start, operator() one link.
struct CtaBarrier {
  __device__ unsigned first(unsigned) const { return 0; }
  __device__ unsigned operator()(unsigned x) const {
    asm volatile("bar.sync 0;" ::: "memory");
    return x;
  }
};
struct WarpBarrier {
  __device__ unsigned first(unsigned) const { return 0; }
  __device__ unsigned operator()(unsigned x) const {
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
    return x;
  }
};
struct Shuffle {
  __device__ unsigned first(unsigned) const { return threadIdx.x; }
  __device__ unsigned operator()(unsigned x) const { return __shfl_xor_sync(~0u, x, 1); }
};
// The own word in shared memory holds its own address.
struct SharedLoad {
  __device__ unsigned first(unsigned address) const { return address; }
  __device__ unsigned operator()(unsigned x) const {
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(x) : "memory");
    return x;
  }
};
// Words that stay zero: the address of a load depends on what the load before it returned.
struct AcquireLoad {
  const unsigned* word;
  __device__ unsigned first(unsigned) const { return 0; }
  __device__ unsigned operator()(unsigned x) const {
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(x) : "l"(word + x) : "memory");
    return x;
  }
};
struct RelaxedLoad {
  const unsigned* word;
  __device__ unsigned first(unsigned) const { return 0; }
  __device__ unsigned operator()(unsigned x) const {
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(x) : "l"(word + x) : "memory");
    return x;
  }
};
struct Atomic {
  unsigned* word;
  __device__ unsigned first(unsigned) const { return 0; }
  __device__ unsigned operator()(unsigned x) const {
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(x) : "l"(word + (x >> 31)) : "memory");
    return x;
  }
};
struct Fence {
  __device__ unsigned first(unsigned) const { return 0; }
  __device__ unsigned operator()(unsigned x) const {
    asm volatile("fence.acq_rel.sys;" ::: "memory");
    return x;
  }
};
struct Store {
  unsigned* word;
  __device__ unsigned first(unsigned) const { return 0; }
  __device__ unsigned operator()(unsigned x) const {
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(word + x), "r"(x) : "memory");
    return x + 1;
  }
};

// Each CTA leaves the cycles that `rounds` links took its first thread; `rounds` is a multiple of kBurst.
template <class Link>
__global__ void __launch_bounds__(1024) chain(Link link, int rounds, long long* out) {
  __shared__ unsigned own[1024];
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(&own[threadIdx.x]));
  own[threadIdx.x] = address;
  __syncthreads();
  unsigned x = link.first(address);
  const long long begin = cycles();
  for (int i = 0; i < rounds; i += kBurst) {
#pragma unroll
    for (int j = 0; j < kBurst; ++j) x = link(x);
  }
  if (x == 0xfffffffeu) return;  // never: it makes the clock below wait for the last link
  const long long end = cycles();
  if (threadIdx.x == 0) out[blockIdx.x] = end - begin;
}

// ns of one link, the mean over the CTAs; the first of the launches counts for nothing.
template <class Link>
Samples links(Link link, int rounds, int ctas, int threads, double ns_per_cycle) {
  Memory<long long> out(static_cast<std::size_t>(ctas));
  Samples samples;
  for (int i = 0; i <= kCoreRepeats; ++i) {
    chain<<<ctas, threads>>>(link, rounds, out.data());
    finish("chain of links");
    double sum = 0;
    for (long long one : out.copy()) sum += static_cast<double>(one);
    if (i > 0) samples.push_back(sum / ctas / rounds * ns_per_cycle);
  }
  return samples;
}

// Adds columns of 512 bytes: each lane unpacks 8 BF16 values of a vector and adds them in FP32.
__global__ void __launch_bounds__(1024) add_columns(unsigned rounds, long long* out) {
  float sum[8] = {};
  unsigned v[4] = {threadIdx.x << 7, threadIdx.x << 8, threadIdx.x << 9, threadIdx.x << 10};
  __syncthreads();
  const long long begin = cycles();
#pragma unroll 4
  for (unsigned i = 0; i < rounds; ++i) {  // each unpacking is one instruction, which `i` keeps in the loop
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      sum[2 * w] += __uint_as_float((v[w] << 16) + i);
      sum[2 * w + 1] += __uint_as_float((v[w] & 0xffff0000u) ^ i);
    }
  }
  float total = 0;
#pragma unroll
  for (int w = 0; w < 8; ++w) total += sum[w];
  if (total == 1.25f) return;  // never: it makes the barrier wait for the sums
  __syncthreads();
  if (threadIdx.x == 0) out[0] = cycles() - begin;
}
inline Samples additions(int warps, double ns_per_cycle) {
  Memory<long long> out(1);
  Samples samples;
  for (int i = 0; i <= kCoreRepeats; ++i) {
    add_columns<<<1, 32 * warps>>>(kRounds, out.data());
    finish("additions");
    if (i > 0) samples.push_back(static_cast<double>(out.copy()[0]) / kRounds * ns_per_cycle);
  }
  return samples;
}

inline void probe_core() {
  const double cycle = cycle_ns("core");
  Memory<unsigned> words(1024);
  for (int warps : {4, 8, 16, 32})
    attempt("cta_barrier", [&] { emit({"cta_barrier", "warps", warps}, "ns", links(CtaBarrier{}, kRounds, 1, 32 * warps, cycle)); });
  attempt("syncwarp", [&] { emit({"syncwarp", "warp"}, "ns", links(WarpBarrier{}, kRounds, 1, 32, cycle)); });
  attempt("shuffle", [&] { emit({"shuffle", "warp"}, "ns", links(Shuffle{}, kRounds, 1, 32, cycle)); });
  attempt("shared", [&] { emit({"shared", "load"}, "ns", links(SharedLoad{}, kRounds, 1, 32, cycle)); });
  attempt("word", [&] { emit({"word", "acquire"}, "ns", links(AcquireLoad{words.data()}, kRounds, 1, 1, cycle)); });
  attempt("word", [&] { emit({"word", "relaxed"}, "ns", links(RelaxedLoad{words.data()}, kRounds, 1, 1, cycle)); });
  attempt("fence", [&] { emit({"fence", "alone"}, "ns", links(Fence{}, kRounds, 1, 1, cycle)); });
  attempt("store", [&] { emit({"store", "burst"}, "ns", links(Store{words.data()}, kBurst, 1, 1, cycle)); });
  for (int ctas : {1, 24, 132})
    attempt("atomic", [&] { emit({"atomic", "one_word", ctas}, "ns", links(Atomic{words.data() + 512}, kAtomicRounds, ctas, 1, cycle)); });
  for (int warps : {8, 32}) attempt("accumulate", [&] { emit({"accumulate", "warps", warps}, "ns", additions(warps, cycle)); });
}

}  // namespace probes
