// Every primitive once, each with what it must do: a failed expectation counts up its own word. The same source is a kernel for
// both targets. Launch: cooperative, 2 CTAs of 64 threads, 4 KiB of dynamic shared memory.
#include "../../vendor/elastic/prim.cuh"

namespace primitives {

constexpr int kWarps = 2, kBulkBytes = 512, kRowVectors = 150;

enum Expectation : int {
  kIdentity, kSections, kCollectives, kNumbers, kSharedMemory, kOwnMemory, kPeers, kWaits, kAborts, kTimeOuts, kBulkCopies, kGrid,
  kAtomics, kAnyWaits, kRows, kNumExpectations
};

struct Probe {
  int* failed;                // [kNumExpectations], zero at the start
  std::int64_t* words;        // [64] a CTA, zero at the start
  std::uint64_t* abort_word;  // zero at the start
  char* rows;                 // [2 * kBulkBytes] a CTA, 16-byte aligned
  const prim::Vec16* given;   // {1, 2, 3, 4}
  prim::Vec16* pushed;        // [kRowVectors] a CTA, zero at the start
};

PRIM_FN void expect(const Probe& p, Expectation what, bool holds) {
  if (!holds) prim::add_gpu(p.failed + what, 1);
}
PRIM_FN std::int64_t* words(const Probe& p) { return p.words + 64 * prim::cta(); }

PRIM_FN void identity(const Probe& p) {
  expect(p, kIdentity, prim::num_ctas() == 2 && prim::cta() < 2 && prim::num_threads() == 32 * kWarps);
  expect(p, kIdentity, prim::num_warps() == kWarps && prim::warp() < kWarps);
  expect(p, kIdentity, prim::shared<char>(16) == prim::shared<char>(0) + 16);
}

PRIM_FN void sections(const Probe& p) {
  const auto twice = prim::lanes([](int l) { return 2 * l; });
  prim::each_lane([&](int l) { expect(p, kSections, twice.at(l) == 2 * l); });
  int* marks = prim::shared<int>(1024 * prim::warp());
  prim::for_strided(0, 1, 64, [&](int i) { marks[i] = i; });
  prim::for_vectors(64, [&](int i) { marks[64 + i] = i; });
  prim::sync_warp();
  prim::elect([&] {
    for (int i = 0; i < 128; ++i) expect(p, kSections, marks[i] == i % 64);
  });
  prim::sync_warp();
}

template <class T>
PRIM_FN void sums(const Probe& p) {
  const auto own = prim::lanes([](int l) { return static_cast<T>(l) - 3; });
  expect(p, kCollectives, prim::reduce_add(own) == 400 && prim::reduce_max(own) == 28 && prim::broadcast(own, 7) == 4);
  const auto running = prim::scan_inclusive(own);
  prim::each_lane([&](int l) { expect(p, kCollectives, running.at(l) == static_cast<T>(l * (l + 1) / 2 - 3 * (l + 1))); });
  const auto same = prim::match(prim::lanes([](int l) { return static_cast<T>(l % 2) - 1; }));
  prim::each_lane([&](int l) { expect(p, kCollectives, same.at(l) == (l % 2 == 0 ? 0x55555555u : 0xaaaaaaaau)); });
}
// What two words differ in may lie in their upper halves alone.
PRIM_FN void wide_words(const Probe& p) {
  const auto high = prim::lanes([](int l) { return static_cast<std::uint64_t>(l / 16 + 1) << 32; });
  expect(p, kCollectives, prim::reduce_add(high) == std::uint64_t{48} << 32 && prim::reduce_max(high) == std::uint64_t{2} << 32);
  expect(p, kCollectives, prim::broadcast(high, 16) == std::uint64_t{2} << 32);
  const auto same = prim::match(high);
  const auto running = prim::scan_inclusive(high);
  prim::each_lane([&](int l) {
    expect(p, kCollectives, same.at(l) == (l < 16 ? 0x0000ffffu : 0xffff0000u));
    expect(p, kCollectives, running.at(l) == static_cast<std::uint64_t>(l < 16 ? l + 1 : 2 * l - 14) << 32);
  });
}
PRIM_FN void collectives(const Probe& p) {
  sums<int>(p);
  sums<std::int64_t>(p);
  wide_words(p);
  const auto low = prim::lanes([](int l) { return l < 4; });
  expect(p, kCollectives, prim::ballot(low) == 0xfu && prim::any(low) && !prim::any(prim::lanes([](int) { return false; })));
}

PRIM_FN void numbers(const Probe& p) {
  expect(p, kNumbers, prim::popcount(0xf0u) == 4 && prim::highest_bit(0xf0u) == 7 && prim::lowest_bit(0xf0u) == 4);
  expect(p, kNumbers, prim::bf16_to_float(0x3f80u) == 1.0f && prim::float_to_bf16(-2.0f) == 0xc000u);
  expect(p, kNumbers, prim::float_to_bf16(1.00390625f) == 0x3f80u && prim::float_to_bf16(1.01171875f) == 0x3f82u);
  expect(p, kNumbers, prim::float_to_bf16(prim::bf16_to_float(0xffc1u)) == 0x7fffu);
  expect(p, kNumbers, prim::float_to_bf16(prim::bf16_to_float(0x0001u)) == 0x0001u);
  expect(p, kNumbers, prim::add_bf16x2(0x3f803f80u, 0xbf804000u) == 0x00004040u && prim::add_bf16x2(0x80008000u, 0x80000001u) == 0x80000001u);
}

template <class T>
PRIM_FN void shared_memory(const Probe& p, T unit) {
  T* word = prim::shared<T>(1024 * prim::warp());
  prim::elect([&] { *word = 0; });
  prim::sync_warp();
  prim::each_lane([&](int l) { prim::shared_add(word, l * unit); });
  prim::sync_warp();
  const auto before = prim::lanes([&](int) { return prim::shared_fetch_add(word, unit); });
  prim::sync_warp();
  expect(p, kSharedMemory, prim::reduce_add(before) == (32 * 496 + 496) * unit && *word == (496 + 32) * unit);
  prim::sync_warp();
}

// The warps of a CTA take turns on its words.
template <class T>
PRIM_FN void own_memory(const Probe& p, T* word) {
  prim::elect([&] {
    prim::store(word, static_cast<T>(-5));
    expect(p, kOwnMemory, prim::load(word) == static_cast<T>(-5));
    prim::add_gpu(word, static_cast<T>(2));
    expect(p, kOwnMemory, prim::fetch_add_gpu(word, static_cast<T>(3)) == static_cast<T>(-3));
    expect(p, kOwnMemory, prim::fetch_add_acq_rel_gpu(word, static_cast<T>(1)) == 0);
    expect(p, kOwnMemory, prim::load_acquire_sys(word) == 1);
  });
  const prim::Vec16 given = prim::load_streaming(p.given);
  const prim::Vec16 taken = prim::load_streaming_if(true, p.given, 7), left = prim::load_streaming_if(false, p.given, 7);
  for (unsigned i = 0; i < 4; ++i) expect(p, kOwnMemory, given.word[i] == i + 1 && taken.word[i] == i + 1 && left.word[i] == 7);
  prim::sync_warp();
}

template <class T>
PRIM_FN void atomics(const Probe& p, T* word) {
  constexpr T kTop = T{1} << (8 * sizeof(T) - 2);
  prim::elect([&] {
    prim::store(word, T{5});
    expect(p, kAtomics, prim::fetch_or_gpu(word, kTop) == 5 && prim::fetch_max_gpu(word, T{7}) == (kTop | 5));
    expect(p, kAtomics, prim::swap_gpu(word, static_cast<T>(-3)) == (kTop | 5));
    expect(p, kAtomics, prim::fetch_max_gpu(word, T{2}) == static_cast<T>(-3));
    const T left = static_cast<T>(-1) < 0 ? T{2} : static_cast<T>(-3);
    expect(p, kAtomics, prim::compare_swap_gpu(word, T{9}, T{1}) == left && prim::compare_swap_gpu(word, left, kTop) == left);
    expect(p, kAtomics, prim::load(word) == kTop);
  });
  prim::sync_warp();
}

template <class T>
PRIM_FN void peers(const Probe& p, T* word) {
  const prim::Guard guard{p.abort_word};
  const prim::Remote<T> remote(word);
  prim::elect([&] {
    prim::store_relaxed_sys(remote, static_cast<T>(-1));
    prim::fence_sys();
    prim::store_release_sys(remote + 1, static_cast<T>(-2));
    prim::add_release_sys(remote + 1, static_cast<T>(7));
  });
  const bool landed = prim::wait_all(
      guard, 2, [&](int i) { return word + i; }, [](int i, T seen) { return seen == (i == 0 ? static_cast<T>(-1) : 5); },
      [](int i) { return prim::Wait{"two words", i, 5}; });
  expect(p, kPeers, landed && remote.address() == word);
  prim::sync_warp();
}

PRIM_FN void waits(const Probe& p) {
  const prim::Guard guard{p.abort_word};
  std::int64_t* flag = words(p) + 40;
  const auto set_once = [&](std::int64_t v) { prim::set_once_release_sys(prim::Remote<std::int64_t>(flag + 2), v); };
  if (prim::warp() == 1) prim::elect([&] { prim::store_release_sys(prim::Remote<std::int64_t>(flag), std::int64_t{9}), set_once(5), set_once(6); });
  const bool seen = prim::wait_until(guard, flag, [](std::int64_t v) { return v == 9; }, {"the other warp", -1, 9});
  const prim::Guard bounded = prim::make_guard(p.abort_word, nullptr, 1'000'000'000, 1, prim::Peers{});
  const bool valued = prim::wait_value(bounded, flag, [](std::int64_t v) { return v == 9; }, {"the other warp", -1, 9});
  const bool first = prim::wait_value(bounded, flag + 2, [](std::int64_t v) { return v != 0; }, {"the other warp", -1, 5});
  expect(p, kWaits, first && prim::load(flag + 2) == 5);
  prim::pass_on_abort(bounded);  // to nobody
  const auto nine = prim::alike([&] { return prim::load(flag); });
  expect(p, kWaits, seen && valued && prim::broadcast(nine, 5) == 9 && !prim::aborted(guard));
}

// Lane l asks after two words; those of lane 2 change in turn, and its second word does in the upper half alone.
PRIM_FN void any_waits(const Probe& p) {
  const prim::Guard guard{p.abort_word};
  std::int64_t* words_of_lanes = words(p) + 50;
  for (int k = 0; k < 2; ++k) {
    const std::int64_t given = std::int64_t{3} << (16 + 32 * k);
    prim::elect([&] { prim::store_release_sys(prim::Remote<std::int64_t>(words_of_lanes + 4 + k), given); });
    const std::uint32_t ready = prim::wait_any<2>(
        guard, 3, [&](int l, int i) { return words_of_lanes + 2 * l + i; }, [&](int, int i, std::int64_t v) { return i == k && v == given; },
        [](int l) { return prim::Wait{"any of three lanes", l, 3}; });
    expect(p, kAnyWaits, ready == 4);
  }
}

PRIM_FN prim::Vec16 row_vector(int i) {
  const auto word = static_cast<std::uint32_t>(i * 4);
  return {{word, i % 3 == 0 ? prim::kPoison : word + 1, word + 2, word + 3}};
}
// A row goes out to where the poison waits, and arrives with no word equal to it.
PRIM_FN void rows(const Probe& p) {
  const prim::Guard guard{p.abort_word};
  prim::Vec16* row = p.pushed + kRowVectors * prim::cta();
  prim::poison_row(row, kRowVectors);
  prim::sync_warp();
  prim::fence_sys();
  prim::push_row(prim::Remote<prim::Vec16>(row), kRowVectors, row_vector);
  const auto right = [&](int i, const prim::Vec16& v) {
    const prim::Vec16 sent = row_vector(i);
    expect(p, kRows, v.word[0] == sent.word[0] && v.word[1] == (i % 3 == 0 ? 0x7fffffffu : sent.word[1]));
    expect(p, kRows, v.word[2] == sent.word[2] && v.word[3] == sent.word[3]);
    prim::add_gpu(words(p) + 47, std::int64_t{1});
  };
  expect(p, kRows, prim::wait_row(guard, row, kRowVectors, right, {"a row", -1, 0}));
  prim::sync_warp();
  expect(p, kRows, prim::load(words(p) + 47) == kRowVectors);
}

PRIM_FN char row_byte(int i) { return static_cast<char>(i * 7 + 1); }
// A row goes to global memory, comes back, and goes out again from where it came to.
PRIM_FN void bulk_copies(const Probe& p) {
  char* row = prim::shared<char>(2048);
  auto* loaded = prim::shared<prim::Mbarrier>(2048 + kBulkBytes);
  char* global = p.rows + 2 * kBulkBytes * prim::cta();
  prim::elect([&] {
    prim::mbarrier_init(loaded, 1);
    prim::fence_mbarrier_init();
  });
  prim::for_vectors(kBulkBytes, [&](int i) { row[i] = row_byte(i); });
  prim::fence_proxy_async();
  prim::sync_warp();
  prim::elect([&] { prim::bulk_store(prim::Remote<char>(global), row, kBulkBytes); });
  prim::bulk_commit();
  prim::bulk_wait();
  prim::for_vectors(kBulkBytes, [&](int i) { row[i] = 0; });
  prim::fence_proxy_async();
  prim::sync_warp();
  prim::elect([&] {
    prim::mbarrier_expect(loaded, kBulkBytes);
    prim::bulk_load(row, global, kBulkBytes, loaded);
  });
  prim::mbarrier_wait(loaded, 0);
  prim::elect([&] { prim::bulk_store(global + kBulkBytes, row, kBulkBytes); });
  prim::bulk_commit();
  prim::bulk_wait_read();
  prim::bulk_wait(1);
  prim::bulk_wait();
  prim::for_vectors(kBulkBytes, [&](int i) { expect(p, kBulkCopies, prim::load(global + kBulkBytes + i) == row_byte(i)); });
}

// Neither costs anything on the device.
PRIM_FN void costs(const Probe& p) {
  prim::begin_task(0);
  prim::Gather together;
  together.add(p.rows, kBulkBytes);
  together.wait();
  prim::charge_load(p.rows, kBulkBytes);
  prim::charge_store(p.rows, kBulkBytes);
  prim::charge_accumulate(1);
  prim::charge_packed_add(1);
  prim::expect(true, "a probe");
  expect(p, kNumbers, prim::payload());
}

// The last use of the abort word: it stays set.
PRIM_FN void aborts(const Probe& p) {
  const prim::Guard guard{p.abort_word};
  std::int64_t* never = words(p) + 41;
#ifdef __CUDACC__
  const prim::Guard hasty{p.abort_word, nullptr, 1'000'000};
  if (prim::cta() == 0)
    expect(p, kTimeOuts, !prim::wait_until(hasty, never, [](std::int64_t v) { return v != 0; }, {"nobody", -1, 1}));
#else
  prim::store_relaxed_sys(prim::Remote<std::uint64_t>(p.abort_word), std::uint64_t{1});
#endif
  expect(p, kAborts, !prim::wait_until(guard, never, [](std::int64_t v) { return v != 0; }, {"nobody", -1, 1}));
  const auto word = [&](int, int) { return never; };
  const auto nonzero = [](int, int, std::int64_t v) { return v != 0; };
  expect(p, kAborts, prim::wait_any<2>(guard, 32, word, nonzero, [](int) { return prim::Wait{"nobody", -1, 1}; }) == 0);
  prim::Vec16* row = p.pushed + kRowVectors * prim::cta();
  prim::poison_row(row, 1);
  prim::sync_cta();
  const auto use = [&](int, const prim::Vec16&) { expect(p, kAborts, false); };
  expect(p, kAborts, !prim::wait_row(guard, row, 1, use, {"nobody's row", -1, 0}));
}

PRIM_KERNEL void PRIM_LAUNCH_BOUNDS(32 * kWarps) probe(PRIM_ARGS(Probe) p) {
  prim::wait_for_predecessor();
  identity(p);
  sections(p);
  collectives(p);
  numbers(p);
  shared_memory(p, 1);
  shared_memory(p, std::int64_t{1} << 32);
  if (prim::warp() == 0) {
    own_memory(p, reinterpret_cast<int*>(words(p)));
    own_memory(p, words(p) + 1);
    own_memory(p, reinterpret_cast<std::uint64_t*>(words(p)) + 2);
    peers(p, reinterpret_cast<int*>(words(p) + 8));
    peers(p, words(p) + 10);
    atomics(p, reinterpret_cast<int*>(words(p) + 12));
    atomics(p, reinterpret_cast<unsigned*>(words(p) + 13));
    atomics(p, words(p) + 14);
    atomics(p, reinterpret_cast<std::uint64_t*>(words(p)) + 15);
    any_waits(p);
    rows(p);
    bulk_copies(p);
    costs(p);
  }
  prim::sync_warps(1, kWarps);
  waits(p);
  prim::sync_cta();
  prim::elect([&] { prim::add_gpu(words(p) + 48, std::int64_t{1}); });
  prim::sync_grid();
  expect(p, kGrid, prim::load(p.words + 48) == kWarps && prim::load(p.words + 64 + 48) == kWarps);
  prim::launch_dependents();
  aborts(p);
}

}  // namespace primitives
