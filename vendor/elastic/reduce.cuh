// The reduction of a token's rows: one warp, 16-byte vectors, FP32 accumulation in list order, one rounding to BF16. A chunk is
// kUnroll vectors a lane. Rows below the prefix are loaded together without a branch; each further row is awaited before the next.
// The host chooses the machine code: the unrolling that divides a row, and the largest prefix there is up to the wanted one.
#pragma once
#include "exchange.cuh"

namespace elastic {

// The largest of 4, 3, 2, 1 vectors a lane that divides a row.
ELASTIC_HOST_DEVICE constexpr int reduce_unroll(int hidden_bytes) {
  for (int unroll = 4; unroll > 1; --unroll)
    if (hidden_bytes % (unroll * 512) == 0) return unroll;
  return 1;
}
// The registers of a reduction follow its launch: the fewest threads of 512, 896 and 1,024 that cover a CTA bound its machine code,
// where rows are long enough to leave room for fewer warps only. The simulator has one code for all.
ELASTIC_HOST_DEVICE constexpr int compiled_threads(int threads, int unroll) {
#ifdef __CUDACC__
  if (unroll == 4) return threads <= 512 ? 512 : threads <= 896 ? 896 : 1024;
#endif
  return threads <= 1024 && unroll >= 1 ? 1024 : 0;
}
// The prefix that the machine code has for a wanted one.
ELASTIC_HOST_DEVICE constexpr int compiled_prefix(int prefix) { return prefix >= 8 ? 8 : prefix >= 4 ? 4 : prefix < 1 ? 1 : prefix; }

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

// The vectors of one chunk that belong to one lane: every 32nd, from the lane's own.
template <int kUnroll>
struct Part {
  prim::Vec16 vector[kUnroll];
};

// Row k's part, or negative zeros where `present` is false: added to anything, they leave it as it is.
template <int kUnroll>
PRIM_FN Part<kUnroll> load_part(const Rows& rows, int k, int v, bool present) {
  Part<kUnroll> part;
  const auto* from = reinterpret_cast<const prim::Vec16*>(present ? rows.row(k) : rows.base) + v;
  PRIM_UNROLL
  for (int u = 0; u < kUnroll; ++u) part.vector[u] = prim::load_streaming_if(present, from + 32 * u, 0x80008000u);
  return part;
}

// At most two rows: one packed addition a word, which rounds their exact sum once.
template <int kUnroll>
PRIM_FN Part<kUnroll> add_pair(const Rows& rows, int v) {
  const Part<kUnroll> first = load_part<kUnroll>(rows, 0, v, rows.count > 0);
  const Part<kUnroll> second = load_part<kUnroll>(rows, 1, v, rows.count > 1);
  Part<kUnroll> sum;
  PRIM_UNROLL
  for (int u = 0; u < kUnroll; ++u) {
    PRIM_UNROLL
    for (int w = 0; w < 4; ++w) {
      const std::uint32_t one = first.vector[u].word[w];
      sum.vector[u].word[w] = rows.count == 2 ? prim::add_bf16x2(one, second.vector[u].word[w]) : rows.count == 1 ? one : 0;
    }
  }
  return sum;
}

// Three rows or more. A sum starts at -0, so that adding the first row gives that row, bit for bit.
template <int kPrefix, int kUnroll>
PRIM_FN Part<kUnroll> add_rows(const Rows& rows, int v) {
  float sum[kUnroll][8];
  PRIM_UNROLL
  for (int u = 0; u < kUnroll; ++u) {
    PRIM_UNROLL
    for (int j = 0; j < 8; ++j) sum[u][j] = -0.0f;
  }
  const auto add = [&](const Part<kUnroll>& part) {
    PRIM_UNROLL
    for (int u = 0; u < kUnroll; ++u) accumulate(sum[u], part.vector[u]);
  };
  PRIM_UNROLL
  for (int k = 0; k < kPrefix; ++k) add(load_part<kUnroll>(rows, k, v, k < rows.count));
  for (int k = kPrefix; k < rows.count; ++k) add(load_part<kUnroll>(rows, k, v, true));
  Part<kUnroll> rounded;
  PRIM_UNROLL
  for (int u = 0; u < kUnroll; ++u) rounded.vector[u] = round_to_bf16(sum[u]);
  return rounded;
}

template <int kPrefix, int kUnroll>
PRIM_FN Part<kUnroll> add_part(const Rows& rows, int v) {
  return rows.count <= 2 ? add_pair<kUnroll>(rows, v) : add_rows<kPrefix, kUnroll>(rows, v);
}

}  // namespace reduce_detail

// Reduces `rows` into the BF16 row `to` in shared memory. `prefix` rows are loaded without a branch, kPrefix of them in the machine
// code. `before_first_store` runs behind the first chunk's loads: the place to wait for the bulk store that still reads `to`.
template <int kPrefix, int kUnroll, class BeforeFirstStore>
PRIM_FN void reduce_rows(const Rows& rows, int prefix, int hidden_bytes, char* to, BeforeFirstStore&& before_first_store) {
  const int vectors = hidden_bytes / 16;
  for (int first = 0; first < vectors; first += kUnroll * 32) {
    const int n = first + kUnroll * 32 < vectors ? kUnroll * 32 : vectors - first;
    reduce_detail::charge_chunk(rows, rows.count <= 2 ? 2 : prefix, first * 16, n * 16, kUnroll);
    prim::Lanes<reduce_detail::Part<kUnroll>> sums;
    prim::each_lane([&](int l) {
      if (prim::payload() && l < n) sums.at(l) = reduce_detail::add_part<kPrefix, kUnroll>(rows, first + l);
    });
    if (first == 0) before_first_store();
    prim::each_lane([&](int l) {
      if (!prim::payload() || l >= n) return;
      PRIM_UNROLL
      for (int u = 0; u < kUnroll; ++u) reinterpret_cast<prim::Vec16*>(to)[first + l + 32 * u] = sums.at(l).vector[u];
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
