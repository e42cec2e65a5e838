// The FFN stand-in of every correctness proof: row -> row * 2^((e % 5) - 2) * (-1)^(e / 5), e the row's global expert id. Exact in
// BF16 for values of a few octaves, and different for different experts, so that a misplaced row shows.
#pragma once
#include "../../vendor/elastic/exchange.cuh"

namespace afdep {

PRIM_FN float expert_factor(int expert) {
  const float magnitude[] = {0.25f, 0.5f, 1.0f, 2.0f, 4.0f};
  return (expert / 5) % 2 == 0 ? magnitude[expert % 5] : -magnitude[expert % 5];
}

struct ExpertTransform {
  elastic::Exchange exchange;
  char* out;  // [rows, hidden] BF16
};

// One warp a row of each expert, experts over CTAs.
PRIM_KERNEL void PRIM_LAUNCH_BOUNDS(1024) expert_transform(PRIM_ARGS(ExpertTransform) t) {
  const elastic::Exchange& e = t.exchange;
  for (int local = prim::cta(); local < e.experts_per_rank; local += prim::num_ctas()) {
    const float factor = expert_factor(e.rank * e.experts_per_rank + local);
    for (int row = e.expert_offsets[local] + prim::warp(); row < e.expert_offsets[local + 1]; row += prim::num_warps()) {
      const std::int64_t at = static_cast<std::int64_t>(row) * e.combine.hidden_bytes;
      const auto* from = reinterpret_cast<const prim::Vec16*>(e.rows + at);
      auto* to = reinterpret_cast<prim::Vec16*>(t.out + at);
      prim::charge_load(from, e.combine.hidden_bytes);
      prim::charge_store(to, e.combine.hidden_bytes);
      if (!prim::payload()) continue;
      prim::for_vectors(e.combine.hidden_bytes / 16, [&](int v) {
        prim::Vec16 vec = from[v];
        PRIM_UNROLL
        for (int w = 0; w < 4; ++w)
          vec.word[w] = prim::float_to_bf16(prim::bf16_to_float(vec.word[w] & 0xffffu) * factor) |
                        prim::float_to_bf16(prim::bf16_to_float(vec.word[w] >> 16) * factor) << 16;
        to[v] = vec;
      });
    }
  }
}

}  // namespace afdep
