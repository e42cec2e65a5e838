// Combine in columns: the received tokens' rows are cut into columns of 512 bytes, and the warps share all of them evenly. Few
// tokens are spread over many warps, many leave none idle; and the loads of eight rows of a column go out together. A warp's
// consecutive columns of one token go back as one bulk store. Same sums, same order, same bits as combine.cuh.
#pragma once
#include "combine.cuh"

namespace elastic {

namespace columns_detail {

constexpr int kColumnBytes = 512;  // 16 bytes a lane
constexpr int kTogether = 8;       // rows of one batch of loads

PRIM_FN int smaller(int a, int b) { return a < b ? a : b; }
PRIM_FN int columns_of(int hidden_bytes) { return (hidden_bytes + kColumnBytes - 1) / kColumnBytes; }

PRIM_FN void charge_column(const Rows& rows, int offset, int bytes) {
  for (int first = 0; first < rows.count; first += kTogether) {
    prim::Gather together;
    int k = first;
    for (; k < rows.count && k < first + kTogether; ++k) together.add(rows.row(k) + offset, bytes);
    together.wait();
    prim::charge_accumulate(k - first);
  }
}

// Vector v of the sum. It starts at -0, so that adding the first row gives that row, bit for bit; an only row is copied.
PRIM_FN prim::Vec16 add_vector(const Rows& rows, int v) {
  float sum[8];
  PRIM_UNROLL
  for (int j = 0; j < 8; ++j) sum[j] = rows.count > 0 ? -0.0f : 0.0f;
  prim::Vec16 only{};
  for (int first = 0; first < rows.count; first += kTogether) {
    reduce_detail::Part<1> part[kTogether];
    PRIM_UNROLL
    for (int k = 0; k < kTogether; ++k) part[k] = reduce_detail::load_part<1>(rows, first + k, v, first + k < rows.count);
    PRIM_UNROLL
    for (int k = 0; k < kTogether; ++k) reduce_detail::accumulate(sum, part[k].vector[0]);
    only = part[0].vector[0];
  }
  return rows.count == 1 ? only : reduce_detail::round_to_bf16(sum);
}

// Columns [from, to) of the reply to received token i.
PRIM_FN void reply_columns(const Exchange& e, int i, int from, int to, int slot) {
  prim::begin_task(i);
  char* record = prim::shared<char>(slot);
  int* list = reinterpret_cast<int*>(record + e.combine.metadata_offset());
  const int* metadata = e.source_metadata + static_cast<std::int64_t>(i) * (e.top_k + 2);
  const auto field = prim::lanes([&](int l) { return l < 2 ? prim::load(metadata + l) : 0; });
  const auto row = prim::lanes([&](int l) { return l < e.top_k ? prim::load(metadata + 2 + l) : -1; });
  const int source_id = prim::broadcast(field, 0), master = prim::broadcast(field, 1) % e.top_k;
  const Rows rows{e.replies, e.combine.hidden_bytes, list, compact(row, list)};
  const int first_byte = from * kColumnBytes, past = smaller(to * kColumnBytes, e.combine.hidden_bytes);
  for (int at = first_byte; at < past; at += kColumnBytes) {
    const int n = smaller(kColumnBytes, past - at) / 16;
    charge_column(rows, at, n * 16);
    prim::Lanes<prim::Vec16> sum;
    prim::each_lane([&](int l) {
      if (prim::payload() && l < n) sum.at(l) = add_vector(rows, at / 16 + l);
    });
    if (at == first_byte) prim::bulk_wait_read();
    prim::each_lane([&](int l) {
      if (prim::payload() && l < n) reinterpret_cast<prim::Vec16*>(record)[at / 16 + l] = sum.at(l);
    });
  }
  prim::fence_proxy_async();
  prim::sync_warp();
  prim::elect([&] {
    const std::int64_t reply = combine_record(e, reply_region(e, e.rank, master), source_id % e.capacity);
    prim::bulk_store(peer_word<char>(e, source_id / e.capacity, reply + first_byte), record + first_byte, past - first_byte);
  });
  prim::bulk_commit();
}

// All columns in contiguous shares, one a warp; warps are numbered SM first and rotated by rank, so that peers start elsewhere.
PRIM_FN void reply_shares(const Exchange& e) {
  const int slot = slot_offset(0, prim::warp(), e.combine);
  const int columns = columns_of(e.combine.hidden_bytes), total = received_tokens(e) * columns;
  const int warps = prim::num_ctas() * prim::num_warps();
  const int index = ((prim::warp() + e.rank) % prim::num_warps()) * prim::num_ctas() + prim::cta();
  const int share = (total + warps - 1) / warps, end = smaller((index + 1) * share, total);
  for (int at = index * share; at < end;) {
    const int token = at / columns, past = smaller((token + 1) * columns, end);
    reply_columns(e, token, at - token * columns, past - token * columns, slot);
    at = past;
  }
}

}  // namespace columns_detail

template <class Protocol>
PRIM_KERNEL void PRIM_LAUNCH_BOUNDS(1024) combine_columns(PRIM_ARGS(Exchange) e) {
  Protocol::open(e, kCombine);
  columns_detail::reply_shares(e);
  Protocol::close(e, kCombine);
  Protocol::trigger();
}

}  // namespace elastic
