#include "sim_buffers.hpp"

#include <cstring>

#include "kernels.hpp"

namespace afdep {

SimBuffers::SimBuffers(simgpu::Engine& engine, const afdep_shape& shape, int number)
    : engine_(engine),
      shapes_(shape, static_cast<int>(engine.machine().sm_count), static_cast<int>(engine.machine().shared_bytes_per_cta)),
      shape_(shape),
      number_(number),
      ranks_(static_cast<std::size_t>(engine.num_ranks())),
      windows_(ranks_.size()) {
  if (shapes_.num_ranks() != engine.num_ranks())
    throw std::invalid_argument(std::to_string(shapes_.num_ranks()) + " ranks, the world has " + std::to_string(engine.num_ranks()));
  check_fit(shape, shapes_, static_cast<int>(engine.machine().sm_count));
  for (int rank = 0; rank < shapes_.num_ranks(); ++rank) allocate(rank);
}

void SimBuffers::allocate(int rank) {
  Rank& r = ranks_[static_cast<std::size_t>(rank)];
  simgpu::Memory& memory = engine_.memory();
  const auto take = [&](std::int64_t bytes) { return memory.allocate(rank, static_cast<std::size_t>(bytes)); };
  r.stream = engine_.make_stream(rank);
  r.window = windows_[static_cast<std::size_t>(rank)] = take(shapes_.window_bytes());
  engine_.watch_abort(rank, r.window + elastic::WorkspaceLayout::kAbort);
  fill_exchange(r.exchange, shape_, shapes_, rank, take);
  for (Rank& other : ranks_) other.exchange.windows[rank] = r.window;
  set_guard(r.exchange, windows_.data(), 0);
}

simgpu::Launch SimBuffers::make_launch(int rank, const char* name) const {
  simgpu::Launch launch;
  launch.name = name;
  launch.tag = ranks_[static_cast<std::size_t>(rank)].index;
  launch.group = number_;
  return launch;
}

template <class Args>
void SimBuffers::launch(int rank, const char* name, const LaunchShape& shape, bool main_kernel, void (*kernel)(const Args&), const Args& args,
                        simgpu::Stream* stream) {
  simgpu::Launch launch = make_launch(rank, name);
  launch.grid = shape.grid;
  launch.threads = shape.threads;
  // Where a kernel leaves shared memory to L1 its registers hold the SM all the same: nothing runs beside it.
  launch.shared_bytes = shape.leaves_l1 ? static_cast<int>(engine_.machine().shared_bytes_per_cta) : shape.shared_bytes;
  launch.leaves_l1 = shape.leaves_l1;
  launch.cooperative = main_kernel;
  launch.programmatic = !main_kernel;
  launch.waits_first = !main_kernel;
  launch.body = [kernel, args] { kernel(args); };
  engine_.enqueue(stream != nullptr ? stream : ranks_[static_cast<std::size_t>(rank)].stream, std::move(launch));
}

void SimBuffers::dispatch(int rank, const SourceInput& input, int bucket) {
  Rank& r = ranks_[static_cast<std::size_t>(rank)];
  ++r.index;
  set_dispatch(r.exchange, input, bucket);
  launch(rank, "dispatch", shapes_.dispatch_launch(), true, dispatch_kernel(shapes_.directed()), r.exchange);
  launch(rank, "copy_epilogue", shapes_.copy_launch(), false, &elastic::copy_epilogue, r.exchange);
}

void SimBuffers::combine(int rank, const void* replies, void* y) {
  elastic::Exchange& e = ranks_[static_cast<std::size_t>(rank)].exchange;
  set_combine(e, replies, y);
  launch(rank, "combine", shapes_.combine_launch(), true, combine_kernel(shapes_, e), e);
  launch(rank, shapes_.one_replier() ? "copy_replies" : "reduce_epilogue", shapes_.collect_launch(e.num_tokens), false, collect_kernel(shapes_, e), e);
}

void SimBuffers::transform(int rank, void* out) {
  const ExpertTransform args{ranks_[static_cast<std::size_t>(rank)].exchange, static_cast<char*>(out), shape_.dtype};
  const LaunchShape shape{std::min(8, static_cast<int>(engine_.machine().sm_count)), 128, 0};
  launch(rank, "expert_transform", shape, true, &expert_transform, args);
}

void SimBuffers::refuse(int rank) {
  launch(rank, "refuse", LaunchShape{1, 32, 0}, true, &refuse_exchange, ranks_[static_cast<std::size_t>(rank)].exchange);
}

void SimBuffers::refuse_beside(int rank, double ns) {
  simgpu::Stream* stream = engine_.make_stream(rank);
  pause(stream, rank, ns);
  launch(rank, "refuse", LaunchShape{1, 32, 0}, true, &refuse_exchange, ranks_[static_cast<std::size_t>(rank)].exchange, stream);
}

void SimBuffers::delay(int rank, double ns) { pause(ranks_[static_cast<std::size_t>(rank)].stream, rank, ns); }

void SimBuffers::pause(simgpu::Stream* stream, int rank, double ns) {
  simgpu::Launch launch = make_launch(rank, "delay");
  launch.host = [] {};
  launch.busy_ns = ns;
  engine_.enqueue(stream, std::move(launch));
}

void SimBuffers::note(int rank, const std::vector<Block>& blocks) {
  simgpu::Launch launch = make_launch(rank, "note");
  launch.host = [this, rank, blocks] { take_note(rank, blocks); };
  engine_.enqueue(ranks_[static_cast<std::size_t>(rank)].stream, std::move(launch));
}

SIMGPU_UNSEEN void SimBuffers::take_note(int rank, const std::vector<Block>& blocks) {
  Note note{abort_word(rank, nullptr), {}};
  for (const auto& [block, bytes] : blocks) {
    const std::size_t before = note.bytes.size();
    note.bytes.resize(before + bytes);
    simgpu::races::copy(note.bytes.data() + before, block, bytes);
  }
  ranks_[static_cast<std::size_t>(rank)].notes.push_back(std::move(note));
}

afdep_received SimBuffers::received(int rank) { return received_memory(ranks_[static_cast<std::size_t>(rank)].exchange, shapes_); }

void SimBuffers::poison(int rank, int bucket, int byte) {
  const auto fill = [byte](char* memory, std::int64_t bytes) { std::memset(memory, byte, static_cast<std::size_t>(bytes)); };
  poison_exchange(ranks_[static_cast<std::size_t>(rank)].exchange, shapes_, shape_.capacity, bucket, fill);
}

std::uint64_t SimBuffers::abort_word(int rank, afdep_error_record* record) {
  const char* window = ranks_[static_cast<std::size_t>(rank)].window;
  elastic::ErrorRecord error;
  std::memcpy(&error, window + elastic::WorkspaceLayout::kError, sizeof(error));
  if (record != nullptr) *record = {error.failure, error.rank, error.token, error.lane, error.expert};
  std::uint64_t word;
  std::memcpy(&word, window + elastic::WorkspaceLayout::kAbort, sizeof(word));
  return word;
}

}  // namespace afdep
