// What every probe uses: checked calls, readings as lines of JSON, clocks, memory that frees itself, and timed launches.
// No wait of a probe is without an end: each gives up after a number of polls and says so.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

namespace probes {

using Samples = std::vector<double>;

constexpr unsigned kMostPolls = 1u << 21;       // of one word: about a second
constexpr double kCoarsestTimerNs = 100;        // a coarser global timer tells no launch gap
constexpr std::uint64_t kClockSpanNs = 2000000;  // over which cycles are compared with the global timer

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

// ---- readings
// The place of a reading: what was measured how, with how many CTAs and how long rows or messages; 0 where that has no meaning.
struct Place {
  const char* probe;
  const char* variant;
  int ctas = 0;
  int bytes = 0;
};
inline void emit(const Place& place, const char* unit, const Samples& samples) {
  std::printf("{\"probe\": \"%s\", \"variant\": \"%s\", \"ctas\": %d, \"bytes\": %d, \"unit\": \"%s\", \"samples\": [", place.probe,
              place.variant, place.ctas, place.bytes, unit);
  for (std::size_t i = 0; i < samples.size(); ++i) std::printf("%s%.6g", i == 0 ? "" : ", ", samples[i]);
  std::printf("]}\n");
  std::fflush(stdout);
}
inline void emit_void(const char* probe, std::string reason) {
  for (char& c : reason)
    if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ') c = ' ';
  std::printf("{\"probe\": \"%s\", \"void\": \"%s\"}\n", probe, reason.c_str());
  std::fflush(stdout);
}
// Runs a probe; one that fails is void, with its reason, and the others go on.
template <class Probe>
void attempt(const char* name, Probe&& probe) {
  try {
    probe();
  } catch (const std::exception& error) {
    emit_void(name, error.what());
  }
}

// ---- clocks
__device__ inline std::uint64_t global_ns() {
  std::uint64_t t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
  return t;
}
__device__ inline long long cycles() {
  long long t;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
  return t;
}

// ---- memory of the current device
template <class T>
class Memory {
 public:
  explicit Memory(std::size_t count) : count_(count) {
    check(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)), "memory");
    check(cudaMemset(data_, 0, count * sizeof(T)), "memory set to zero");
  }
  ~Memory() { cudaFree(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  T* data() const { return data_; }
  std::size_t bytes() const { return count_ * sizeof(T); }
  void clear() { check(cudaMemset(data_, 0, bytes()), "memory set to zero"); }
  std::vector<T> copy() const {
    std::vector<T> values(count_);
    check(cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDeviceToHost), "copy to the host");
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

// Waits for the current device; a probe whose kernel left word 0 of `gave_up` set has not measured anything.
inline void finish(const char* what) {
  check(cudaGetLastError(), what);
  check(cudaDeviceSynchronize(), what);
}
inline void expect_done(const Memory<unsigned>& gave_up, const char* what) {
  if (gave_up.copy()[0] != 0) throw std::runtime_error(std::string(what) + ": a wait was given up");
}

// ---- events of the current device
class Stopwatch {
 public:
  Stopwatch() {
    check(cudaEventCreate(&begin_), "event");
    check(cudaEventCreate(&end_), "event");
  }
  ~Stopwatch() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  void start(cudaStream_t stream = nullptr) { check(cudaEventRecord(begin_, stream), "event"); }
  void stop(cudaStream_t stream = nullptr) { check(cudaEventRecord(end_, stream), "event"); }
  // Waits for both events.
  double ns() {
    check(cudaEventSynchronize(end_), "timed kernels");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin_, end_), "timed kernels");
    return static_cast<double>(ms) * 1e6;
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};
// ns of each of `repeats` launches; one more, before them, counts for nothing.
template <class Launch>
Samples timed(int repeats, const char* what, Launch&& launch) {
  Stopwatch watch;
  Samples samples;
  for (int i = 0; i <= repeats; ++i) {
    watch.start();
    launch();
    check(cudaGetLastError(), what);
    watch.stop();
    const double ns = watch.ns();
    if (i > 0) samples.push_back(ns);
  }
  return samples;
}
inline Samples scaled(Samples samples, double factor) {
  for (double& sample : samples) sample *= factor;
  return samples;
}
// Bytes per ns, which is GB/s.
inline Samples rates(Samples ns, double bytes) {
  for (double& sample : ns) sample = bytes / sample;
  return ns;
}
inline double middle(Samples samples) {
  if (samples.empty()) throw std::runtime_error("expected samples, received none");
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

// ---- the clock of an SM
__global__ void spin_for(std::uint64_t ns, std::uint64_t* out) {
  const std::uint64_t begin = global_ns();
  const long long first = cycles();
  std::uint64_t now = begin, step = ~0ull;
  for (unsigned i = 0; i < (1u << 24) && now - begin < ns; ++i) {
    const std::uint64_t next = global_ns();
    if (next != now && next - now < step) step = next - now;
    now = next;
  }
  out[0] = static_cast<std::uint64_t>(cycles() - first);
  out[1] = now - begin;
  out[2] = step;
}
// Nanoseconds of one cycle under load; emits the clock and the step of the global timer, which must be fine enough.
inline double cycle_ns(const char* group, double coarsest_ns = 1e-2 * kClockSpanNs) {
  Memory<std::uint64_t> out(3);
  Samples mhz, steps;
  for (int i = 0; i < 6; ++i) {
    spin_for<<<1, 1>>>(kClockSpanNs, out.data());
    finish("clock of an SM");
    const auto seen = out.copy();
    if (seen[1] < kClockSpanNs / 2) throw std::runtime_error("clock of an SM: the global timer did not run");
    if (i > 0) mhz.push_back(1e3 * static_cast<double>(seen[0]) / static_cast<double>(seen[1]));
    if (i > 0) steps.push_back(static_cast<double>(seen[2]));
  }
  emit({"sm_clock", group}, "MHz", mhz);
  emit({"timer_step", group}, "ns", steps);
  if (middle(steps) > coarsest_ns) throw std::runtime_error("the global timer is too coarse for these probes");
  return 1e3 / middle(mhz);
}

}  // namespace probes
