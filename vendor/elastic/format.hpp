// Record formats and window layout, shared by host and device. All sizes are bytes unless the name says otherwise.
#pragma once
#include <cstdint>

#ifdef __CUDACC__
#define ELASTIC_HOST_DEVICE __host__ __device__
#else
#define ELASTIC_HOST_DEVICE
#endif

namespace elastic {

constexpr int kMaxRanks = 128;
constexpr int kMaxTopK = 32;
constexpr int kMbarrierBytes = 32;  // what a shared-memory slot holds behind its record

ELASTIC_HOST_DEVICE constexpr int round_up(int n, int to) { return (n + to - 1) / to * to; }
// The same where `to` is a power of two.
ELASTIC_HOST_DEVICE constexpr int align_up(int n, int to) { return (n + to - 1) & -to; }

// One token in flight: [hidden][scales, padded to 32][metadata, padded to 32].
struct RecordFormat {
  int hidden_bytes, scale_bytes, metadata_bytes;

  ELASTIC_HOST_DEVICE constexpr int scales_offset() const { return hidden_bytes; }
  ELASTIC_HOST_DEVICE constexpr int metadata_offset() const {
    return hidden_bytes + align_up(scale_bytes, 32);
  }
  ELASTIC_HOST_DEVICE constexpr int bytes() const { return metadata_offset() + align_up(metadata_bytes, 32); }
  ELASTIC_HOST_DEVICE constexpr int slot_bytes() const { return align_up(bytes() + kMbarrierBytes, 32); }
};

// Dispatch metadata: top_k int32 expert ids, top_k fp32 weights, int32 source id (rank * capacity + token), top_k int32 list
// positions (for protocols over several domains; always carried).
ELASTIC_HOST_DEVICE constexpr RecordFormat dispatch_format(int hidden_bytes, int scale_bytes, int top_k) {
  return {hidden_bytes, scale_bytes, (3 * top_k + 1) * 4};
}
// Combine: a BF16 row, top_k ints and top_k fp32 weights.
ELASTIC_HOST_DEVICE constexpr RecordFormat combine_format(int hidden, int top_k) { return {hidden * 2, 0, 2 * top_k * 4}; }

// The words of a rank's workspace, which lies at the start of its window.
struct WorkspaceLayout {
  int num_ranks, num_experts;  // logical experts: num_ranks * experts_per_rank

  static constexpr int kBarrierRound = 0;      // u64, own rank
  static constexpr int kBarrierSignals = 8;    // 2 x s32, every rank adds
  static constexpr int kAbort = 16;            // u64: zero, or who gave up and why
  static constexpr int kErrorCount = 24;       // s32, own rank
  static constexpr int kError = 32;            // ErrorRecord
  static constexpr int kFinishedCtas = 96;     // s32, own rank
  static constexpr int kMissing = 100;         // s32: 1 + the rank that a wait of this rank misses, for others to read
  static constexpr int kRounds = 104;          // u64 a phase: exchanges this rank has received
  static constexpr int kCountRound = 120;      // u64: count exchanges done, where counts alternate between two copies
  static constexpr int kArrivals = 128;        // u64 [phase][rank]: arrivals of each sender

  ELASTIC_HOST_DEVICE constexpr int arrival(int phase, int sender) const {
    return kArrivals + (phase * num_ranks + sender) * 8;
  }
  // s32 a destination: next free slot of its region
  ELASTIC_HOST_DEVICE constexpr int slots() const { return align_up(arrival(2, 0), 128); }
  // s64 [ranks + experts]: high 32 bits arrivals of this rank's CTAs, low 32 bits the sum of their counts
  ELASTIC_HOST_DEVICE constexpr int reduction() const { return align_up(slots() + num_ranks * 4, 128); }
  // s64 [copy][source][1 + experts a rank]: -(count) - 1, zero while it has not arrived
  ELASTIC_HOST_DEVICE constexpr int counts(int copy) const {
    return reduction() + (1 + copy) * (num_ranks + num_experts) * 8;
  }
  // What the own rank's first wait to time out says of itself
  ELASTIC_HOST_DEVICE constexpr int wait_record() const { return align_up(counts(2), 128); }
  ELASTIC_HOST_DEVICE constexpr int bytes() const { return align_up(wait_record() + 128, 2 << 20); }
};

// What a rank that gives up leaves behind.
enum class Failure : std::int32_t {
  none = 0,
  expert_out_of_range = 1,
  duplicate_expert = 2,
  refused = 3,
  num_tokens_out_of_range = 4,  // `token` holds the most, `expert` what the word said
  other_bucket = 5,             // `token` holds the own one, `lane` the rank that passed another, `expert` what it passed
  timed_out = 6,                // no ErrorRecord, but a WaitRecord
};
struct ErrorRecord {
  std::int32_t failure, rank, token, lane;
  std::int64_t expert;
};

}  // namespace elastic
