#include "sim_world.hpp"

#include <cstring>
#include <stdexcept>

#include "../../vendor/elastic/combine.cuh"
#include "../../vendor/elastic/dispatch.cuh"
#include "directed.cuh"
#include "expert_transform.cuh"

namespace afdep {

namespace {

void refuse_kernel(const elastic::Exchange& e) {
  if (prim::cta() == 0 && prim::warp() == 0) prim::elect([&] { elastic::report(e, elastic::Failure::refused, -1, -1, -1); });
}

void require(bool fits, const std::string& what) {
  if (!fits) throw std::invalid_argument(what);
}

}  // namespace

SimWorld::SimWorld(const afdep_shape& shape, const afdep_sim_options& options, const simgpu::Machine& machine)
    : shapes_(shape, static_cast<int>(machine.sm_count), static_cast<int>(machine.shared_bytes_per_cta)),
      shape_(shape),
      engine_(std::make_unique<simgpu::Engine>(shape.attention_ranks + shape.ffn_ranks, machine,
                                               simgpu::Options{options.payload != 0, options.hunt != 0, options.seed})),
      ranks_(static_cast<std::size_t>(shapes_.num_ranks())) {
  require(shape.transport_sms >= 1 && shape.transport_sms <= machine.sm_count,
          "transport_sms is " + std::to_string(shape.transport_sms) + ", the machine has " +
              std::to_string(static_cast<int>(machine.sm_count)) + " SMs");
  for (const LaunchShape& launch : {shapes_.copy_launch(), shapes_.combine_launch(), shapes_.reduce_launch()})
    require(launch.threads > 0, "a record does not fit the machine's shared memory");
  require(shapes_.dispatch_launch().threads > 32 * elastic::kNotifyWarps,
          "the count words of " + std::to_string(shapes_.num_experts()) + " expert slots and one record do not fit shared memory");
  for (int rank = 0; rank < shapes_.num_ranks(); ++rank) allocate(rank);
}

void SimWorld::allocate(int rank) {
  Rank& r = ranks_[static_cast<std::size_t>(rank)];
  simgpu::Memory& memory = engine_->memory();
  const auto take = [&](std::int64_t bytes) { return memory.allocate(rank, static_cast<std::size_t>(bytes)); };
  r.stream = engine_->make_stream(rank);
  r.window = take(shapes_.window_bytes());
  engine_->watch_abort(rank, r.window + elastic::WorkspaceLayout::kAbort);
  const std::int64_t tokens = shape_.capacity, lanes = shape_.top_k, local = shapes_.experts_per_rank();
  const std::int64_t received = shapes_.max_received(shape_.capacity), rows = shapes_.max_rows(shape_.capacity);
  elastic::Exchange& e = r.exchange;
  e.rank = rank;
  e.num_ranks = shapes_.num_ranks();
  e.num_valid_experts = shape_.num_experts;
  e.experts_per_rank = shapes_.experts_per_rank();
  e.num_experts = shapes_.num_experts();
  e.top_k = shape_.top_k;
  e.first_sender = shapes_.first_sender();
  e.first_replier = 0;
  e.num_routed_ranks = shape_.ffn_ranks;
  e.switches = shape_.switches;
  e.inbox_offset = shapes_.workspace_bytes();
  e.dispatch = shapes_.dispatch();
  e.combine = shapes_.combine();
  e.ranked_replies = shapes_.ranked_replies();
  e.reduce_prefix = shapes_.reduce_prefix();
  e.expert_alignment = shape_.expert_alignment;
  e.slot_index = reinterpret_cast<int*>(take(tokens * lanes * 4));
  e.rank_prefix = reinterpret_cast<int*>(take(e.num_ranks * 4));
  e.expert_cursor = reinterpret_cast<int*>(take((local + 1) * 4));
  e.expert_offsets = reinterpret_cast<int*>(take((local + 1) * 4));
  e.expert_counts = reinterpret_cast<int*>(take(local * 4));
  e.source_metadata = reinterpret_cast<int*>(take(received * (lanes + 2) * 4));
  e.rows = take(rows * e.dispatch.hidden_bytes);
  e.row_scales = take(rows * e.dispatch.scale_bytes);
  e.row_weights = reinterpret_cast<float*>(take(rows * 4));
  for (Rank& other : ranks_) other.exchange.windows[rank] = r.window;
}

template <class Args>
void SimWorld::launch(int rank, const char* name, const LaunchShape& shape, bool main_kernel, void (*kernel)(const Args&), const Args& args) {
  Rank& r = ranks_[static_cast<std::size_t>(rank)];
  simgpu::Launch launch;
  launch.name = name;
  launch.grid = shape.grid;
  launch.threads = shape.threads;
  launch.shared_bytes = shape.shared_bytes;
  launch.cooperative = main_kernel;
  launch.programmatic = !main_kernel;
  launch.waits_first = !main_kernel;
  launch.tag = r.index;
  launch.body = [kernel, args] { kernel(args); };
  engine_->enqueue(r.stream, std::move(launch));
}

void SimWorld::dispatch(int rank, const SourceInput& input, int bucket) {
  Rank& r = ranks_[static_cast<std::size_t>(rank)];
  elastic::Exchange& e = r.exchange;
  ++r.index;
  e.capacity = bucket;
  e.num_tokens = input.num_tokens;
  e.x = input.x;
  e.scales = input.scales;
  e.topk_ids = input.ids;
  e.id_bytes = input.id_bytes;
  e.topk_weights = input.weights;
  launch(rank, "dispatch", shapes_.dispatch_launch(), true,
         shapes_.directed() ? &elastic::dispatch<Directed> : &elastic::dispatch<elastic::Symmetric>, e);
  launch(rank, "copy_epilogue", shapes_.copy_launch(), false, &elastic::copy_epilogue, e);
}

void SimWorld::combine(int rank, const void* replies, void* y) {
  elastic::Exchange& e = ranks_[static_cast<std::size_t>(rank)].exchange;
  e.replies = static_cast<const char*>(replies);
  e.y = static_cast<char*>(y);
  launch(rank, "combine", shapes_.combine_launch(), true,
         shapes_.directed() ? &elastic::combine<Directed> : &elastic::combine<elastic::Symmetric>, e);
  launch(rank, "reduce_epilogue", shapes_.reduce_launch(), false, &elastic::reduce_epilogue, e);
}

void SimWorld::transform(int rank, void* out) {
  const ExpertTransform args{ranks_[static_cast<std::size_t>(rank)].exchange, static_cast<char*>(out)};
  const LaunchShape shape{std::min(8, static_cast<int>(engine_->machine().sm_count)), 128, 0};
  launch(rank, "expert_transform", shape, true, &expert_transform, args);
}

void SimWorld::refuse(int rank) {
  launch(rank, "refuse", LaunchShape{1, 32, 0}, true, &refuse_kernel, ranks_[static_cast<std::size_t>(rank)].exchange);
}

afdep_received SimWorld::received(int rank) {
  const elastic::Exchange& e = ranks_[static_cast<std::size_t>(rank)].exchange;
  return {e.rows,          e.row_scales,      e.row_weights, e.expert_offsets,
          e.expert_counts, e.source_metadata, e.rank_prefix, shapes_.max_rows(e.capacity)};
}

void SimWorld::poison(int rank, int bucket, int byte) {
  const Rank& r = ranks_[static_cast<std::size_t>(rank)];
  const elastic::Exchange& e = r.exchange;
  std::memset(r.window + e.inbox_offset, byte, static_cast<std::size_t>(shapes_.inbox_bytes() / shape_.capacity * bucket));
  std::memset(e.rows, byte, static_cast<std::size_t>(shapes_.max_rows(bucket) * e.dispatch.hidden_bytes));
  std::memset(e.row_weights, byte, static_cast<std::size_t>(shapes_.max_rows(bucket) * 4));
}

std::uint64_t SimWorld::abort_word(int rank, afdep_error_record* record) {
  const char* window = ranks_[static_cast<std::size_t>(rank)].window;
  elastic::ErrorRecord error;
  std::memcpy(&error, window + elastic::WorkspaceLayout::kError, sizeof(error));
  if (record != nullptr) *record = {error.failure, error.rank, error.token, error.lane, error.expert};
  std::uint64_t word;
  std::memcpy(&word, window + elastic::WorkspaceLayout::kAbort, sizeof(word));
  return word;
}

}  // namespace afdep
