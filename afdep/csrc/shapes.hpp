// Sizes that follow from an exchange's shape: records, windows, launches. Host only; afdep/window.py states the same rules.
#pragma once
#include <algorithm>
#include <cstdint>

#include "../../vendor/elastic/combine_columns.cuh"
#include "../../vendor/elastic/copy_epilogue.cuh"
#include "../../vendor/elastic/notify.cuh"
#include "../../vendor/elastic/reduce_epilogue.cuh"
#include "abi.h"
#include "switches.hpp"

namespace afdep {

struct LaunchShape {
  int grid, threads, shared_bytes;
  bool leaves_l1 = false;  // an SM's L1 is what shared memory leaves, and loads in flight need room there
};

class Shapes {
 public:
  Shapes(const afdep_shape& shape, int sm_count, int shared_bytes_per_cta)
      : shape_(shape), sm_count_(sm_count), shared_bytes_(shared_bytes_per_cta) {}

  int num_ranks() const { return shape_.attention_ranks + shape_.ffn_ranks; }
  int experts_per_rank() const { return shape_.num_experts / shape_.ffn_ranks; }
  int num_experts() const { return experts_per_rank() * num_ranks(); }
  bool directed() const { return shape_.protocol == AFDEP_PROTOCOL_DIRECTED; }
  bool role_sized() const { return directed() && (shape_.switches & kUnionBuffers) == 0; }
  bool ranked_replies() const { return num_ranks() <= shape_.top_k; }
  int first_sender() const { return role_sized() ? shape_.ffn_ranks : 0; }
  int num_senders() const { return role_sized() ? shape_.attention_ranks : num_ranks(); }
  int num_reply_regions() const { return !ranked_replies() ? shape_.top_k : role_sized() ? shape_.ffn_ranks : num_ranks(); }
  // One rank holds all experts: every row of a token is local there, and a token has one reply at most.
  bool one_replier() const { return directed() && shape_.ffn_ranks == 1 && (shape_.switches & kUnionReducePrefix) == 0; }
  // Rows of a local reduction that are loaded without a branch.
  int reduce_prefix() const {
    if (one_replier()) return shape_.top_k;
    return (shape_.top_k + num_ranks() - 1) / num_ranks();
  }

  elastic::RecordFormat dispatch() const {
    const int groups = (shape_.hidden + 127) / 128;
    const bool fp8 = shape_.dtype != AFDEP_DTYPE_BF16;
    const int scale_bytes = shape_.dtype == AFDEP_DTYPE_FP8_FP32 ? groups * 4 : fp8 ? (groups + 3) / 4 * 4 : 0;
    return elastic::dispatch_format(fp8 ? shape_.hidden : shape_.hidden * 2, scale_bytes, shape_.top_k);
  }
  elastic::RecordFormat combine() const { return elastic::combine_format(shape_.hidden, shape_.top_k); }

  std::int64_t inbox_bytes() const {
    const std::int64_t records = shape_.capacity;
    return std::max(num_senders() * records * dispatch().bytes(), num_reply_regions() * records * combine().bytes());
  }
  std::int64_t workspace_bytes() const { return elastic::WorkspaceLayout{num_ranks(), num_experts()}.bytes(); }
  std::int64_t window_bytes() const { return workspace_bytes() + inbox_bytes(); }
  // Received tokens and expanded rows that `bucket` tokens a source can become.
  std::int64_t max_received(int bucket) const { return static_cast<std::int64_t>(directed() ? shape_.attention_ranks : num_ranks()) * bucket; }
  std::int64_t max_rows(int bucket) const {
    const std::int64_t lanes = std::min(shape_.top_k, experts_per_rank());
    const std::int64_t alignment = shape_.expert_alignment;
    return (max_received(bucket) * lanes + (alignment - 1) * experts_per_rank() + alignment - 1) / alignment * alignment;
  }

  LaunchShape dispatch_launch() const {
    const int reserved = elastic::notify_bytes(num_ranks(), num_experts());
    return {shape_.transport_sms, 32 * (elastic::kNotifyWarps + warps(reserved, dispatch().slot_bytes(), 28)), shared_bytes_};
  }
  LaunchShape copy_launch() const { return {sm_count_, 32 * warps(0, dispatch().slot_bytes(), 32), shared_bytes_}; }
  LaunchShape combine_launch() const {
    if (one_replier()) return columns_launch();
    return {shape_.transport_sms, 32 * warps(0, combine().slot_bytes(), 32), shared_bytes_};
  }
  // The fourth kernel of an exchange of at most `tokens` of the rank's own.
  LaunchShape collect_launch(int tokens) const {
    if (one_replier()) return copy_replies_launch(tokens);
    return {sm_count_, 32 * warps(0, elastic::reduce_slot_bytes(shape_.hidden * 2, shape_.top_k), 32), shared_bytes_};
  }

 private:
  LaunchShape columns_launch() const {
    const int slot = elastic::columns_detail::kSlotBytes, each = warps(0, slot, 32);
    return {shape_.transport_sms, 32 * each, each * slot, true};
  }
  // A warp a token, as far as SMs and slots go.
  LaunchShape copy_replies_launch(int tokens) const {
    const int slot = combine().slot_bytes(), grid = std::clamp(tokens, 1, sm_count_);
    const int each = std::clamp((tokens + grid - 1) / grid, 1, warps(0, slot, 32));
    return {grid, 32 * each, each * slot};
  }
  // As many warps as have a shared-memory slot, at most `most`; zero when not even one fits.
  int warps(int reserved, int slot_bytes, int most) const { return std::clamp((shared_bytes_ - reserved) / slot_bytes, 0, most); }

  afdep_shape shape_;
  int sm_count_, shared_bytes_;
};

}  // namespace afdep
