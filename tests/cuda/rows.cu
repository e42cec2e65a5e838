// One rank pushes rows, another takes them, exchange after exchange: what the sender's warps and the receiver's warps do is all the
// ordering there is. The same source is two kernels for both targets. Launch each with 64 threads a CTA, not programmatically.
#include "../../vendor/elastic/prim.cuh"

namespace rows {

constexpr int kRows = 6, kVectors = 170;

struct Exchange {
  std::uint64_t epoch;              // from 1
  prim::Vec16* inbox;               // of the receiver, [2][kRows][kVectors], poisoned before the first exchange
  std::uint64_t* done;              // of the sender, zero at the start: the latest exchange whose inbox is poisoned again
  const std::uint64_t* abort_word;  // of the own rank
  int* wrong;                       // of the receiver: vectors that differ from what was sent
  int* taken;                       // of the receiver: vectors used
};

// A word of the payload; one in sixteen is the poison.
PRIM_FN std::uint32_t payload_word(std::uint64_t epoch, int row, int vector, int k) {
  std::uint64_t bits = (epoch * kRows + static_cast<std::uint64_t>(row)) * (4 * kVectors) + static_cast<std::uint64_t>(4 * vector + k);
  bits = (bits ^ bits >> 7) * 0x9E3779B97F4A7C15ull;
  return bits >> 60 == 0 ? prim::kPoison : static_cast<std::uint32_t>(bits >> 28);
}
PRIM_FN std::uint32_t arriving_word(std::uint32_t word) { return word == prim::kPoison ? 0x7fffffffu : word; }
PRIM_FN prim::Vec16* row_of(const Exchange& e, int row) { return e.inbox + (static_cast<int>(e.epoch % 2) * kRows + row) * kVectors; }
PRIM_FN int first_row() { return prim::cta() * prim::num_warps() + prim::warp(); }
PRIM_FN int row_step() { return prim::num_ctas() * prim::num_warps(); }

// A copy of the inbox is used every other exchange.
PRIM_KERNEL void PRIM_LAUNCH_BOUNDS(64) push_rows(PRIM_ARGS(Exchange) e) {
  const prim::Guard guard{e.abort_word};
  const std::uint64_t previous = e.epoch < 2 ? 0 : e.epoch - 2;
  const auto poisoned = [&](std::uint64_t done) { return done >= previous; };
  if (!prim::wait_until(guard, e.done, poisoned, {"the inbox is poisoned", 0, previous})) return;
  for (int row = first_row(); row < kRows; row += row_step()) {
    const auto vector = [&](int i) {
      return prim::Vec16{{payload_word(e.epoch, row, i, 0), payload_word(e.epoch, row, i, 1), payload_word(e.epoch, row, i, 2),
                          payload_word(e.epoch, row, i, 3)}};
    };
    prim::push_row(prim::Remote<prim::Vec16>(row_of(e, row)), kVectors, vector);
  }
}

// That this kernel runs says that what the previous one poisoned has landed.
PRIM_KERNEL void PRIM_LAUNCH_BOUNDS(64) take_rows(PRIM_ARGS(Exchange) e) {
  const prim::Guard guard{e.abort_word};
  if (first_row() == 0) prim::elect([&] { prim::store_release_sys(prim::Remote<std::uint64_t>(e.done), e.epoch - 1); });
  for (int row = first_row(); row < kRows; row += row_step()) {
    const auto compare = [&](int i, const prim::Vec16& v) {
      bool right = true;
      for (int k = 0; k < 4; ++k) right &= v.word[k] == arriving_word(payload_word(e.epoch, row, i, k));
      prim::add_gpu(e.taken, 1);
      if (!right) prim::add_gpu(e.wrong, 1);
    };
    if (!prim::wait_row(guard, row_of(e, row), kVectors, compare, {"a row", 1, e.epoch})) return;
    prim::poison_row(row_of(e, row), kVectors);
  }
}

}  // namespace rows
