// `probes GROUP`: measures one group of this machine's constants and prints a reading a line, as JSON. The first line describes
// the machine. Exit status 0 where readings or voids were printed, 3 where there is no GPU, 4 for a group that there is none of.
#include <cstdlib>
#include <cstring>

#include "core.cuh"
#include "first_use.cuh"
#include "launch.cuh"
#include "link.cuh"
#include "memory.cuh"

namespace {

int attribute(cudaDeviceAttr which) {
  int value = 0;
  probes::check(cudaDeviceGetAttribute(&value, which, 0), "attribute");
  return value;
}
void describe(int gpus) {
  cudaDeviceProp properties{};
  probes::check(cudaGetDeviceProperties(&properties, 0), "device");
  int driver = 0, runtime = 0;
  probes::check(cudaDriverGetVersion(&driver), "driver");
  probes::check(cudaRuntimeGetVersion(&runtime), "runtime");
  std::printf("{\"device\": \"%s\", \"gpus\": %d, \"cuda_driver\": %d, \"cuda_runtime\": %d, \"most_sm_mhz\": %g, \"memory_mhz\": %g}\n",
              properties.name, gpus, driver, runtime, attribute(cudaDevAttrClockRate) / 1e3, attribute(cudaDevAttrMemoryClockRate) / 1e3);
  std::fflush(stdout);
}
void probe_attributes() {
  using probes::emit;
  emit({"attribute", "sm_count"}, "SMs", {static_cast<double>(attribute(cudaDevAttrMultiProcessorCount))});
  emit({"attribute", "threads_per_sm"}, "threads", {static_cast<double>(attribute(cudaDevAttrMaxThreadsPerMultiProcessor))});
  emit({"attribute", "shared_bytes_per_sm"}, "bytes", {static_cast<double>(attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor))});
  emit({"attribute", "shared_bytes_per_cta"}, "bytes", {static_cast<double>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin))});
}
bool run(const char* group, int gpus) {
  const auto is = [group](const char* name) { return std::strcmp(group, name) == 0; };
  if (is("core"))
    probes::attempt("core", [] { probe_attributes(), probes::probe_core(); });
  else if (is("memory"))
    probes::attempt("memory", probes::probe_memory);
  else if (is("launch"))
    probes::attempt("launch", probes::probe_launch);
  else if (is("first_use"))
    probes::attempt("first_use", probes::probe_first_use);
  else if (is("link"))
    probes::attempt("link", [gpus] { probes::probe_link(gpus); });
  else
    return false;
  return true;
}

}  // namespace

int main(int count, char** words) {
  // Every kernel is there before the first one runs: loading one while another waits for it would end that wait.
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  int gpus = 0;
  const cudaError_t found = cudaGetDeviceCount(&gpus);
  if (found != cudaSuccess || gpus == 0) {
    std::fprintf(stderr, "no GPU: %s\n", cudaGetErrorString(found));
    return 3;
  }
  probes::attempt("machine", [gpus] { describe(gpus); });
  return count == 2 && run(words[1], gpus) ? 0 : 4;
}
