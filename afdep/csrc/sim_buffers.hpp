// One Buffer on every simulated rank: its window, its stream, and the four kernels of each exchange. Several sets of Buffers may
// share an engine, and with it SMs, links and the clock; nothing else.
#pragma once
#include <memory>
#include <string>
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
  // What the rank's stream holds next begins so much later.
  void delay(int rank, double ns);
  afdep_received received(int rank);
  void poison(int rank, int bucket, int byte);
  std::uint64_t abort_word(int rank, afdep_error_record* record);

 private:
  struct Rank {
    simgpu::Stream* stream = nullptr;
    char* window = nullptr;
    elastic::Exchange exchange{};  // as of the last dispatch
    int index = 0;                 // exchanges dispatched
  };
  void allocate(int rank);
  simgpu::Launch make_launch(int rank, const char* name) const;
  template <class Args>
  void launch(int rank, const char* name, const LaunchShape& shape, bool main_kernel, void (*kernel)(const Args&), const Args& args);

  simgpu::Engine& engine_;
  Shapes shapes_;
  afdep_shape shape_;
  int number_;
  std::vector<Rank> ranks_;
};

}  // namespace afdep
