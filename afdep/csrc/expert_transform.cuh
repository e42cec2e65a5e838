// The FFN stand-in of every correctness proof: row -> row * 2^((e % 5) - 2) * (-1)^(e / 5), e the row's global expert id. Exact in
// BF16 for values of a few octaves, and different for different experts, so that a misplaced row shows. An FP8 element counts as
// its value times the scale of its group: four significant bits, so exact in BF16 too where the scale is a power of two.
#pragma once
#include "../../vendor/elastic/exchange.cuh"
#include "abi.h"

namespace afdep {

constexpr int kScaleGroup = 128;  // elements that share a scale; the last group of a row may be short

PRIM_FN float expert_factor(int expert) {
  const float magnitude[] = {0.25f, 0.5f, 1.0f, 2.0f, 4.0f};
  return (expert / 5) % 2 == 0 ? magnitude[expert % 5] : -magnitude[expert % 5];
}

// E4M3 without infinities: subnormals are multiples of 2^-9, and only all ones is NaN.
PRIM_FN float e4m3_to_float(std::uint32_t code) {
  const std::uint32_t sign = (code & 0x80u) << 8, rest = code & 0x7fu;
  if (rest == 0x7fu) return prim::bf16_to_float(sign | 0x7fc0u);
  if (rest < 8u) return static_cast<float>(rest) * (sign != 0 ? -0x1p-9f : 0x1p-9f);
  return prim::bf16_to_float(sign | ((rest << 4) + ((127u - 7u) << 7)));
}
// UE8M0: 2^(code - 127), and NaN for 255.
PRIM_FN float ue8m0_to_float(std::uint32_t code) {
  if (code == 0xffu) return prim::bf16_to_float(0x7fc0u);
  return prim::bf16_to_float(code == 0 ? 0x40u : code << 7);
}

struct ExpertTransform {
  elastic::Exchange exchange;
  char* out;  // [rows, hidden] BF16
  int dtype = AFDEP_DTYPE_BF16;
};

namespace transform_detail {

PRIM_FN float group_scale(const ExpertTransform& t, int row, int group) {
  const char* scales = t.exchange.row_scales + static_cast<std::int64_t>(row) * t.exchange.dispatch.scale_bytes;
  if (t.dtype == AFDEP_DTYPE_FP8_FP32) return reinterpret_cast<const float*>(scales)[group];
  return ue8m0_to_float(reinterpret_cast<const std::uint8_t*>(scales)[group]);
}

PRIM_FN void bf16_row(const ExpertTransform& t, int row, float factor) {
  const int bytes = t.exchange.combine.hidden_bytes;
  const auto* from = reinterpret_cast<const prim::Vec16*>(t.exchange.rows + static_cast<std::int64_t>(row) * bytes);
  auto* to = reinterpret_cast<prim::Vec16*>(t.out + static_cast<std::int64_t>(row) * bytes);
  prim::charge_load(from, bytes);
  prim::charge_store(to, bytes);
  if (!prim::payload()) return;
  prim::for_vectors(bytes / 16, [&](int v) {
    prim::Vec16 vec = from[v];
    PRIM_UNROLL
    for (int w = 0; w < 4; ++w)
      vec.word[w] = prim::float_to_bf16(prim::bf16_to_float(vec.word[w] & 0xffffu) * factor) |
                    prim::float_to_bf16(prim::bf16_to_float(vec.word[w] >> 16) * factor) << 16;
    to[v] = vec;
  });
}

// Sixteen elements a vector: they lie within one group.
PRIM_FN void fp8_row(const ExpertTransform& t, int row, float factor) {
  const elastic::Exchange& e = t.exchange;
  const auto* from = reinterpret_cast<const prim::Vec16*>(e.rows + static_cast<std::int64_t>(row) * e.dispatch.hidden_bytes);
  auto* to = reinterpret_cast<prim::Vec16*>(t.out + static_cast<std::int64_t>(row) * e.combine.hidden_bytes);
  prim::charge_load(from, e.dispatch.hidden_bytes);
  prim::charge_store(to, e.combine.hidden_bytes);
  if (!prim::payload()) return;
  prim::for_vectors(e.dispatch.hidden_bytes / 16, [&](int v) {
    const prim::Vec16 codes = from[v];
    const float scale = group_scale(t, row, v * 16 / kScaleGroup);
    PRIM_UNROLL
    for (int half = 0; half < 2; ++half) {
      prim::Vec16 vec;
      PRIM_UNROLL
      for (int w = 0; w < 4; ++w) {
        const std::uint32_t pair = codes.word[half * 2 + w / 2] >> (w % 2 * 16);
        vec.word[w] = prim::float_to_bf16(e4m3_to_float(pair & 0xffu) * scale * factor) |
                      prim::float_to_bf16(e4m3_to_float(pair >> 8 & 0xffu) * scale * factor) << 16;
      }
      to[v * 2 + half] = vec;
    }
  });
}

}  // namespace transform_detail

// One warp a row of each expert, experts over CTAs.
PRIM_KERNEL void PRIM_LAUNCH_BOUNDS(1024) expert_transform(PRIM_ARGS(ExpertTransform) t) {
  const elastic::Exchange& e = t.exchange;
  for (int local = prim::cta(); local < e.experts_per_rank; local += prim::num_ctas()) {
    const float factor = expert_factor(e.rank * e.experts_per_rank + local);
    for (int row = e.expert_offsets[local] + prim::warp(); row < e.expert_offsets[local + 1]; row += prim::num_warps())
      t.dtype == AFDEP_DTYPE_BF16 ? transform_detail::bf16_row(t, row, factor) : transform_detail::fp8_row(t, row, factor);
  }
}

}  // namespace afdep
