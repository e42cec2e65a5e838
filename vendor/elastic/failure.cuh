// A rank that finds a route it cannot serve says so: error record, own abort word, every peer's abort word. It goes on without
// that route, so that no peer waits for what will not come.
#pragma once
#include "exchange.cuh"

namespace elastic {

// Called by one lane. The first report of a rank keeps the record, and the first failure that a rank hears of its abort word. Every
// report tells all ranks before it goes on: another one, of a kernel on another stream, may be on its way to do so.
PRIM_FN_COLD void report(const Exchange& e, Failure failure, int token, int lane, std::int64_t expert) {
  if (prim::fetch_add_gpu(own_word<int>(e, WorkspaceLayout::kErrorCount), 1) == 0)
    prim::store(own_word<ErrorRecord>(e, WorkspaceLayout::kError),
                ErrorRecord{static_cast<std::int32_t>(failure), e.rank, token, lane, expert});
  prim::set_once_release_sys(peer_word<std::uint64_t>(e, e.rank, WorkspaceLayout::kAbort), abort_code(e.rank, failure));
  prim::pass_on_abort(e.guard);
}

// Expert id of (token, lane) at its full width, -1 for no route. One load.
PRIM_FN std::int64_t wide_expert(const Exchange& e, int token, int lane) {
  const std::int64_t index = static_cast<std::int64_t>(token) * e.top_k + lane;
  return e.id_bytes == 8 ? prim::load(static_cast<const std::int64_t*>(e.topk_ids) + index)
                         : prim::load(static_cast<const std::int32_t*>(e.topk_ids) + index);
}
PRIM_FN bool names_expert(const Exchange& e, std::int64_t expert) { return expert >= 0 && expert < e.num_valid_experts; }

// The id as the protocol uses it: no route where it names no expert. Checked at full width before it is narrowed.
PRIM_FN int routed_expert(const Exchange& e, int token, int lane) {
  if (lane >= e.top_k) return -1;
  const std::int64_t expert = wide_expert(e, token, lane);
  return names_expert(e, expert) ? static_cast<int>(expert) : -1;
}

}  // namespace elastic
