// What a rank is on either target: its Exchange as the shape of its group fills it, and what each call changes in it.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>

#include "shapes.hpp"

namespace afdep {

struct SourceInput {
  const char *x, *scales;
  const void* ids;
  int id_bytes;
  const float* weights;
  int num_tokens;
  const std::int32_t* num_tokens_word;  // null, or how many of num_tokens count
};

// Throws std::invalid_argument when the shape does not fit a GPU of that many SMs.
inline void check_fit(const afdep_shape& shape, const Shapes& shapes, int sm_count) {
  const auto require = [](bool fits, const std::string& what) {
    if (!fits) throw std::invalid_argument(what);
  };
  require(shape.transport_sms >= 1 && shape.transport_sms <= sm_count,
          "transport_sms is " + std::to_string(shape.transport_sms) + ", the machine has " + std::to_string(sm_count) + " SMs");
  for (const LaunchShape& launch : {shapes.copy_launch(), shapes.combine_launch(), shapes.collect_launch(shape.capacity)})
    require(launch.threads > 0, "a record does not fit the machine's shared memory");
  require(shapes.dispatch_launch().threads > 32 * elastic::kNotifyWarps,
          "the count words of " + std::to_string(shapes.num_experts()) + " expert slots and one record do not fit shared memory");
}

// All but windows and calls. `take(bytes)` gives the rank's own memory.
template <class Take>
void fill_exchange(elastic::Exchange& e, const afdep_shape& shape, const Shapes& shapes, int rank, Take&& take) {
  const std::int64_t tokens = shape.capacity, lanes = shape.top_k, local = shapes.experts_per_rank();
  const std::int64_t received = shapes.max_received(shape.capacity), rows = shapes.max_rows(shape.capacity);
  e.rank = rank;
  e.num_ranks = shapes.num_ranks();
  e.num_valid_experts = shape.num_experts;
  e.experts_per_rank = shapes.experts_per_rank();
  e.num_experts = shapes.num_experts();
  e.top_k = shape.top_k;
  e.first_sender = shapes.first_sender();
  e.first_replier = 0;
  e.num_routed_ranks = shape.ffn_ranks;
  e.switches = shape.switches;
  e.inbox_offset = shapes.workspace_bytes();
  e.dispatch = shapes.dispatch();
  e.combine = shapes.combine();
  e.ranked_replies = shapes.ranked_replies();
  e.reduce_prefix = shapes.reduce_prefix();
  e.collect_prefix = shapes.num_reply_regions();
  e.expert_alignment = shape.expert_alignment;
  e.slot_index = reinterpret_cast<int*>(take(tokens * lanes * 4));
  e.rank_prefix = reinterpret_cast<int*>(take(e.num_ranks * 4));
  e.expert_cursor = reinterpret_cast<int*>(take((local + 1) * 4));
  e.expert_offsets = reinterpret_cast<int*>(take((local + 1) * 4));
  e.expert_counts = reinterpret_cast<int*>(take(local * 4));
  e.source_metadata = reinterpret_cast<int*>(take(received * (lanes + 2) * 4));
  e.rows = take(rows * e.dispatch.hidden_bytes);
  e.row_scales = take(rows * e.dispatch.scale_bytes);
  e.row_weights = reinterpret_cast<float*>(take(rows * 4));
}

// Once the windows are known. `windows`: their addresses where the rank's kernels can index them.
inline void set_guard(elastic::Exchange& e, char* const* windows, std::uint64_t timeout_ns) {
  using elastic::WorkspaceLayout;
  char* own = e.windows[e.rank];
  e.guard = prim::make_guard(reinterpret_cast<const std::uint64_t*>(own + WorkspaceLayout::kAbort), own + elastic::workspace(e).wait_record(),
                             timeout_ns, elastic::abort_code(e.rank, elastic::Failure::timed_out),
                             {windows, WorkspaceLayout::kAbort, WorkspaceLayout::kMissing, e.num_ranks});
}

inline void set_dispatch(elastic::Exchange& e, const SourceInput& input, int bucket) {
  e.capacity = bucket;
  e.num_tokens = input.num_tokens;
  e.num_tokens_word = input.num_tokens_word;
  e.x = input.x;
  e.scales = input.scales;
  e.topk_ids = input.ids;
  e.id_bytes = input.id_bytes;
  e.topk_weights = input.weights;
}
inline void set_combine(elastic::Exchange& e, const void* replies, void* y) {
  e.replies = static_cast<const char*>(replies);
  e.y = static_cast<char*>(y);
}

inline afdep_received received_memory(const elastic::Exchange& e, const Shapes& shapes) {
  return {e.rows,          e.row_scales,      e.row_weights, e.expert_offsets,
          e.expert_counts, e.source_metadata, e.rank_prefix, shapes.max_rows(e.capacity)};
}

// Calls `fill(memory, bytes)` for everything an exchange of `bucket` writes on the rank: inbox, expanded rows, their scales and weights.
template <class Fill>
void poison_exchange(const elastic::Exchange& e, const Shapes& shapes, int capacity, int bucket, Fill&& fill) {
  fill(e.windows[e.rank] + e.inbox_offset, shapes.inbox_bytes() / capacity * bucket);
  fill(e.rows, shapes.max_rows(bucket) * e.dispatch.hidden_bytes);
  if (e.dispatch.scale_bytes > 0) fill(e.row_scales, shapes.max_rows(bucket) * e.dispatch.scale_bytes);
  fill(reinterpret_cast<char*>(e.row_weights), shapes.max_rows(bucket) * 4);
}

PRIM_KERNEL void PRIM_LAUNCH_BOUNDS(32) refuse_exchange(PRIM_ARGS(elastic::Exchange) e) {
  if (prim::cta() == 0 && prim::warp() == 0) prim::elect([&] { elastic::report(e, elastic::Failure::refused, -1, -1, -1); });
}

}  // namespace afdep
