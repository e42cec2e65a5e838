// Kernels of several streams on few SM slots, and a host actor between kernels. Usage: slots SCENARIO [ARGUMENTS]; prints what the
// scenario measured.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "../../vendor/elastic/prim.cuh"
#include "toy_machine.hpp"

namespace {

constexpr double kBusyNs = 10'000;

simgpu::Launch busy(int grid, int threads, int shared_bytes) {
  simgpu::Launch launch;
  launch.name = "busy";
  launch.grid = grid;
  launch.threads = threads;
  launch.shared_bytes = shared_bytes;
  launch.busy_ns = kBusyNs;
  return launch;
}
simgpu::Launch kernel(const char* name, int grid, std::function<void()> body) {
  simgpu::Launch launch;
  launch.name = name;
  launch.grid = grid;
  launch.body = std::move(body);
  return launch;
}

// Microseconds until a kernel of one CTA starts that comes when six busy CTAs ask for the two SMs, three waves of them.
void against_waves(int priority) {
  simgpu::Engine engine(1, toy_machine(2), {});
  double started_us = -1;
  simgpu::Launch late = kernel("late", 1, [&] { started_us = simgpu::to_us(engine.current->clock); });
  late.threads = 1024;
  engine.enqueue(engine.make_stream(0), busy(6, 1024, 0));
  engine.enqueue(engine.make_stream(0, priority), std::move(late));
  const bool ended = engine.run();
  std::printf("%s %.1f\n", ended ? "ended" : "stuck", started_us);
}

// The same beside one busy CTA that leaves threads free and takes `taken` of the 65,536 shared bytes.
void against_shared(int taken, int wanted) {
  simgpu::Engine engine(1, toy_machine(1), {});
  double started_us = -1;
  simgpu::Launch late = kernel("late", 1, [&] { started_us = simgpu::to_us(engine.current->clock); });
  late.shared_bytes = wanted;
  engine.enqueue(engine.make_stream(0), busy(1, 32, taken));
  engine.enqueue(engine.make_stream(0), std::move(late));
  const bool ended = engine.run();
  std::printf("%s %.1f\n", ended ? "ended" : "stuck", started_us);
}

// A kernel stores a count, a host actor reads it and launches that many CTAs, and the last kernel of the stream reads how many ran.
void counted(int seed, bool own_stream) {
  simgpu::Engine engine(1, toy_machine(2), {true, true, static_cast<std::uint64_t>(seed)});
  auto* words = reinterpret_cast<int*>(engine.memory().allocate(0, 8));
  simgpu::Stream* stream = engine.make_stream(0);
  simgpu::Stream* other = own_stream ? stream : engine.make_stream(0);
  int seen = -1;
  engine.enqueue(stream, kernel("count", 1, [words] { prim::elect([&] { prim::store(words, 3); }); }));
  simgpu::Launch reads;
  reads.name = "host";
  reads.host = [&] {
    seen = words[0];
    if (seen > 0) engine.enqueue(other, kernel("counted", seen, [words] { prim::elect([&] { prim::add_gpu(words + 1, 1); }); }));
  };
  engine.enqueue(other, std::move(reads));
  const bool ended = engine.run();
  std::printf("%s %d %d\n", ended ? "ended" : "stuck", seen, words[1]);
}

// Microseconds between the ends of the kernels around a host actor that takes ten.
void host_time() {
  simgpu::Engine engine(1, toy_machine(1), {});
  simgpu::Stream* stream = engine.make_stream(0);
  simgpu::Launch host;
  host.name = "host";
  host.host = [] {};
  host.busy_ns = kBusyNs;
  engine.enqueue(stream, kernel("before", 1, [] {}));
  engine.enqueue(stream, std::move(host));
  engine.enqueue(stream, kernel("after", 1, [] {}));
  const bool ended = engine.run();
  std::printf("%s %.1f\n", ended ? "ended" : "stuck", simgpu::to_us(engine.trace().back().end - engine.trace().front().end));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string scenario = argc > 1 ? argv[1] : "";
  const auto number = [&](int i) { return argc > i ? std::atoi(argv[i]) : 0; };
  if (scenario == "waves") against_waves(number(2));
  else if (scenario == "shared") against_shared(number(2), number(3));
  else if (scenario == "counted") counted(number(2), number(3) != 0);
  else if (scenario == "host") host_time();
  else return 4;
}
