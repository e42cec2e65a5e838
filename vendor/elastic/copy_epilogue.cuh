// The second kernel of a dispatch: spreads each received record over the rows of its local experts. One warp a token.
#pragma once
#include "exchange.cuh"

namespace elastic {

namespace copy_detail {

// Record i of the received ones: a warp walks the rank prefix to its source.
PRIM_FN std::int64_t received_record(const Exchange& e, int i) {
  int source = 0, before = 0;
  for (; source < e.num_ranks - 1 && e.rank_prefix[source] <= i; ++source) before = e.rank_prefix[source];
  prim::charge_load(e.rank_prefix, e.num_ranks * 4);
  return dispatch_record(e, source, i - before);
}

// Weight, scales and the way back of one token's rows.
PRIM_FN void write_sides(const Exchange& e, int i, const char* record, const prim::Lanes<int>& row) {
  const auto* ids = reinterpret_cast<const int*>(record + e.dispatch.metadata_offset());
  const auto* weights = reinterpret_cast<const float*>(ids + e.top_k);
  int* metadata = e.source_metadata + static_cast<std::int64_t>(i) * (e.top_k + 2);
  const std::uint32_t local = prim::ballot(prim::lanes([&](int l) { return row.at(l) >= 0; }));
  prim::each_lane([&](int l) {
    if (l < e.top_k) prim::store(metadata + 2 + l, row.at(l));
    if (row.at(l) >= 0) prim::store(e.row_weights + row.at(l), weights[l]);
    if (l != 0) return;
    const int source_id = ids[2 * e.top_k];
    prim::store(metadata, source_id);
    prim::store(metadata + 1, source_id / e.capacity * e.top_k + (local != 0 ? prim::highest_bit(local) : 0));
  });
  const int words = e.dispatch.scale_bytes / 4;
  if (words == 0) return;
  const auto* scales = reinterpret_cast<const std::uint32_t*>(record + e.dispatch.scales_offset());
  for (int k = 0; k < e.top_k; ++k) {
    const int to = prim::broadcast(row, k);
    if (to < 0) continue;
    auto* row_scales = reinterpret_cast<std::uint32_t*>(e.row_scales + static_cast<std::int64_t>(to) * e.dispatch.scale_bytes);
    prim::charge_store(row_scales, e.dispatch.scale_bytes);
    prim::for_vectors(words, [&](int word) { row_scales[word] = scales[word]; });
  }
}

PRIM_FN void expand_token(const Exchange& e, int i, int slot, std::uint32_t parity) {
  prim::begin_task(i);
  char* record = prim::shared<char>(slot);
  prim::Mbarrier* loaded = slot_mbarrier(slot, e.dispatch);
  const char* inbox = own_word<char>(e, received_record(e, i));
  prim::bulk_wait();
  prim::elect([&] {
    prim::mbarrier_expect(loaded, e.dispatch.bytes());
    prim::bulk_load(record, inbox, e.dispatch.bytes(), loaded);
  });
  // The ids come straight from the inbox, so that rows are allocated while the record is on its way.
  const int first = e.rank * e.experts_per_rank;
  const auto* ids = reinterpret_cast<const int*>(inbox + e.dispatch.metadata_offset());
  const auto local = prim::lanes([&](int l) {
    const int expert = l < e.top_k ? prim::load(ids + l) - first : -1;
    return expert >= 0 && expert < e.experts_per_rank ? expert : -1;
  });
  const auto row = prim::lanes([&](int l) { return local.at(l) < 0 ? -1 : prim::fetch_add_gpu(e.expert_cursor + local.at(l), 1); });
  prim::mbarrier_wait(loaded, parity);
  prim::each_lane([&](int l) {
    if (row.at(l) >= 0)
      prim::bulk_store(e.rows + static_cast<std::int64_t>(row.at(l)) * e.dispatch.hidden_bytes, record, e.dispatch.hidden_bytes);
  });
  prim::bulk_commit();
  write_sides(e, i, record, row);
}

// Zero rows between an expert's last row and the next expert's first.
PRIM_FN void pad_experts(const Exchange& e) {
  const prim::Vec16 zero{};
  for (int expert = prim::cta(); expert < e.experts_per_rank; expert += prim::num_ctas())
    for (int row = e.expert_offsets[expert] + e.expert_counts[expert] + prim::warp(); row < e.expert_offsets[expert + 1]; row += prim::num_warps()) {
      auto* to = reinterpret_cast<prim::Vec16*>(e.rows + static_cast<std::int64_t>(row) * e.dispatch.hidden_bytes);
      prim::charge_store(to, e.dispatch.hidden_bytes);
      prim::for_vectors(e.dispatch.hidden_bytes / 16, [&](int v) { to[v] = zero; });
      prim::for_vectors(e.dispatch.scale_bytes / 4, [&](int word) {
        reinterpret_cast<std::uint32_t*>(e.row_scales + static_cast<std::int64_t>(row) * e.dispatch.scale_bytes)[word] = 0;
      });
      prim::elect([&] { prim::store(e.row_weights + row, 0.0f); });
    }
}

// What was given up has no rows: whoever follows the offsets finds none, however many the counts spoke of.
PRIM_FN void forget_rows(const Exchange& e) {
  if (prim::cta() != 0 || prim::warp() != 0) return;
  prim::for_strided(0, 1, e.experts_per_rank + 1, [&](int i) { prim::store(e.expert_offsets + i, 0); });
  prim::for_strided(0, 1, e.experts_per_rank, [&](int i) { prim::store(e.expert_counts + i, 0); });
}

}  // namespace copy_detail

PRIM_KERNEL void PRIM_LAUNCH_BOUNDS(1024) copy_epilogue(PRIM_ARGS(Exchange) e) {
  const int slot = slot_offset(0, prim::warp(), e.dispatch);
  prim::elect([&] {
    prim::mbarrier_init(slot_mbarrier(slot, e.dispatch), 1);
    prim::fence_mbarrier_init();
  });
  prim::sync_warp();
  prim::wait_for_predecessor();
  const Arrived here = arrived(e);
  if (here.given_up) return copy_detail::forget_rows(e);
  std::uint32_t parity = 0;
  for (int i = prim::cta() + prim::warp() * prim::num_ctas(); i < here.tokens; i += prim::num_ctas() * prim::num_warps(), parity ^= 1)
    copy_detail::expand_token(e, i, slot, parity);
  if (e.expert_alignment > 1) copy_detail::pad_experts(e);
  prim::bulk_wait();
}

}  // namespace elastic
