// What a kernel pays once a launch, since nothing of it has been there before: for its instructions, its arguments, and the pages of
// memory that it reads. Kernels follow each other in a graph, each with code of its own, and take turns.
#pragma once
#include "launch.cuh"

namespace probes {

constexpr int kFirstUseRepeats = 15, kFirstUses = 12, kFirstUseCtas = 24;  // kernels of a graph, the first of which counts for nothing
constexpr int kInstructionBytes = 16, kStride = 512, kLineBytes = 64, kLines = 20;
constexpr unsigned kNever = 1;  // a value that nothing here comes to

// Which of the kernels that take turns: machine code of its own for each.
enum class Turn { kFirst, kSecond, kThird, kFourth };

// Every stride of 512 bytes: a few instructions run, and a branch that is always taken passes by the others.
template <Turn kTurn, int kStrides>
__device__ __noinline__ unsigned walk_code(unsigned x, unsigned never) {
#pragma unroll
  for (int s = 0; s < kStrides; ++s) {
    asm volatile("mad.lo.u32 %0, %0, %0, %1;" : "+r"(x) : "r"(2 + 2 * static_cast<unsigned>(kTurn)));
    if (x != never) continue;
#pragma unroll
    for (int i = 0; i < kStride / kInstructionBytes - 4; ++i) asm volatile("mad.lo.u32 %0, %0, %0, 1;" : "+r"(x));
  }
  return x;
}
// Runs `pass` twice; each CTA leaves the cycles of both.
template <class Pass>
__device__ inline void pass_twice(unsigned never, long long* out, Pass pass) {
  long long passed[2];
#pragma unroll 1
  for (int i = 0; i < 2; ++i) {
    __syncthreads();
    const long long begin = cycles();
    if (pass() == never) return;  // never: it makes the clock below wait for what the pass came to
    __syncthreads();
    passed[i & 1] = cycles() - begin;
  }
  if (threadIdx.x != 0) return;
  out[2 * blockIdx.x] = passed[0];
  out[2 * blockIdx.x + 1] = passed[1];
}
template <Turn kTurn, int kStrides>
__global__ void __launch_bounds__(1024) walk(unsigned never, long long* out) {
  unsigned x = 2 * (threadIdx.x / 32);
  pass_twice(never, out, [&] { return x = walk_code<kTurn, kStrides>(x, never); });
}

struct Arguments {
  unsigned words[kLines * kLineBytes / 4];  // all zero
};
// One line of the arguments after the other, each found by what the line before said.
template <Turn kTurn>
__global__ void __launch_bounds__(1024) read_arguments(const __grid_constant__ Arguments arguments, unsigned never, long long* out) {
  pass_twice(never, out, [&] {
    unsigned x;
    asm volatile("mov.u32 %0, 0;" : "=r"(x));  // no compiler knows it, so nothing is read ahead of the clock
#pragma unroll 1
    for (int i = 0; i < kLines; ++i) x = arguments.words[i * (kLineBytes / 4) + x];
    return x;
  });
}

// First pass less second, the mean over kernels and CTAs.
template <class Enqueue>
void probe_passes(const Place& place, double cycle, Enqueue&& enqueue) {
  Memory<long long> out(2 * kFirstUses * kFirstUseCtas);
  Graph graph([&](cudaStream_t stream) {
    for (int i = 0; i < kFirstUses; ++i) enqueue(stream, i, out.data() + 2 * i * kFirstUseCtas);
  });
  Samples samples;
  for (int i = 0; i <= kFirstUseRepeats; ++i) {
    graph.replay_ns();
    const auto seen = out.copy();
    double more = 0;
    for (std::size_t c = kFirstUseCtas; c < seen.size() / 2; ++c) more += static_cast<double>(seen[2 * c] - seen[2 * c + 1]);
    if (i > 0) samples.push_back(more * cycle / ((kFirstUses - 1) * kFirstUseCtas));
  }
  emit(place, "ns", samples);
}
template <int kStrides>
void probe_walk(double cycle) {
  using Walk = void (*)(unsigned, long long*);
  static constexpr Walk walks[] = {walk<Turn::kFirst, kStrides>, walk<Turn::kSecond, kStrides>, walk<Turn::kThird, kStrides>,
                                   walk<Turn::kFourth, kStrides>};
  const auto in_turn = [&](const char* variant, int kernels) {
    probe_passes({"code", variant, kFirstUseCtas, kStrides * kStride}, cycle, [&](cudaStream_t stream, int i, long long* out) {
      launch(stream, Edge::kPlain, kFirstUseCtas, 0, walks[i % kernels], kNever, out);
    });
  };
  in_turn("one_kernel", 1), in_turn("two_in_turn", 2), in_turn("four_in_turn", 4);
}
inline void probe_arguments(double cycle) {
  probe_passes({"arguments", "one_by_one", kFirstUseCtas, kLines * kLineBytes}, cycle, [](cudaStream_t stream, int i, long long* out) {
    launch(stream, Edge::kPlain, kFirstUseCtas, 0, i % 2 == 0 ? read_arguments<Turn::kFirst> : read_arguments<Turn::kSecond>, Arguments{}, kNever,
           out);
  });
}

constexpr std::size_t kPage = std::size_t{2} << 20;  // of the GPU's memory
constexpr int kPages = 4, kLoads = 2 * kPages;
// Loads one word after the other, each found by what the one before said: two lines of a page, then two of the next page.
__global__ void touch_pages(const unsigned* words, unsigned never, long long* out) {
  unsigned x = 0;
  long long at[kLoads + 1];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    at[i] = cycles();
    const unsigned* word = words + (i / 2) * (kPage / 4) + (i % 2) * 1024 + x;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(word) : "memory");
    if (x == never) return;
  }
  at[kLoads] = cycles();
#pragma unroll
  for (int i = 0; i < kLoads; ++i) out[kLoads * blockIdx.x + i] = at[i + 1] - at[i];
}
// ns of each load, the mean over kernels and CTAs; `bytes` of a place is how far the page lies from the first.
inline void probe_pages(double cycle) {
  Memory<unsigned> words(kPage / 4 * kPages);
  Memory<long long> out(kLoads * kFirstUses * kFirstUseCtas);
  Graph graph([&](cudaStream_t stream) {
    for (int i = 0; i < kFirstUses; ++i) touch_pages<<<kFirstUseCtas, 1, 0, stream>>>(words.data(), kNever, out.data() + kLoads * i * kFirstUseCtas);
  });
  Samples samples[kLoads];
  for (int r = 0; r <= kFirstUseRepeats; ++r) {
    graph.replay_ns();
    const auto seen = out.copy();
    double sums[kLoads] = {};
    for (std::size_t i = kLoads * kFirstUseCtas; i < seen.size(); ++i) sums[i % kLoads] += static_cast<double>(seen[i]);
    for (int i = 0; r > 0 && i < kLoads; ++i) samples[i].push_back(sums[i] * cycle / ((kFirstUses - 1) * kFirstUseCtas));
  }
  for (int i = 0; i < kLoads; ++i)
    emit({"page", i % 2 == 0 ? "first_load" : "second_load", kFirstUseCtas, static_cast<int>(i / 2 * kPage)}, "ns", samples[i]);
}

inline void probe_first_use() {
  const double cycle = cycle_ns("first_use");
  attempt("code", [&] { probe_walk<8>(cycle), probe_walk<16>(cycle), probe_walk<32>(cycle), probe_walk<64>(cycle); });
  attempt("arguments", [&] { probe_arguments(cycle); });
  attempt("page", [&] { probe_pages(cycle); });
}

}  // namespace probes
