// The measurement controls of the directed protocol, as bits. afdep/controls.py lists the same bits by name.
#pragma once

namespace afdep {

enum Switch : unsigned {
  kKeepEntryBarriers = 1u << 0,   // AFDEP_KEEP_ENTRY_BARRIERS
  kUnionNotify = 1u << 1,         // AFDEP_UNION_NOTIFY
  kAllRankExit = 1u << 2,         // AFDEP_ALL_RANK_EXIT
  kGridSyncExit = 1u << 3,        // AFDEP_GRID_SYNC_EXIT
  kUnionBuffers = 1u << 4,        // AFDEP_UNION_BUFFERS
  kUnionReducePrefix = 1u << 5,   // AFDEP_UNION_REDUCE_PREFIX
};

}  // namespace afdep
