// The reduction of a token's rows: one warp, 16-byte vectors, FP32 accumulation in list order, one rounding to BF16. A chunk is
// kUnroll vectors a lane. Rows below the prefix are loaded together without a branch; each further row is awaited before the next.
#pragma once
#include "exchange.cuh"

namespace elastic {

// The largest of 4, 3, 2, 1 vectors a lane that divides a row.
PRIM_FN int reduce_unroll(int hidden_bytes) {
  for (int unroll = 4; unroll > 1; --unroll)
    if (hidden_bytes % (unroll * 512) == 0) return unroll;
  return 1;
}

// Rows of one reduction: `list` in shared memory holds their indices, `stride` bytes apart from `base`.
struct Rows {
  const char* base;
  std::int64_t stride;
  const int* list;
  int count;

  PRIM_FN const char* row(int k) const { return base + list[k] * stride; }
};

namespace reduce_detail {

PRIM_FN void accumulate(float* sum, const prim::Vec16& v) {
  PRIM_UNROLL
  for (int w = 0; w < 4; ++w) {
    sum[2 * w] += prim::bf16_to_float(v.word[w] & 0xffffu);
    sum[2 * w + 1] += prim::bf16_to_float(v.word[w] >> 16);
  }
}
PRIM_FN prim::Vec16 round_to_bf16(const float* sum) {
  prim::Vec16 v;
  PRIM_UNROLL
  for (int w = 0; w < 4; ++w) v.word[w] = prim::float_to_bf16(sum[2 * w]) | prim::float_to_bf16(sum[2 * w + 1]) << 16;
  return v;
}

// What the loads and additions of one chunk cost.
PRIM_FN void charge_chunk(const Rows& rows, int prefix, int offset, int bytes, int unroll) {
  prim::Gather together;
  int k = 0;
  for (; k < rows.count && k < prefix; ++k) together.add(rows.row(k) + offset, bytes);
  together.wait();
  if (rows.count <= 2) {
    prim::charge_packed_add(unroll);
    return;
  }
  prim::charge_accumulate(k * unroll);
  for (; k < rows.count; ++k) {
    prim::Gather next;
    next.add(rows.row(k) + offset, bytes);
    next.wait();
    prim::charge_accumulate(unroll);
  }
}

// One vector of the result. A sum starts at -0 so that adding the first row gives that row, bit for bit.
PRIM_FN prim::Vec16 reduce_vector(const Rows& rows, int prefix, int v) {
  const auto* only = reinterpret_cast<const prim::Vec16*>(rows.row(0)) + v;
  if (rows.count == 1) return prim::load_streaming(only);
  float sum[8];
  PRIM_UNROLL
  for (int j = 0; j < 8; ++j) sum[j] = rows.count > 0 ? -0.0f : 0.0f;
  for (int k = 0; k < rows.count; ++k) accumulate(sum, prim::load_streaming(reinterpret_cast<const prim::Vec16*>(rows.row(k)) + v));
  (void)prefix;
  return round_to_bf16(sum);
}

}  // namespace reduce_detail

// Reduces `rows` into the BF16 row `to` in shared memory. `before_first_store` runs behind the first chunk's loads: the place
// to wait for the bulk store that still reads `to`.
template <class BeforeFirstStore>
PRIM_FN void reduce_rows(const Rows& rows, int prefix, int hidden_bytes, char* to, BeforeFirstStore&& before_first_store) {
  const int unroll = reduce_unroll(hidden_bytes), chunk = unroll * 32, vectors = hidden_bytes / 16;
  for (int first = 0; first < vectors; first += chunk) {
    const int n = first + chunk < vectors ? chunk : vectors - first;
    reduce_detail::charge_chunk(rows, rows.count <= 2 ? 2 : prefix, first * 16, n * 16, unroll);
    if (first == 0) before_first_store();
    if (!prim::payload()) continue;
    prim::for_vectors(n, [&](int v) {
      reinterpret_cast<prim::Vec16*>(to)[first + v] = reduce_detail::reduce_vector(rows, prefix, first + v);
    });
  }
}

// Compacts the lanes that hold a value >= 0 to the front of `list`, in lane order; returns how many.
PRIM_FN int compact(const prim::Lanes<int>& value, int* list) {
  const std::uint32_t valid = prim::ballot(prim::lanes([&](int l) { return value.at(l) >= 0; }));
  prim::each_lane([&](int l) {
    if (value.at(l) >= 0) list[prim::popcount(valid & ((1u << l) - 1u))] = value.at(l);
  });
  prim::sync_warp();
  return prim::popcount(valid);
}

}  // namespace elastic
