// Counts: how many tokens each rank, and how many rows each of its experts, will receive. The notify warps of all CTAs count in
// shared memory and reduce over the grid; CTA 0 exchanges the sums with the peers and turns them into prefix sums.
#pragma once
#include "failure.cuh"
#include "symmetric.cuh"

namespace elastic {

constexpr int kNotifyWarps = 4;
constexpr int kNotifyBarrier = 1;

ELASTIC_HOST_DEVICE constexpr int notify_bytes(int num_ranks, int num_experts) { return align_up(num_ranks + num_experts, 128) * 4; }

namespace notify_detail {

constexpr std::int64_t kCtaArrival = std::int64_t{1} << 32;

PRIM_FN std::int64_t* reduction_word(const Exchange& e, int i) { return own_word<std::int64_t>(e, workspace(e).reduction()) + i; }
// Word 0 of a source holds tokens, word 1 + i rows of local expert i.
PRIM_FN int count_word(const Exchange& e, int copy, int source, int word) {
  return workspace(e).counts(copy) + (source * (1 + e.experts_per_rank) + word) * 8;
}
// A source's tokens travel with the bucket it was given, which has to be the receiver's.
PRIM_FN std::int64_t with_bucket(const Exchange& e, std::int64_t tokens) { return static_cast<std::int64_t>(e.capacity) << 32 | tokens; }
// Zero means "not yet", so a count travels as -(count) - 1.
PRIM_FN std::int64_t encode(std::int64_t count) { return -count - 1; }
PRIM_FN std::int64_t decode(std::int64_t word) { return -word - 1; }

template <class F>
PRIM_FN void for_notify(int n, F&& f) {
  prim::for_strided(prim::warp(), kNotifyWarps, n, f);
}
PRIM_FN void sync_notify() { prim::sync_warps(kNotifyBarrier, kNotifyWarps); }

// Index of the histogram: ranks first, then experts.
PRIM_FN bool counted(const Exchange& e, const RankRange& receivers, int i) {
  const int owner = i < e.num_ranks ? i : (i - e.num_ranks) / e.experts_per_rank;
  return owner >= receivers.first && owner < receivers.last;
}

// One token: every route counts for its expert, every destination rank once. Invalid routes are reported and not counted.
PRIM_FN void count_token(const Exchange& e, int token, int* histogram) {
  const auto expert = prim::lanes([&](int l) -> std::int64_t { return l < e.top_k ? wide_expert(e, token, l) : -1; });
  // Ids that name no expert are reported as such, whether they repeat or not.
  const auto same = prim::match(prim::lanes([&](int l) { return names_expert(e, expert.at(l)) ? static_cast<int>(expert.at(l)) : -1 - l; }));
  const auto failed = prim::lanes([&](int l) {
    if (expert.at(l) == -1) return Failure::none;
    if (!names_expert(e, expert.at(l))) return Failure::expert_out_of_range;
    return prim::lowest_bit(same.at(l)) < l ? Failure::duplicate_expert : Failure::none;
  });
  prim::each_lane([&](int l) {
    if (failed.at(l) != Failure::none) report(e, failed.at(l), token, l, expert.at(l));
  });
  const auto owner = prim::lanes([&](int l) {
    return names_expert(e, expert.at(l)) ? static_cast<int>(expert.at(l)) / e.experts_per_rank : -1 - l;
  });
  const auto peers = prim::match(owner);
  prim::each_lane([&](int l) {
    if (owner.at(l) < 0) return;
    prim::shared_add(&histogram[e.num_ranks + static_cast<int>(expert.at(l))], 1);
    if (prim::highest_bit(peers.at(l)) == l) prim::shared_add(&histogram[owner.at(l)], 1);
  });
}

PRIM_FN void check_num_tokens(const Exchange& e) {
  if (e.num_tokens_word == nullptr || prim::warp() != 0) return;
  prim::elect([&] {
    const int tokens = prim::load(e.num_tokens_word);
    if (!is_token_count(e, tokens)) report(e, Failure::num_tokens_out_of_range, e.num_tokens, -1, tokens);
  });
}

// All CTAs: counts this CTA's tokens and adds them to the grid's words.
PRIM_FN void count_tokens(const Exchange& e, const RankRange& receivers) {
  int* histogram = prim::shared<int>(0);
  for_notify(e.num_ranks + e.num_experts, [&](int i) { histogram[i] = 0; });
  sync_notify();
  const int tokens = num_tokens(e);
  for (int t = prim::cta() * kNotifyWarps + prim::warp(); t < tokens; t += prim::num_ctas() * kNotifyWarps)
    count_token(e, t, histogram);
  sync_notify();
  for_notify(e.num_ranks + e.num_experts, [&](int i) {
    if (counted(e, receivers, i)) prim::add_gpu(reduction_word(e, i), kCtaArrival + histogram[i]);
  });
}

// CTA 0: takes each sum once every CTA has added to it, clears the word for the next exchange, and tells its owner; a rank that gave up
// tells nobody, whose counts of an exchange before may not be taken yet.
PRIM_FN void publish_counts(const Exchange& e, const RankRange& receivers, int copy) {
  const bool silent = prim::broadcast(gave_up(e), 0) != 0;
  for_notify(e.num_ranks + e.num_experts, [&](int i) {
    if (!counted(e, receivers, i)) return;
    std::int64_t* word = reduction_word(e, i);
    std::int64_t sum = 0;
    const auto complete = [&](std::int64_t seen) { return sum = seen, seen >> 32 == prim::num_ctas(); };
    prim::wait_value(e.guard, word, complete, {"dispatch count reduction", e.rank, static_cast<std::uint64_t>(prim::num_ctas())});
    const std::int64_t count = complete(sum) ? sum & 0xffffffff : 0;
    prim::store(word, std::int64_t{0});
    const int owner = i < e.num_ranks ? i : (i - e.num_ranks) / e.experts_per_rank;
    const int index = i < e.num_ranks ? 0 : 1 + (i - e.num_ranks) % e.experts_per_rank;
    if (silent) return;
    prim::store_relaxed_sys(peer_word<std::int64_t>(e, owner, count_word(e, copy, e.rank, index)), encode(index == 0 ? with_bucket(e, count) : count));
  });
}

// One word from `source`, or `missing`; cleared at once: this copy is written again only after this rank's next message to its writer.
PRIM_FN std::int64_t take_word(const Exchange& e, int copy, int source, int index, std::int64_t missing) {
  auto* word = own_word<std::int64_t>(e, count_word(e, copy, source, index));
  std::int64_t count = 0;
  const auto arrived = [&](std::int64_t seen) { return count = seen, seen != 0; };
  if (!prim::wait_value(e.guard, word, arrived, {"dispatch counts", source, 0})) return missing;
  prim::store(word, std::int64_t{0});
  return decode(count);
}
PRIM_FN int take_rows(const Exchange& e, int copy, int source, int expert) {
  return static_cast<int>(take_word(e, copy, source, 1 + expert, 0));
}
// With another bucket its records lie where this rank does not look for them.
PRIM_FN int take_tokens(const Exchange& e, int copy, int source) {
  const std::int64_t word = take_word(e, copy, source, 0, with_bucket(e, 0));
  const int bucket = static_cast<int>(word >> 32);
  if (bucket == e.capacity) return static_cast<int>(word);
  report(e, Failure::other_bucket, e.capacity, source, bucket);
  return 0;
}

// CTA 0: inclusive prefix over 32 values a step, carried on; `write(i, exclusive, inclusive)`.
template <class Value, class Write>
PRIM_FN int prefix_sum(int n, Value&& value, Write&& write) {
  int carry = 0;
  for (int base = 0; base < n; base += 32) {
    const auto own = prim::lanes([&](int l) { return base + l < n ? value(base + l) : 0; });
    const auto inclusive = prim::scan_inclusive(own);
    prim::each_lane([&](int l) {
      if (base + l < n) write(base + l, carry + inclusive.at(l) - own.at(l), carry + inclusive.at(l));
    });
    carry += prim::broadcast(inclusive, 31);
  }
  return carry;
}

// CTA 0: awaits the senders' counts and writes the prefix sums that the next kernels allocate from.
PRIM_FN void receive_counts(const Exchange& e, const RankRange& senders, int copy) {
  int* rank_counts = prim::shared<int>(0);
  int* expert_counts = rank_counts + e.num_ranks;
  sync_notify();
  for_notify(e.num_ranks, [&](int source) {
    rank_counts[source] = source >= senders.first && source < senders.last ? take_tokens(e, copy, source) : 0;
  });
  for_notify(e.experts_per_rank, [&](int expert) {
    int rows = 0;
    for (int source = senders.first; source < senders.last; ++source) rows += take_rows(e, copy, source, expert);
    expert_counts[expert] = rows;
    prim::store(e.expert_counts + expert, rows);
  });
  sync_notify();
  if (prim::warp() == 0)
    prefix_sum(e.num_ranks, [&](int i) { return rank_counts[i]; },
               [&](int i, int, int inclusive) { prim::store(e.rank_prefix + i, inclusive); });
  if (prim::warp() == 1) {
    const auto aligned = [&](int i) { return round_up(expert_counts[i], e.expert_alignment); };
    const auto write = [&](int i, int exclusive) {
      prim::store(e.expert_cursor + i, exclusive);
      prim::store(e.expert_offsets + i, exclusive);
    };
    const int rows = prefix_sum(e.experts_per_rank, aligned, [&](int i, int exclusive, int) { write(i, exclusive); });
    prim::elect([&] { write(e.experts_per_rank, rows); });
  }
}

}  // namespace notify_detail

// The notify warps' part of a dispatch.
template <class Protocol>
PRIM_FN void notify(const Exchange& e) {
  using namespace notify_detail;
  const RankRange receivers = Protocol::count_receivers(e), senders = Protocol::count_senders(e);
  if (receivers.first < receivers.last) count_tokens(e, receivers);
  if (prim::cta() != 0) return;
  check_num_tokens(e);
  const int copy = Protocol::count_copy(e);
  if (receivers.first < receivers.last) publish_counts(e, receivers, copy);
  if (senders.first < senders.last) receive_counts(e, senders, copy);
  if (prim::warp() == 0) Protocol::counts_done(e);
}

}  // namespace elastic
