// Runs the two kernels of rows.cu on the CPU target. No argument: in time order; an argument: under that many hunted schedules.
// Exit code 0: every vector of every exchange arrived as it was sent; 1: some did not, or not at all.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

#include "../sim/toy_machine.hpp"
#include "rows.cu"

namespace {

constexpr int kExchanges = 5;

// What the blocked fibers wait for, each once.
std::string waits(const simgpu::Engine& engine) {
  std::set<std::string> names;
  for (const auto& blocked : engine.blocked()) names.insert(blocked.wait);
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

class Pair {
 public:
  explicit Pair(const simgpu::Options& options) : engine_(2, toy_machine(4), options) {
    constexpr std::size_t kInboxBytes = 2 * rows::kRows * rows::kVectors * sizeof(prim::Vec16);
    to_ = {1, take<prim::Vec16>(0, kInboxBytes), take<std::uint64_t>(1, 8), take<std::uint64_t>(0, 8), take<int>(0, 4), take<int>(0, 4)};
    from_ = to_;
    from_.abort_word = take<std::uint64_t>(1, 8);
    std::memset(to_.inbox, 0xff, kInboxBytes);
    for (int rank = 0; rank < 2; ++rank) streams_[rank] = engine_.make_stream(rank);
  }
  // What went wrong, empty if nothing did.
  std::string run() {
    for (int i = 0; i < kExchanges; ++i, ++to_.epoch, ++from_.epoch) {
      launch(1, "push_rows", [e = from_] { rows::push_rows(e); });
      launch(0, "take_rows", [e = to_] { rows::take_rows(e); });
    }
    if (!engine_.run()) return "expected every row to arrive, still waiting for: " + waits(engine_);
    if (*to_.wrong != 0) return std::to_string(*to_.wrong) + " vectors differ from what was sent";
    return *to_.taken == kExchanges * rows::kRows * rows::kVectors ? "" : std::to_string(*to_.taken) + " vectors were used";
  }

 private:
  template <class T>
  T* take(int rank, std::size_t bytes) {
    return reinterpret_cast<T*>(engine_.memory().allocate(rank, bytes));
  }
  void launch(int rank, const char* name, std::function<void()> body) {
    simgpu::Launch launch;
    launch.name = name;
    launch.grid = 2;
    launch.threads = 64;
    launch.body = std::move(body);
    engine_.enqueue(streams_[rank], std::move(launch));
  }
  simgpu::Engine engine_;
  simgpu::Stream* streams_[2];
  rows::Exchange to_{}, from_{};
};

bool right(const simgpu::Options& options) {
  const std::string wrong = Pair(options).run();
  if (!wrong.empty()) std::printf("seed %d: %s\n", static_cast<int>(options.seed), wrong.c_str());
  return wrong.empty();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return !right({true, false, 0});
  for (int seed = 1; seed <= std::atoi(argv[1]); ++seed)
    if (!right({true, true, static_cast<std::uint64_t>(seed)})) return 1;
  return 0;
}
