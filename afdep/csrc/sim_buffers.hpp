// One Buffer on every simulated rank: its window, its stream, and the four kernels of each exchange. Several sets of Buffers may
// share an engine, and with it SMs, links and the clock; nothing else.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../../vendor/simgpu/engine.hpp"
#include "ranks.hpp"

namespace afdep {

class SimBuffers {
 public:
  // `number` of the set, for the trace. Throws std::invalid_argument when the shape does not fit the engine's ranks or machine.
  SimBuffers(simgpu::Engine& engine, const afdep_shape& shape, int number);

  void dispatch(int rank, const SourceInput& input, int bucket);
  void combine(int rank, const void* replies, void* y);
  void transform(int rank, void* out);
  void refuse(int rank);
  // The same, so much later than now and beside what the rank's stream holds.
  void refuse_beside(int rank, double ns);
  // What the rank's stream holds next begins so much later.
  void delay(int rank, double ns);
  afdep_received received(int rank);
  void poison(int rank, int bucket, int byte);
  std::uint64_t abort_word(int rank, afdep_error_record* record);

  // A rank's abort word and some bytes of its memory, as its host finds them behind what its stream held.
  struct Note {
    std::uint64_t abort_word = 0;
    std::vector<char> bytes;
  };
  using Block = std::pair<const char*, std::size_t>;
  void note(int rank, const std::vector<Block>& blocks);
  const std::vector<Note>& notes(int rank) const { return ranks_[static_cast<std::size_t>(rank)].notes; }

 private:
  struct Rank {
    simgpu::Stream* stream = nullptr;
    char* window = nullptr;
    elastic::Exchange exchange{};  // as of the last dispatch
    int index = 0;                 // exchanges dispatched
    std::vector<Note> notes;
  };
  void allocate(int rank);
  void take_note(int rank, const std::vector<Block>& blocks);
  void pause(simgpu::Stream* stream, int rank, double ns);
  simgpu::Launch make_launch(int rank, const char* name) const;
  template <class Args>
  void launch(int rank, const char* name, const LaunchShape& shape, bool main_kernel, void (*kernel)(const Args&), const Args& args,
              simgpu::Stream* stream = nullptr);

  simgpu::Engine& engine_;
  Shapes shapes_;
  afdep_shape shape_;
  int number_;
  std::vector<Rank> ranks_;
  std::vector<char*> windows_;
};

}  // namespace afdep
