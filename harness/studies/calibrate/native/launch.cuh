// Between kernels: periods of graphs of empty kernels, CTA after CTA on one SM, the programmatic edge, and the grid barrier.
#pragma once
#include <cooperative_groups.h>

#include <map>

#include "probing.cuh"

namespace probes {

constexpr int kLaunchRepeats = 15, kKernels = 100, kPairs = 20, kGridSyncs = 200, kEdgeCtas = 24;
constexpr std::uint64_t kBusyNs = 10000;  // a predecessor stays so long behind its trigger

enum class Edge { kPlain, kCooperative, kProgrammatic };

__global__ void __launch_bounds__(1024) empty_kernel() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
__device__ inline void stay_busy(std::uint64_t ns) {
  const std::uint64_t begin = global_ns();
  for (unsigned i = 0; i < (1u << 20) && global_ns() - begin < ns; ++i) {
  }
}
// Out of each CTA: its SM, when its first thread began, and when it was about to end.
__global__ void __launch_bounds__(1024) stamp_ctas(std::uint64_t* out) {
  const std::uint64_t began = global_ns();
  if (threadIdx.x == 0) stay_busy(kBusyNs / 4);
  __syncthreads();
  if (threadIdx.x != 0) return;
  unsigned sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  out[3 * blockIdx.x] = sm;
  out[3 * blockIdx.x + 1] = began;
  out[3 * blockIdx.x + 2] = global_ns();
}
// Out of each CTA: when it triggered its dependents, and when it was about to end.
__global__ void __launch_bounds__(1024) trigger_early(std::uint64_t* out) {
  __syncthreads();
  if (threadIdx.x == 0) out[2 * blockIdx.x] = global_ns();
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  if (threadIdx.x == 0) stay_busy(kBusyNs);
  __syncthreads();
  if (threadIdx.x == 0) out[2 * blockIdx.x + 1] = global_ns();
}
// Out of each CTA: when it began, and when its wait for the predecessor was over.
__global__ void __launch_bounds__(1024) follow(std::uint64_t* out) {
  const std::uint64_t began = global_ns();
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const std::uint64_t released = global_ns();
  if (threadIdx.x != 0) return;
  out[2 * blockIdx.x] = began;
  out[2 * blockIdx.x + 1] = released;
}
__global__ void __launch_bounds__(1024) sync_grid(int rounds, long long* out) {
  const auto grid = cooperative_groups::this_grid();
  grid.sync();
  const long long begin = cycles();
  for (int i = 0; i < rounds; ++i) grid.sync();
  if (blockIdx.x == 0 && threadIdx.x == 0) out[0] = cycles() - begin;
}

template <class... Parameters, class... Arguments>
void launch(cudaStream_t stream, Edge edge, int ctas, int shared, void (*kernel)(Parameters...), Arguments... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = edge == Edge::kCooperative ? cudaLaunchAttributeCooperative : cudaLaunchAttributeProgrammaticStreamSerialization;
  if (edge == Edge::kCooperative) attribute.val.cooperative = 1;
  if (edge == Edge::kProgrammatic) attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(ctas));
  config.blockDim = dim3(1024);
  config.dynamicSmemBytes = static_cast<std::size_t>(shared);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = edge == Edge::kPlain ? 0 : 1;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), "launch");
}

// What is captured once and replayed.
class Graph {
 public:
  template <class Enqueue>
  explicit Graph(Enqueue&& enqueue) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
    enqueue(stream_);
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream_, &graph), "capture");
    const cudaError_t made = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    check(made, "graph");
  }
  ~Graph() {
    cudaGraphExecDestroy(executable_);
    cudaStreamDestroy(stream_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  double replay_ns() {
    watch_.start(stream_);
    check(cudaGraphLaunch(executable_, stream_), "graph");
    watch_.stop(stream_);
    return watch_.ns();
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
  Stopwatch watch_;
};

// ns from kernel to kernel: the difference of a long and a short graph, so that what a replay costs drops out.
inline void probe_period(const char* variant, Edge edge, int ctas, int shared) {
  check(cudaFuncSetAttribute(empty_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared), "shared memory");
  const auto enqueue = [&](int kernels) {
    return [=](cudaStream_t stream) {
      for (int i = 0; i < kernels; ++i) launch(stream, edge, ctas, shared, empty_kernel);
    };
  };
  Graph brief(enqueue(kKernels)), longer(enqueue(3 * kKernels));
  Samples samples;
  for (int i = 0; i <= kLaunchRepeats; ++i) {
    const double less = brief.replay_ns(), more = longer.replay_ns();
    if (i > 0) samples.push_back((more - less) / (2 * kKernels));
  }
  emit({"graph_period", variant, ctas}, "ns", samples);
}

// ns from one stamp to another, which may be the earlier one.
inline double since(std::uint64_t origin, std::uint64_t stamp) { return static_cast<double>(static_cast<std::int64_t>(stamp - origin)); }

// ns from the end of one CTA to the start of the next on the same SM, which its shared memory kept out until then.
inline void probe_waves(int sms, int shared) {
  check(cudaFuncSetAttribute(stamp_ctas, cudaFuncAttributeMaxDynamicSharedMemorySize, shared), "shared memory");
  const int ctas = 2 * sms;
  Memory<std::uint64_t> out(3 * static_cast<std::size_t>(ctas));
  Samples samples;
  for (int i = 0; i <= kLaunchRepeats; ++i) {
    stamp_ctas<<<ctas, 1024, shared>>>(out.data());
    finish("CTAs in two waves");
    const auto seen = out.copy();
    std::map<std::uint64_t, std::vector<std::pair<double, double>>> by_sm;
    for (std::size_t c = 0; c < static_cast<std::size_t>(ctas); ++c)
      by_sm[seen[3 * c]].emplace_back(since(seen[1], seen[3 * c + 1]), since(seen[1], seen[3 * c + 2]));
    double sum = 0;
    int gaps = 0;
    for (auto& [sm, stays] : by_sm) {
      std::sort(stays.begin(), stays.end());
      for (std::size_t k = 1; k < stays.size(); ++k, ++gaps) sum += stays[k].first - stays[k - 1].second;
    }
    if (gaps == 0) throw std::runtime_error("no SM ran two CTAs");
    if (i > 0) samples.push_back(sum / gaps);
  }
  emit({"cta_turn", "same_sm"}, "ns", samples);
}

// The latest of one kind of stamp (offset) of a pair's CTAs.
inline double latest(const std::vector<std::uint64_t>& stamps, int pair, int offset, std::uint64_t origin) {
  double most = -1e18;
  for (int c = 0; c < kEdgeCtas; ++c)
    most = std::max(most, since(origin, stamps[static_cast<std::size_t>(2 * (pair * kEdgeCtas + c) + offset)]));
  return most;
}
// A kernel that triggers early and its dependent, kPairs times in a graph; a sample is the mean over all pairs but the first.
inline void probe_edge() {
  const std::size_t words = 2 * kPairs * kEdgeCtas;
  Memory<std::uint64_t> before(words), after(words);
  Graph pairs([&](cudaStream_t stream) {
    for (int i = 0; i < kPairs; ++i) {
      launch(stream, Edge::kPlain, kEdgeCtas, 0, trigger_early, before.data() + 2 * i * kEdgeCtas);
      launch(stream, Edge::kProgrammatic, kEdgeCtas, 0, follow, after.data() + 2 * i * kEdgeCtas);
    }
  });
  Samples begins, releases;
  for (int i = 0; i <= kLaunchRepeats; ++i) {
    pairs.replay_ns();
    const auto first = before.copy(), second = after.copy();
    double begin = 0, release = 0;
    for (int p = 1; p < kPairs; ++p) {
      begin += latest(second, p, 0, first[0]) - latest(first, p, 0, first[0]);
      release += latest(second, p, 1, first[0]) - latest(first, p, 1, first[0]);
    }
    if (i == 0) continue;
    begins.push_back(begin / (kPairs - 1));
    releases.push_back(release / (kPairs - 1));
  }
  emit({"programmatic", "trigger_to_begin", kEdgeCtas}, "ns", begins);
  emit({"programmatic", "end_to_release", kEdgeCtas}, "ns", releases);
}
inline void probe_grid_sync(double cycle) {
  Memory<long long> out(1);
  Samples samples;
  for (int i = 0; i <= kLaunchRepeats; ++i) {
    launch(nullptr, Edge::kCooperative, kEdgeCtas, 0, sync_grid, kGridSyncs, out.data());
    finish("grid barrier");
    if (i > 0) samples.push_back(static_cast<double>(out.copy()[0]) / kGridSyncs * cycle);
  }
  emit({"grid_sync", "cooperative", kEdgeCtas}, "ns", samples);
}

inline void probe_launch() {
  const double cycle = cycle_ns("launch", kCoarsestTimerNs);
  int sms = 0, shared = 0;
  check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0), "SMs");
  check(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0), "shared memory");
  for (int ctas : {24, 132}) {
    attempt("graph_period", [&] { probe_period("plain", Edge::kPlain, ctas, shared); });
    attempt("graph_period", [&] { probe_period("cooperative", Edge::kCooperative, ctas, shared); });
    attempt("graph_period", [&] { probe_period("programmatic", Edge::kProgrammatic, ctas, shared); });
  }
  attempt("cta_turn", [&] { probe_waves(sms, shared); });
  attempt("programmatic", [&] { probe_edge(); });
  attempt("grid_sync", [&] { probe_grid_sync(cycle); });
}

}  // namespace probes
