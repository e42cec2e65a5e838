// Memory of one GPU: latencies by chains of dependent loads, rates of an SM's loads and of the whole device, bulk loads.
#pragma once
#include <random>

#include "probing.cuh"

namespace probes {

constexpr int kMemoryRepeats = 7, kHops = 8192, kWordsPerLine = 32, kRowBytes = 4096, kRowsPerToken = 8;
constexpr int kTokenBytes = kRowBytes * kRowsPerToken;
constexpr std::size_t kResidentBytes = 16ull << 20, kAwayBytes = 512ull << 20, kChaseBytes = 256ull << 20;
constexpr int kBulkWarps = 24, kBulkStages = 2, kIssued = 8, kBulkRounds = 64;

// ---- latency: each line that is visited holds the place of the next one
__global__ void lay_chain(unsigned* words, const unsigned* lines, int hops) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < hops) words[static_cast<std::size_t>(lines[i]) * kWordsPerLine] = lines[(i + 1) % hops];
}
// One thread; out[i] = cycles of hop i. A hop counts the reading of the clock too, a cost that the last word tells.
__global__ void chase(const unsigned* words, unsigned first, int hops, unsigned* out) {
  unsigned line = first;
  for (int i = 0; i < hops; ++i) {
    const long long begin = cycles();
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(line) : "l"(words + static_cast<std::size_t>(line) * kWordsPerLine) : "memory");
    if (line == ~0u) return;  // never: it makes the clock below wait for the load
    out[i] = static_cast<unsigned>(cycles() - begin);
  }
  const long long begin = cycles();
  out[hops] = static_cast<unsigned>(cycles() - begin);
}
__global__ void sweep(uint4* data, std::size_t vectors) {
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < vectors; i += static_cast<std::size_t>(gridDim.x) * blockDim.x)
    data[i].x += 1;
}
// kHops different lines of `bytes` of memory, in random order, the same in every run.
inline std::vector<unsigned> random_lines(std::size_t bytes) {
  std::vector<unsigned> lines(bytes / (4 * kWordsPerLine));
  for (std::size_t i = 0; i < lines.size(); ++i) lines[i] = static_cast<unsigned>(i);
  std::mt19937 random(7);
  for (std::size_t i = 0; i < kHops; ++i) std::swap(lines[i], lines[i + random() % (lines.size() - i)]);
  lines.resize(kHops);
  return lines;
}
inline void probe_latency(const char* low_name, const char* mean_name, std::size_t bytes, bool away, double cycle) {
  Memory<unsigned> words(bytes / 4), order(kHops), out(kHops + 1);
  Memory<uint4> others(away ? kChaseBytes / sizeof(uint4) : 1);
  const auto lines = random_lines(bytes);
  check(cudaMemcpy(order.data(), lines.data(), order.bytes(), cudaMemcpyHostToDevice), "copy to the device");
  lay_chain<<<(kHops + 255) / 256, 256>>>(words.data(), order.data(), kHops);
  Samples low, mean;
  for (int i = 0; i <= kMemoryRepeats; ++i) {
    sweep<<<264, 1024>>>(others.data(), others.bytes() / sizeof(uint4));  // takes the lines out of L2
    chase<<<1, 1>>>(words.data(), lines[0], kHops, out.data());
    finish("chain of loads");
    auto hops = out.copy();
    const double reading = hops.back();
    hops.pop_back();
    double sum = 0;
    for (unsigned hop : hops) sum += hop;
    std::nth_element(hops.begin(), hops.begin() + kHops / 10, hops.end());
    if (i == 0) continue;  // brings what stays resident into L2
    low.push_back((hops[kHops / 10] - reading) * cycle);
    mean.push_back((sum / kHops - reading) * cycle);
  }
  emit({"latency", low_name}, "ns", low);
  emit({"latency", mean_name}, "ns", mean);
}

// ---- loads of rows: a warp has a 512-byte column of all rows of a token in flight, as the reduction has
__device__ inline uint4 load_once(const char* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
  return v;
}
// A kernel for each: a preference for L1 holds for all launches of a kernel.
enum class Shared { kNone, kAll };
template <Shared taken>
__global__ void __launch_bounds__(1024, 1) load_columns(const char* data, unsigned tokens_there, unsigned first, unsigned columns, unsigned* sink) {
  const unsigned warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = gridDim.x * blockDim.x / 32, lane = threadIdx.x % 32;
  constexpr unsigned kColumns = kRowBytes / 512;
  unsigned mixed = 0;
  for (unsigned i = warp; i < columns; i += warps) {
    const char* column = data + static_cast<std::size_t>((first + i / kColumns) % tokens_there) * kTokenBytes + i % kColumns * 512 + lane * 16;
    uint4 row[kRowsPerToken];
    // The last row is used first, so that all of them are on their way by then.
#pragma unroll
    for (int k = 0; k < kRowsPerToken; ++k) row[k] = load_once(column + k * kRowBytes);
#pragma unroll
    for (int k = kRowsPerToken - 1; k >= 0; --k) mixed = (mixed + row[k].x) ^ (row[k].y + row[k].z) ^ row[k].w;
  }
  if (mixed == 0x9e3779b9u) sink[lane] = mixed;  // never
}
// Bytes moved in one launch: enough for about a millisecond.
inline std::size_t moved_bytes(int ctas) { return ctas < 24 ? static_cast<std::size_t>(ctas) * (64ull << 20) : 4 * kAwayBytes; }
// Bytes of shared memory to launch with. Loads in flight need room in L1, which has what shared memory leaves.
template <Shared taken>
int taken_bytes() {
  int most = 0;
  if constexpr (taken == Shared::kNone) {
    check(cudaFuncSetAttribute(load_columns<taken>, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxL1), "most L1");
  } else {
    check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0), "shared memory");
    check(cudaFuncSetAttribute(load_columns<taken>, cudaFuncAttributeMaxDynamicSharedMemorySize, most), "shared memory");
  }
  return most;
}
template <Shared taken>
void probe_loads(const char* variant, const Memory<char>& data, std::size_t bytes, int ctas, bool each_sm) {
  Memory<unsigned> sink(32);
  const int shared = taken_bytes<taken>();
  const std::size_t moved = moved_bytes(ctas);
  const auto tokens = static_cast<unsigned>(bytes / kTokenBytes), columns = static_cast<unsigned>(moved / (512 * kRowsPerToken));
  unsigned first = 0;  // each launch goes on where the one before it ended
  const auto ns = timed(kMemoryRepeats, "loads", [&] {
    load_columns<taken><<<ctas, 1024, shared>>>(data.data(), tokens, first, columns, sink.data());
    first = (first + static_cast<unsigned>(moved / kTokenBytes)) % tokens;
  });
  emit({each_sm ? "sm_load" : "device", variant, ctas, 512}, "GB/s", rates(ns, static_cast<double>(moved) / (each_sm ? ctas : 1)));
}
__global__ void __launch_bounds__(1024) write_all(uint4* to, std::size_t vectors) {
  for (std::size_t i = blockIdx.x * 1024ull + threadIdx.x; i < vectors; i += gridDim.x * 1024ull) to[i] = uint4{1, 2, 3, 4};
}
__global__ void __launch_bounds__(1024, 1) copy_all(uint4* to, const uint4* from, std::size_t vectors) {
  const std::size_t step = gridDim.x * 1024ull;
  for (std::size_t i = blockIdx.x * 1024ull + threadIdx.x; i + 3 * step < vectors; i += 4 * step) {
    uint4 v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) v[k] = from[i + k * step];
#pragma unroll
    for (int k = 0; k < 4; ++k) to[i + k * step] = v[k];
  }
}
inline void probe_device(const Memory<char>& data) {
  Memory<uint4> other(kAwayBytes / sizeof(uint4));
  const std::size_t vectors = kAwayBytes / sizeof(uint4);
  const auto written = timed(kMemoryRepeats, "writes", [&] { write_all<<<264, 1024>>>(other.data(), vectors); });
  emit({"device", "hbm_write", 264}, "GB/s", rates(written, static_cast<double>(kAwayBytes)));
  const auto* from = reinterpret_cast<const uint4*>(data.data());
  const auto copied = timed(kMemoryRepeats, "copies", [&] { copy_all<<<264, 1024>>>(other.data(), from, vectors); });
  emit({"device", "hbm_copy", 264}, "GB/s", rates(copied, 2.0 * static_cast<double>(vectors / (4 * 264 * 1024) * (4 * 264 * 1024) * sizeof(uint4))));
}

// ---- bulk loads into shared memory
__device__ inline unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }
__device__ inline void bulk_load(void* to, const char* from, unsigned bytes, std::uint64_t* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)), "l"(from),
               "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}
__device__ inline void expect_bytes(std::uint64_t* barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}
__device__ inline void make_barrier(std::uint64_t* barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// False when the bytes did not come.
__device__ inline bool wait_bytes(std::uint64_t* barrier, unsigned parity) {
  for (unsigned polls = 0; polls < kMostPolls; ++polls) {
    unsigned done;
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(shared_address(barrier)), "r"(parity)
                 : "memory");
    if (done != 0) return true;
  }
  return false;
}
// Each warp has kBulkStages rows on their way.
__global__ void __launch_bounds__(32 * kBulkWarps) bulk_rows(const char* data, unsigned rows_there, unsigned first, unsigned rows, unsigned bytes, unsigned* gave_up) {
  extern __shared__ __align__(128) char buffers[];
  __shared__ std::uint64_t barriers[kBulkWarps * kBulkStages];
  if (threadIdx.x % 32 != 0) return;
  const unsigned own = threadIdx.x / 32, step = gridDim.x * kBulkWarps;
  for (int k = 0; k < kBulkStages; ++k) make_barrier(&barriers[own * kBulkStages + k]);
  unsigned n = 0;
  bool came = true;
  for (unsigned r = blockIdx.x * kBulkWarps + own; r < rows && came; r += step, ++n) {
    const unsigned place = own * kBulkStages + n % kBulkStages;
    if (n >= kBulkStages) came = wait_bytes(&barriers[place], (n / kBulkStages - 1) % 2);
    expect_bytes(&barriers[place], bytes);
    bulk_load(buffers + place * bytes, data + static_cast<std::size_t>((first + r) % rows_there) * bytes, bytes, &barriers[place]);
  }
  for (unsigned m = n < kBulkStages ? 0 : n - kBulkStages; m < n && came; ++m)
    came = wait_bytes(&barriers[own * kBulkStages + m % kBulkStages], m / kBulkStages % 2);
  if (!came) *gave_up = 1;
}
inline void probe_bulk_rate(const char* variant, const Memory<char>& data, std::size_t bytes, int ctas) {
  Memory<unsigned> gave_up(1);
  const int shared = kBulkWarps * kBulkStages * kRowBytes;
  check(cudaFuncSetAttribute(bulk_rows, cudaFuncAttributeMaxDynamicSharedMemorySize, shared), "shared memory");
  const std::size_t moved = moved_bytes(ctas) / 2;
  const auto there = static_cast<unsigned>(bytes / kRowBytes), rows = static_cast<unsigned>(moved / kRowBytes);
  unsigned first = 0;
  const auto ns = timed(kMemoryRepeats, "bulk loads", [&] {
    bulk_rows<<<ctas, 32 * kBulkWarps, shared>>>(data.data(), there, first, rows, kRowBytes, gave_up.data());
    first = (first + rows) % there;
  });
  expect_done(gave_up, "bulk loads");
  emit({"sm_bulk", variant, ctas, kRowBytes}, "GB/s", rates(ns, static_cast<double>(moved) / ctas));
}
// One thread: out[0] = cycles of issuing kIssued loads one after the other, out[1] = of one load until it is seen, out[2] = of reading the clock.
__global__ void bulk_once(const char* data, unsigned bytes, long long* out, unsigned* gave_up) {
  __shared__ __align__(128) char buffers[kIssued * 512];
  __shared__ std::uint64_t barrier;
  make_barrier(&barrier);
  unsigned phase = 0;
  long long issuing = 0, whole = 0;
  for (int round = -2; round < kBulkRounds; ++round) {
    expect_bytes(&barrier, kIssued * bytes);
    const long long begin = cycles();
    for (int k = 0; k < kIssued; ++k) bulk_load(buffers + k * 512, data + k * 512, bytes, &barrier);
    const long long issued = cycles() - begin;
    bool came = wait_bytes(&barrier, phase++ % 2);
    expect_bytes(&barrier, bytes);
    const long long alone = cycles();
    bulk_load(buffers, data, bytes, &barrier);
    came = came && wait_bytes(&barrier, phase++ % 2);
    const long long seen = cycles() - alone;
    if (!came) {
      *gave_up = 1;
      return;
    }
    if (round >= 0) issuing += issued, whole += seen;
  }
  const long long begin = cycles();
  out[2] = cycles() - begin;
  out[0] = issuing;
  out[1] = whole;
}
inline void probe_bulk_once(const Memory<char>& data, double cycle) {
  Memory<unsigned> gave_up(1);
  Memory<long long> out(3);
  Samples issue, whole;
  for (int i = 0; i <= kMemoryRepeats; ++i) {
    bulk_once<<<1, 1>>>(data.data(), 512, out.data(), gave_up.data());
    finish("bulk loads");
    expect_done(gave_up, "bulk loads");
    const auto seen = out.copy();
    const auto reading = static_cast<double>(seen[2]);
    if (i == 0) continue;
    issue.push_back((static_cast<double>(seen[0]) / kBulkRounds - reading) / kIssued * cycle);
    whole.push_back((static_cast<double>(seen[1]) / kBulkRounds - reading) * cycle);
  }
  emit({"bulk_once", "issue", 1, 512}, "ns", issue);
  emit({"bulk_once", "whole", 1, 512}, "ns", whole);
}

inline void probe_memory() {
  const double cycle = cycle_ns("memory");
  attempt("latency", [&] { probe_latency("l2_low", "l2_mean", kResidentBytes, false, cycle); });
  attempt("latency", [&] { probe_latency("hbm_low", "hbm_mean", kChaseBytes, true, cycle); });
  Memory<char> data(kAwayBytes);
  for (int ctas : {1, 8, 24, 64, 132}) {
    attempt("sm_load", [&] { probe_loads<Shared::kNone>("l2", data, kResidentBytes, ctas, true); });
    attempt("sm_load", [&] { probe_loads<Shared::kNone>("hbm", data, kAwayBytes, ctas, true); });
    attempt("sm_load", [&] { probe_loads<Shared::kAll>("l2_full_shared", data, kResidentBytes, ctas, true); });
    attempt("sm_load", [&] { probe_loads<Shared::kAll>("hbm_full_shared", data, kAwayBytes, ctas, true); });
    attempt("sm_bulk", [&] { probe_bulk_rate("l2", data, kResidentBytes, ctas); });
    attempt("sm_bulk", [&] { probe_bulk_rate("hbm", data, kAwayBytes, ctas); });
  }
  attempt("device", [&] { probe_loads<Shared::kNone>("l2_read", data, kResidentBytes, 264, false); });
  attempt("device", [&] { probe_loads<Shared::kNone>("hbm_read", data, kAwayBytes, 264, false); });
  attempt("device", [&] { probe_device(data); });
  attempt("bulk_once", [&] { probe_bulk_once(data, cycle); });
}

}  // namespace probes
