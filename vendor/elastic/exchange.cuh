// What every kernel of an exchange is given, and the addresses that follow from it.
#pragma once
#include "format.hpp"
#include "prim.cuh"

namespace elastic {

enum Phase : int { kDispatch = 0, kCombine = 1 };

struct Exchange {
  // ---- the group
  char* windows[kMaxRanks];  // every rank's window as this rank addresses it; the workspace comes first
  int rank, num_ranks;
  int num_valid_experts;     // ids at or above it are no experts
  int experts_per_rank, num_experts;
  int top_k;
  int first_sender, first_replier;  // rank whose region comes first in a dispatch / combine inbox
  int num_routed_ranks;      // ranks that hold experts which routes may name: [0, num_routed_ranks)
  unsigned switches;
  std::int64_t inbox_offset;  // of the exchange buffer in a window
  prim::Guard guard;          // of every wait

  // ---- this call
  int capacity;              // region stride in records, the same on all ranks
  int num_tokens;            // of this rank; the most, where num_tokens_word is set
  const std::int32_t* num_tokens_word;  // how many of them count, read on the device by dispatch and collect alike; or null
  RecordFormat dispatch, combine;
  bool ranked_replies;       // combine regions by replying rank, otherwise by top-k lane
  int reduce_prefix;         // rows of a reply reduced without a branch
  int collect_prefix;        // replies summed without a branch: as many as a token can have
  int expert_alignment;

  // ---- own memory
  const char* x;             // [num_tokens, hidden]
  const char* scales;        // [num_tokens, scale_bytes] or null
  const void* topk_ids;      // [num_tokens, top_k] int32 or int64
  int id_bytes;
  const float* topk_weights;  // [num_tokens, top_k] or null
  int* slot_index;           // [num_tokens, top_k] slot of each destination's master lane, -1 for the others
  int* rank_prefix;          // [num_ranks] inclusive prefix of received tokens
  int* expert_cursor;        // [experts_per_rank + 1] exclusive prefix of rows, consumed as row allocator
  int* expert_offsets;       // [experts_per_rank + 1] the same, kept
  int* expert_counts;        // [experts_per_rank] received rows without padding
  int* source_metadata;      // [received, top_k + 2]: source id, source rank * top_k + master lane, row of each lane or -1
  char* rows;                // [rows, hidden] expert-major
  char* row_scales;          // [rows, scale_bytes]
  float* row_weights;        // [rows]
  const char* replies;       // [rows, hidden] BF16
  char* y;                   // [num_tokens, hidden] BF16
};

// Tokens of this exchange. A word that says more than there is room for, or less than none, counts as none; notify reports it.
PRIM_FN bool is_token_count(const Exchange& e, int tokens) { return tokens >= 0 && tokens <= e.num_tokens; }
PRIM_FN int num_tokens(const Exchange& e) {
  if (e.num_tokens_word == nullptr) return e.num_tokens;
  const int tokens = prim::load(e.num_tokens_word);
  return is_token_count(e, tokens) ? tokens : 0;
}

ELASTIC_HOST_DEVICE inline WorkspaceLayout workspace(const Exchange& e) { return {e.num_ranks, e.num_experts}; }
template <class T>
PRIM_FN T* own_word(const Exchange& e, std::int64_t offset) {
  return reinterpret_cast<T*>(e.windows[e.rank] + offset);
}
template <class T>
PRIM_FN prim::Remote<T> peer_word(const Exchange& e, int peer, std::int64_t offset) {
  prim::expect(peer >= 0 && peer < e.num_ranks, "a peer that is no rank of the group");
  return prim::Remote<T>(reinterpret_cast<T*>(e.windows[peer] + offset));
}

// The abort word: the failure in the high half; in the low one 1 + rank, and above it, after a time-out, 1 + the rank that was missing.
ELASTIC_HOST_DEVICE constexpr std::uint64_t abort_code(int rank, Failure failure) {
  return static_cast<std::uint64_t>(failure) << 32 | static_cast<std::uint64_t>(rank + 1);
}

// Whether the rank had been told to give up by the end of the kernel before. Asked early and used late, so that nobody waits for the
// answer.
PRIM_FN auto gave_up(const Exchange& e) {
  return prim::alike([&] { return prim::aborted(e.guard) ? 1 : 0; });
}

// What this rank received. Where the exchange was given up that is nothing: its counts may then not belong together.
struct Arrived {
  int tokens;
  bool given_up;
};
PRIM_FN Arrived arrived(const Exchange& e) {
  const auto received = prim::alike([&] { return prim::load(e.rank_prefix + e.num_ranks - 1); });
  const auto ended = gave_up(e);
  if (prim::broadcast(ended, 1) == 0) return {prim::broadcast(received, 0), false};
  prim::elect([&] { prim::pass_on_abort(e.guard); });
  return {0, true};
}
PRIM_FN int received_tokens(const Exchange& e) { return arrived(e).tokens; }

// Record `slot` of sender `source` in the dispatch inbox of `owner`.
PRIM_FN std::int64_t dispatch_record(const Exchange& e, int source, int slot) {
  return e.inbox_offset + (static_cast<std::int64_t>(source - e.first_sender) * e.capacity + slot) * e.dispatch.bytes();
}
// The reply to `token` in region `region` of a combine inbox.
PRIM_FN std::int64_t combine_record(const Exchange& e, int region, int token) {
  return e.inbox_offset + (static_cast<std::int64_t>(region) * e.capacity + token) * e.combine.bytes();
}
PRIM_FN int reply_region(const Exchange& e, int replier, int master_lane) {
  return e.ranked_replies ? replier - e.first_replier : master_lane;
}

// Where the shared-memory slot of payload warp `index` starts, behind `reserved` bytes.
PRIM_FN int slot_offset(int reserved, int index, const RecordFormat& format) { return reserved + index * format.slot_bytes(); }
PRIM_FN prim::Mbarrier* slot_mbarrier(int offset, const RecordFormat& format) {
  return prim::shared<prim::Mbarrier>(offset + align_up(format.bytes(), 32));
}

}  // namespace elastic
