// Combine in columns: the received tokens' rows are cut into columns of 512 bytes, and the warps share all of them evenly. Few
// tokens are spread over many warps, many leave none idle; and the loads of eight rows of a column go out together. Up to two
// consecutive columns of a token go back as one bulk store. Slots are small, for loads in flight need room in L1: with an SM's
// memory all shared memory, they bring half of what they can. Same sums, same order, same bits as combine.cuh.
#pragma once
#include "combine.cuh"

namespace elastic {

namespace columns_detail {

constexpr int kColumnBytes = 512;  // 16 bytes a lane
constexpr int kTogether = 8;       // rows of one batch of loads
constexpr int kStored = 2;         // columns of one bulk store
constexpr int kListBytes = kMaxTopK * 4;
constexpr int kSlotBytes = kListBytes + kStored * kColumnBytes;

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

// Vector v of the sum of exactly eight rows: ahead of each load stands one instruction, its address. Starting at the first row is
// starting at -0.
PRIM_FN prim::Vec16 add_eight(const Rows& rows, int v) {
  const auto* list = reinterpret_cast<const prim::Vec16*>(rows.list);
  const prim::Vec16 index[2] = {list[0], list[1]};
  const char* column = rows.base + static_cast<std::int64_t>(v) * 16;
  const auto stride = static_cast<std::uint32_t>(rows.stride);
  prim::Vec16 part[kTogether];
  PRIM_UNROLL
  for (int k = 0; k < kTogether; ++k) part[k] = prim::load_streaming(reinterpret_cast<const prim::Vec16*>(column + static_cast<std::uint64_t>(index[k / 4].word[k % 4]) * stride));
  float sum[8];
  PRIM_UNROLL
  for (int w = 0; w < 4; ++w) {
    sum[2 * w] = prim::bf16_to_float(part[0].word[w] & 0xffffu);
    sum[2 * w + 1] = prim::bf16_to_float(part[0].word[w] >> 16);
  }
  PRIM_UNROLL
  for (int k = 1; k < kTogether; ++k) reduce_detail::accumulate(sum, part[k]);
  return reduce_detail::round_to_bf16(sum);
}

// Vector v of the sum. It starts at -0, so that adding the first row gives that row, bit for bit; an only row is copied.
PRIM_FN prim::Vec16 add_vector(const Rows& rows, int v) {
  if (rows.count == kTogether) return add_eight(rows, v);
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

// Where the reply to a token goes.
struct Destination {
  int source;
  std::int64_t record;
};

// Bytes [first_byte, past) of a token's sum through the slot, and away.
PRIM_FN void reply_segment(const Exchange& e, const Rows& rows, const Destination& to, int first_byte, int past, char* sums) {
  for (int at = first_byte; at < past; at += kColumnBytes) {
    const int n = smaller(kColumnBytes, past - at) / 16;
    charge_column(rows, at, n * 16);
    prim::Lanes<prim::Vec16> sum;
    prim::each_lane([&](int l) {
      if (prim::payload() && l < n) sum.at(l) = add_vector(rows, at / 16 + l);
    });
    if (at == first_byte) prim::bulk_wait_read();
    prim::each_lane([&](int l) {
      if (prim::payload() && l < n) reinterpret_cast<prim::Vec16*>(sums + (at - first_byte))[l] = sum.at(l);
    });
  }
  prim::fence_proxy_async();
  prim::sync_warp();
  prim::elect([&] { prim::bulk_store(peer_word<char>(e, to.source, to.record + first_byte), sums, past - first_byte); });
  prim::bulk_commit();
}

// Columns [from, to) of the reply to received token i.
PRIM_FN void reply_columns(const Exchange& e, int i, int from, int to, int slot) {
  prim::begin_task(i);
  int* list = prim::shared<int>(slot);
  const int* metadata = e.source_metadata + static_cast<std::int64_t>(i) * (e.top_k + 2);
  const auto field = prim::lanes([&](int l) { return l < 2 ? prim::load(metadata + l) : 0; });
  const auto row = prim::lanes([&](int l) { return l < e.top_k ? prim::load(metadata + 2 + l) : -1; });
  const int source_id = prim::broadcast(field, 0), master = prim::broadcast(field, 1) % e.top_k;
  const Rows rows{e.replies, e.combine.hidden_bytes, list, compact(row, list)};
  const Destination reply{source_id / e.capacity, combine_record(e, reply_region(e, e.rank, master), source_id % e.capacity)};
  const int past = smaller(to * kColumnBytes, e.combine.hidden_bytes);
  for (int at = from * kColumnBytes; at < past; at += kStored * kColumnBytes)
    reply_segment(e, rows, reply, at, smaller(at + kStored * kColumnBytes, past), prim::shared<char>(slot + kListBytes));
}

// All columns in contiguous shares, one a warp; warps are numbered SM first and rotated by rank, so that peers start elsewhere.
PRIM_FN void reply_shares(const Exchange& e) {
  const int slot = prim::warp() * kSlotBytes;
  const int columns = columns_of(e.combine.hidden_bytes), total = received_tokens(e) * columns;
  const int warps = prim::num_ctas() * prim::num_warps();
  const int index = ((prim::warp() + e.rank) % prim::num_warps()) * prim::num_ctas() + prim::cta();
  const int share = total / warps, longer = total % warps;
  const int first = index * share + smaller(index, longer), end = first + share + (index < longer ? 1 : 0);
  for (int at = first; at < end;) {
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
