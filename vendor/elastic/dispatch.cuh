// Dispatch: every token goes once to each rank that holds one of its experts, as one record in the sender's region there.
#pragma once
#include "notify.cuh"

namespace elastic {

// Records that a payload warp's token goes out as: destination ranks once each, at the highest lane that names them.
namespace dispatch_detail {

// Ids, weights and the token's source id into the record in shared memory.
PRIM_FN void write_metadata(const Exchange& e, int token, char* record, const prim::Lanes<int>& expert) {
  auto* ids = reinterpret_cast<int*>(record + e.dispatch.metadata_offset());
  auto* weights = reinterpret_cast<float*>(ids + e.top_k);
  prim::each_lane([&](int l) {
    if (l < e.top_k) {
      ids[l] = expert.at(l);
      weights[l] = e.topk_weights != nullptr ? prim::load(e.topk_weights + static_cast<std::int64_t>(token) * e.top_k + l) : 0.0f;
    }
    if (l == 0) ids[2 * e.top_k] = e.rank * e.capacity + token;
  });
}

// Scale factors travel as opaque 4-byte words behind the hidden row.
PRIM_FN void write_scales(const Exchange& e, int token, char* record) {
  const int words = e.dispatch.scale_bytes / 4;
  if (words == 0) return;
  const char* from = e.scales + static_cast<std::int64_t>(token) * e.dispatch.scale_bytes;
  prim::charge_load(from, e.dispatch.scale_bytes);
  prim::for_vectors(words, [&](int i) {
    reinterpret_cast<std::uint32_t*>(record + e.dispatch.scales_offset())[i] = reinterpret_cast<const std::uint32_t*>(from)[i];
  });
}

// One token through this warp's shared-memory slot. A rank that gave up sends nothing: a receiver may still read its records of an
// exchange before.
template <class Ended>
PRIM_FN void send_token(const Exchange& e, int token, int slot, std::uint32_t parity, const Ended& ended) {
  prim::begin_task(token);
  char* record = prim::shared<char>(slot);
  prim::Mbarrier* loaded = slot_mbarrier(slot, e.dispatch);
  prim::bulk_wait();
  prim::elect([&] {
    prim::mbarrier_expect(loaded, e.dispatch.hidden_bytes);
    prim::bulk_load(record, e.x + static_cast<std::int64_t>(token) * e.dispatch.hidden_bytes, e.dispatch.hidden_bytes, loaded);
  });
  write_scales(e, token, record);
  const auto expert = prim::lanes([&](int l) { return routed_expert(e, token, l); });
  write_metadata(e, token, record, expert);
  prim::fence_proxy_async();
  prim::sync_warp();
  const auto owner = prim::lanes([&](int l) { return expert.at(l) < 0 ? -1 - l : expert.at(l) / e.experts_per_rank; });
  const auto peers = prim::match(owner);
  const auto index = prim::lanes([&](int l) {
    if (owner.at(l) < 0 || prim::highest_bit(peers.at(l)) != l) return -1;
    return prim::fetch_add_gpu(own_word<int>(e, workspace(e).slots()) + owner.at(l), 1);
  });
  prim::each_lane([&](int l) {
    if (l < e.top_k) prim::store(e.slot_index + static_cast<std::int64_t>(token) * e.top_k + l, index.at(l));
  });
  prim::mbarrier_wait(loaded, parity);
  const bool silent = prim::broadcast(ended, 0) != 0;
  prim::each_lane([&](int l) {
    if (index.at(l) < 0 || silent) return;
    prim::bulk_store(peer_word<char>(e, owner.at(l), dispatch_record(e, e.rank, index.at(l))), record, e.dispatch.bytes());
  });
  prim::bulk_commit();
}

PRIM_FN void send_tokens(const Exchange& e) {
  const int index = prim::warp() - kNotifyWarps, warps = prim::num_warps() - kNotifyWarps;
  const int slot = slot_offset(notify_bytes(e.num_ranks, e.num_experts), index, e.dispatch);
  prim::elect([&] {
    prim::mbarrier_init(slot_mbarrier(slot, e.dispatch), 1);
    prim::fence_mbarrier_init();
  });
  prim::sync_warp();
  const int tokens = num_tokens(e);
  const auto ended = gave_up(e);
  std::uint32_t parity = 0;
  for (int t = prim::cta() + index * prim::num_ctas(); t < tokens; t += prim::num_ctas() * warps, parity ^= 1)
    send_token(e, t, slot, parity, ended);
  // Ahead of close(): what this rank releases reaches nobody who could not know that its records are missing.
  if (prim::broadcast(ended, 0) != 0) prim::elect([&] { prim::pass_on_abort(e.guard); });
}

}  // namespace dispatch_detail

template <class Protocol>
PRIM_KERNEL void PRIM_LAUNCH_BOUNDS(1024) dispatch(PRIM_ARGS(Exchange) e) {
  Protocol::open(e, kDispatch);
  if (prim::warp() < kNotifyWarps)
    notify<Protocol>(e);
  else
    dispatch_detail::send_tokens(e);
  Protocol::close(e, kDispatch);
  Protocol::trigger();
  Protocol::reset_slots(e);
}

}  // namespace elastic
