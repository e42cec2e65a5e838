// Runs the probe of every primitive on the first GPU. Exit code 0: each did what it must do; otherwise says which did not.
//   nvcc -std=c++20 -O3 -gencode=arch=compute_90a,code=sm_90a tests/cuda/run_primitives.cu -o run_primitives && ./run_primitives
#include <cstdio>
#include <cstdlib>

#include "primitives.cu"

namespace {

void require(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::printf("%s: expected to succeed on a GPU of compute capability 9.0, failed: %s\n", what, cudaGetErrorString(status));
  std::exit(4);
}

template <class T>
T* zeroed(int count) {
  void* memory = nullptr;
  require(cudaMalloc(&memory, count * sizeof(T)), "cudaMalloc");
  require(cudaMemset(memory, 0, count * sizeof(T)), "cudaMemset");
  return static_cast<T*>(memory);
}

constexpr const char* kNames[primitives::kNumExpectations] = {"identity",     "lane sections", "collectives", "numbers",
                                                              "shared memory", "own memory",    "peers",       "waits",
                                                              "aborts",        "time-outs",     "bulk copies", "grid barrier",
                                                              "atomics",       "waits for any", "rows"};

}  // namespace

int main() {
  const prim::Vec16 numbers{{1, 2, 3, 4}};
  auto* given = zeroed<prim::Vec16>(1);
  require(cudaMemcpy(given, &numbers, sizeof(numbers), cudaMemcpyHostToDevice), "cudaMemcpy");
  primitives::Probe probe{zeroed<int>(primitives::kNumExpectations), zeroed<std::int64_t>(2 * 64), zeroed<std::uint64_t>(1),
                          zeroed<char>(4 * primitives::kBulkBytes), given, zeroed<prim::Vec16>(2 * primitives::kRowVectors)};
  void* arguments[] = {&probe};
  const auto* kernel = reinterpret_cast<const void*>(&primitives::probe);
  require(cudaLaunchCooperativeKernel(kernel, dim3(2), dim3(32 * primitives::kWarps), arguments, 4096, nullptr), "launch");
  require(cudaDeviceSynchronize(), "probe");
  int failed[primitives::kNumExpectations];
  require(cudaMemcpy(failed, probe.failed, sizeof(failed), cudaMemcpyDeviceToHost), "cudaMemcpy");
  int bad = 0;
  for (int i = 0; i < primitives::kNumExpectations; ++i) {
    if (failed[i] != 0) std::printf("%s: expected every check to hold, %d did not\n", kNames[i], failed[i]);
    bad += failed[i] != 0;
  }
  return bad != 0;
}
