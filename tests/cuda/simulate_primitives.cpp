// Runs the probe of every primitive on the CPU target: in time order, and under adversarial schedules of many seeds.
#include <cstdio>
#include <cstring>

#include "../sim/toy_machine.hpp"
#include "primitives.cu"

namespace {

constexpr int kSeeds = 50;

int failed_checks(const simgpu::Options& options) {
  simgpu::Engine engine(1, toy_machine(4), options);
  simgpu::Memory& memory = engine.memory();
  auto* failed = reinterpret_cast<int*>(memory.allocate(0, primitives::kNumExpectations * sizeof(int)));
  auto* abort_word = reinterpret_cast<std::uint64_t*>(memory.allocate(0, 8));
  auto* given = reinterpret_cast<prim::Vec16*>(memory.allocate(0, sizeof(prim::Vec16)));
  *given = prim::Vec16{{1, 2, 3, 4}};
  const primitives::Probe probe{failed, reinterpret_cast<std::int64_t*>(memory.allocate(0, 2 * 64 * 8)), abort_word,
                                memory.allocate(0, 4 * primitives::kBulkBytes), given,
                                reinterpret_cast<prim::Vec16*>(memory.allocate(0, 2 * primitives::kRowVectors * sizeof(prim::Vec16)))};
  engine.watch_abort(0, abort_word);
  simgpu::Launch launch;
  launch.name = "probe";
  launch.grid = 2;
  launch.threads = 32 * primitives::kWarps;
  launch.shared_bytes = 4096;
  launch.cooperative = true;
  launch.body = [&] { primitives::probe(probe); };
  engine.enqueue(engine.make_stream(0), std::move(launch));
  if (!engine.run()) {
    for (const auto& wait : engine.blocked()) std::printf("warp %d waits: %s\n", wait.warp, wait.wait.c_str());
    std::printf("seed %d: expected the probe to end, it did not %s\n", static_cast<int>(options.seed), engine.fault().c_str());
    return 1;
  }
  int bad = 0;
  for (int i = 0; i < primitives::kNumExpectations; ++i) {
    if (failed[i] != 0) std::printf("seed %d: expectation %d failed %d times\n", static_cast<int>(options.seed), i, failed[i]);
    bad += failed[i] != 0;
  }
  return bad;
}

}  // namespace

int main() {
  int bad = failed_checks({true, false, 0});
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) bad += failed_checks({true, true, seed});
  return bad != 0;
}
