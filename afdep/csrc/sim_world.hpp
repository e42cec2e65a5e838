// A group of simulated ranks: one engine, one window and one stream a rank, and the four kernels of each exchange.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "../../vendor/simgpu/engine.hpp"
#include "ranks.hpp"

namespace afdep {

class SimWorld {
 public:
  // Throws std::invalid_argument when the shape does not fit the machine.
  SimWorld(const afdep_shape& shape, const afdep_sim_options& options, const simgpu::Machine& machine);

  simgpu::Engine& engine() { return *engine_; }
  const Shapes& shapes() const { return shapes_; }

  void dispatch(int rank, const SourceInput& input, int bucket);
  void combine(int rank, const void* replies, void* y);
  void transform(int rank, void* out);
  void refuse(int rank);
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
  template <class Args>
  void launch(int rank, const char* name, const LaunchShape& shape, bool main_kernel, void (*kernel)(const Args&), const Args& args);

  Shapes shapes_;
  afdep_shape shape_;
  std::unique_ptr<simgpu::Engine> engine_;
  std::vector<Rank> ranks_;
};

}  // namespace afdep
