// Between two GPUs of one host: a flag there and back, a release behind stores, and rates of stores and bulk copies.
#pragma once
#include "probing.cuh"

namespace probes {

constexpr int kLinkRepeats = 7, kFlagRepeats = 11, kFlags = 1000, kReleases = 64, kPushWarps = 16, kLongest = 4096;
constexpr std::size_t kPushBytes = 256ull << 20;

// ---- flags
template <bool kOrdered>
__device__ inline void raise_flag(unsigned* flag, unsigned value) {
  if constexpr (kOrdered)
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
  else
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}
// False when the flag did not come.
template <bool kOrdered>
__device__ inline bool await_flag(const unsigned* flag, unsigned value) {
  for (unsigned polls = 0; polls < kMostPolls; ++polls) {
    unsigned seen;
    if constexpr (kOrdered)
      asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
    else
      asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
    if (seen == value) return true;
  }
  return false;
}
// One thread on either side; they meet first. The one that serves leaves what `flags` round trips took. mine[32] tells that it gave up.
template <bool kOrdered>
__global__ void rally(unsigned* mine, unsigned* theirs, bool serves, unsigned flags, std::uint64_t* out) {
  raise_flag<false>(theirs + 64, 1);
  const bool met = await_flag<false>(mine + 64, 1);
  const std::uint64_t begin = global_ns();
  bool came = met;
  for (unsigned i = 1; i <= flags && came; ++i) {
    if (serves) raise_flag<kOrdered>(theirs, i);
    came = await_flag<kOrdered>(mine, i);
    if (came && !serves) raise_flag<kOrdered>(theirs, i);
  }
  *out = global_ns() - begin;
  if (!came) mine[32] = 1;
}
// A flag word a side, in memory of the device it belongs to; both devices may be the same.
struct Side {
  explicit Side(int on) : device(on) {
    check(cudaSetDevice(on), "device");
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    check(cudaMalloc(reinterpret_cast<void**>(&flags), 4096), "memory");
    check(cudaMalloc(reinterpret_cast<void**>(&out), 64), "memory");
  }
  ~Side() {
    cudaSetDevice(device);
    cudaFree(flags);
    cudaFree(out);
    cudaStreamDestroy(stream);
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  void clear() const {
    check(cudaSetDevice(device), "device");
    check(cudaMemset(flags, 0, 4096), "memory set to zero");
    check(cudaDeviceSynchronize(), "memory set to zero");
  }
  void finish_flags() const {
    unsigned gave_up = 0;
    check(cudaSetDevice(device), "device");
    check(cudaStreamSynchronize(stream), "flags");
    check(cudaMemcpy(&gave_up, flags + 32, 4, cudaMemcpyDeviceToHost), "flags");
    if (gave_up != 0) throw std::runtime_error("a flag did not come");
  }
  int device;
  cudaStream_t stream = nullptr;
  unsigned* flags = nullptr;
  std::uint64_t* out = nullptr;
};
template <bool kOrdered>
void start_rally(const Side& mine, const Side& theirs, bool serves) {
  check(cudaSetDevice(mine.device), "device");
  rally<kOrdered><<<1, 1, 0, mine.stream>>>(mine.flags, theirs.flags, serves, kFlags, mine.out);
  check(cudaGetLastError(), "flags");
}
// One way, in ns: half a round trip.
template <bool kOrdered>
void probe_flag(const char* probe, const char* variant, int other) {
  Side near(0), far(other);
  Samples samples;
  for (int i = 0; i <= kFlagRepeats; ++i) {
    near.clear();
    far.clear();
    start_rally<kOrdered>(far, near, false);
    start_rally<kOrdered>(near, far, true);
    near.finish_flags();
    far.finish_flags();
    std::uint64_t ns = 0;
    check(cudaSetDevice(0), "device");
    check(cudaMemcpy(&ns, near.out, sizeof(ns), cudaMemcpyDeviceToHost), "flags");
    if (i > 0) samples.push_back(static_cast<double>(ns) / kFlags / 2);
  }
  emit({probe, variant}, "ns", samples);
}

// ---- a releasing add behind `rows` rows of 512 bytes that the warp stored there: the cycles that its lane 0 takes for the add
__global__ void release_add(uint4* there, unsigned* counter, int rows, long long* out) {
  long long sum = 0;
  for (int round = 0; round < kReleases; ++round) {
    for (int k = 0; k < rows; ++k) there[(round * rows + k) * 32 + threadIdx.x] = uint4{1, 2, 3, 4};
    __syncwarp();
    const long long begin = cycles();
    if (threadIdx.x == 0) asm volatile("red.release.sys.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
    __syncwarp();
    sum += cycles() - begin;
  }
  if (threadIdx.x == 0) out[0] = sum;
}
inline void probe_release(int rows, double cycle) {
  check(cudaSetDevice(1), "device");
  Memory<uint4> there(static_cast<std::size_t>(kReleases) * 32 * 8);
  Memory<unsigned> counter(32);
  check(cudaDeviceSynchronize(), "memory");
  check(cudaSetDevice(0), "device");
  Memory<long long> out(1);
  Samples samples;
  for (int i = 0; i <= kFlagRepeats; ++i) {
    release_add<<<1, 32>>>(there.data(), counter.data(), rows, out.data());
    finish("releasing add");
    if (i > 0) samples.push_back(static_cast<double>(out.copy()[0]) / kReleases * cycle);
  }
  emit({"release_add", "rows", 1, 512 * rows}, "ns", samples);
}

// ---- rates: what is sent comes from registers or shared memory, so that the link alone bounds them
__global__ void __launch_bounds__(1024) push_stores(uint4* there, std::size_t vectors) {
  const std::size_t step = gridDim.x * 1024ull;
  for (std::size_t i = blockIdx.x * 1024ull + threadIdx.x; i < vectors; i += step) there[i] = uint4{1, 2, 3, 4};
}
__global__ void __launch_bounds__(32 * kPushWarps) push_bulk(char* there, std::size_t messages, int bytes) {
  __shared__ __align__(128) unsigned own[kLongest / 4];  // every warp sends the same bytes
  for (unsigned i = threadIdx.x; i < kLongest / 4; i += 32 * kPushWarps) own[i] = i;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x % 32 != 0) return;
  const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(own));
  for (std::size_t m = blockIdx.x * static_cast<std::size_t>(kPushWarps) + threadIdx.x / 32; m < messages; m += static_cast<std::size_t>(gridDim.x) * kPushWarps) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(there + m * static_cast<std::size_t>(bytes)), "r"(from), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group.read 3;" ::: "memory");
  }
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
struct Push {
  const char* variant;
  bool bulk;
  int bytes;
  double total() const { return static_cast<double>(kPushBytes / static_cast<std::size_t>(bytes) * static_cast<std::size_t>(bytes)); }
  void start(char* there, int ctas) const {
    if (bulk)
      push_bulk<<<ctas, 32 * kPushWarps>>>(there, kPushBytes / static_cast<std::size_t>(bytes), bytes);
    else
      push_stores<<<ctas, 1024>>>(reinterpret_cast<uint4*>(there), kPushBytes / sizeof(uint4));
    check(cudaGetLastError(), "push");
  }
};
inline void probe_push(const Push& push, char* there, int ctas) {
  check(cudaSetDevice(0), "device");
  emit({"push", push.variant, ctas, push.bytes}, "GB/s", rates(timed(kLinkRepeats, "push", [&] { push.start(there, ctas); }), push.total()));
}
// Both GPUs at once: the rate of the slower of the two.
inline void probe_exchange(const Push& push, char* first, char* second, int ctas) {
  check(cudaSetDevice(0), "device");
  Stopwatch own;
  check(cudaSetDevice(1), "device");
  Stopwatch other;
  Samples samples;
  for (int i = 0; i <= kLinkRepeats; ++i) {
    other.start();
    push.start(first, ctas);
    other.stop();
    check(cudaSetDevice(0), "device");
    own.start();
    push.start(second, ctas);
    own.stop();
    const double ns = own.ns();
    check(cudaSetDevice(1), "device");
    const double slower = std::max(ns, other.ns());
    if (i > 0) samples.push_back(push.total() / slower);
  }
  emit({"push_both_ways", push.variant, ctas, push.bytes}, "GB/s", samples);
}

inline void reach(int from, int to) {
  int can = 0;
  check(cudaDeviceCanAccessPeer(&can, from, to), "peer access");
  if (can == 0) throw std::runtime_error("the GPUs do not reach each other's memory");
  check(cudaSetDevice(from), "device");
  check(cudaDeviceEnablePeerAccess(to, 0), "peer access");
}
inline void probe_link(int gpus) {
  attempt("flag_local", [&] { probe_flag<false>("flag_local", "relaxed", 0); });
  if (gpus < 2) throw std::runtime_error("this machine shows one GPU, and a link needs two");
  reach(0, 1);
  reach(1, 0);
  check(cudaSetDevice(0), "device");
  const double cycle = cycle_ns("link");
  attempt("flag", [&] { probe_flag<false>("flag", "relaxed", 1); });
  attempt("flag", [&] { probe_flag<true>("flag", "ordered", 1); });
  for (int rows : {0, 8}) attempt("release_add", [&] { probe_release(rows, cycle); });
  check(cudaSetDevice(0), "device");
  Memory<char> first(kPushBytes);
  check(cudaSetDevice(1), "device");
  Memory<char> second(kPushBytes);
  check(cudaDeviceSynchronize(), "memory");
  for (const Push& push : {Push{"stores", false, 512}, Push{"bulk", true, kLongest}, Push{"bulk", true, 512}}) {
    for (int ctas : {1, 2, 4, 8, 16, 24, 64, 132}) attempt("push", [&] { probe_push(push, second.data(), ctas); });
    for (int ctas : {24, 132}) attempt("push_both_ways", [&] { probe_exchange(push, first.data(), second.data(), ctas); });
  }
}

}  // namespace probes
