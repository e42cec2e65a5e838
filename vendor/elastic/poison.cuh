// A rank that was told to give up has no result: what it collects may be of an exchange before, so every row of it becomes NaN.
#pragma once
#include "exchange.cuh"

namespace elastic {

// The rows of y that this warp's bulk copies have written.
PRIM_FN void poison_collected(const Exchange& e) {
  for (int t = prim::cta() + prim::warp() * prim::num_ctas(); t < e.num_tokens; t += prim::num_ctas() * prim::num_warps()) {
    auto* row = reinterpret_cast<prim::Vec16*>(e.y + static_cast<std::int64_t>(t) * e.combine.hidden_bytes);
    prim::charge_store(row, e.combine.hidden_bytes);
    prim::for_vectors(e.combine.hidden_bytes / 16, [&](int v) { row[v] = prim::Vec16{{~0u, ~0u, ~0u, ~0u}}; });
  }
}

}  // namespace elastic
