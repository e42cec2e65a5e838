// A CUDA runtime without a GPU, for the host side of programs: memory is the host's, launches do nothing, events lie 0.7 ms apart.
// The clock of an SM, three 64-bit words, reads as 1,980 MHz and a timer of 32 ns. FAKE_GPUS says how many GPUs there are.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#define SUCCEEDS(name) \
  extern "C" int name(...) { return 0; }
SUCCEEDS(__cudaGetKernel)
SUCCEEDS(__cudaLaunchKernel)
SUCCEEDS(__cudaPushCallConfiguration)
SUCCEEDS(__cudaRegisterFatBinaryEnd)
SUCCEEDS(__cudaRegisterFunction)
SUCCEEDS(__cudaUnregisterFatBinary)
SUCCEEDS(cudaDeviceEnablePeerAccess)
SUCCEEDS(cudaDeviceSynchronize)
SUCCEEDS(cudaEventDestroy)
SUCCEEDS(cudaEventRecord)
SUCCEEDS(cudaEventSynchronize)
SUCCEEDS(cudaFuncSetAttribute)
SUCCEEDS(cudaGetLastError)
SUCCEEDS(cudaGraphDestroy)
SUCCEEDS(cudaGraphExecDestroy)
SUCCEEDS(cudaGraphInstantiate)
SUCCEEDS(cudaGraphLaunch)
SUCCEEDS(cudaLaunchKernelExC)
SUCCEEDS(cudaMemset)
SUCCEEDS(cudaSetDevice)
SUCCEEDS(cudaStreamBeginCapture)
SUCCEEDS(cudaStreamDestroy)
SUCCEEDS(cudaStreamEndCapture)
SUCCEEDS(cudaStreamSynchronize)

namespace {

constexpr int kMultiProcessorCount = 16, kClockRate = 13, kMemoryClockRate = 36, kToHost = 2, kName = 256;

int given(int* to, int value) {
  *to = value;
  return 0;
}
int made(void** handle) {
  *handle = nullptr;
  return 0;
}

}  // namespace

extern "C" {
void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
int __cudaPopCallConfiguration(unsigned* grid, unsigned* block, std::size_t* shared, void** stream) {
  for (int i = 0; i < 3; ++i) grid[i] = block[i] = 1;
  *shared = 0;
  return made(stream);
}
int cudaDeviceCanAccessPeer(int* can, int, int) { return given(can, 1); }
int cudaDriverGetVersion(int* version) { return given(version, 13000); }
int cudaRuntimeGetVersion(int* version) { return given(version, 13000); }
int cudaDeviceGetAttribute(int* value, int which, int) {
  if (which == kMultiProcessorCount) return given(value, 132);
  if (which == kClockRate) return given(value, 1980000);
  return given(value, which == kMemoryClockRate ? 3201000 : 232448);
}
int cudaGetDeviceCount(int* count) {
  const char* said = std::getenv("FAKE_GPUS");
  return given(count, said == nullptr ? 2 : std::atoi(said));
}
int cudaGetDeviceProperties(void* properties, int) {
  std::strncpy(static_cast<char*>(properties), "fake GPU", kName);
  return 0;
}
const char* cudaGetErrorString(int) { return "no error"; }
int cudaEventCreate(void** event) { return made(event); }
int cudaStreamCreateWithFlags(void** stream, unsigned) { return made(stream); }
int cudaEventElapsedTime(float* ms, void*, void*) {
  *ms = 0.7f;
  return 0;
}
int cudaMalloc(void** data, std::size_t bytes) {
  *data = std::calloc(bytes, 1);
  return *data == nullptr ? 2 : 0;
}
int cudaFree(void* data) {
  std::free(data);
  return 0;
}
int cudaMemcpy(void* to, const void* from, std::size_t bytes, int kind) {
  const std::uint64_t clock[3] = {3960000, 2000000, 32};
  std::memcpy(to, kind == kToHost && bytes == sizeof(clock) ? static_cast<const void*>(clock) : from, bytes);
  return 0;
}
}
