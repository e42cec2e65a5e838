// Every primitive once, each with what it must do: a failed expectation counts up its own word. The same source is a kernel for
// both targets. Launch: cooperative, 2 CTAs of 64 threads, 4 KiB of dynamic shared memory.
#include "../../vendor/elastic/prim.cuh"

namespace primitives {

constexpr int kWarps = 2, kBulkBytes = 512;

enum Expectation : int {
  kIdentity, kSections, kCollectives, kNumbers, kSharedMemory, kOwnMemory, kPeers, kWaits, kAborts, kTimeOuts, kBulkCopies, kGrid,
  kNumExpectations
};

struct Probe {
  int* failed;                // [kNumExpectations], zero at the start
  std::int64_t* words;        // [64] a CTA, zero at the start
  std::uint64_t* abort_word;  // zero at the start
  char* rows;                 // [2 * kBulkBytes] a CTA, 16-byte aligned
  const prim::Vec16* given;   // {1, 2, 3, 4}
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
PRIM_FN void collectives(const Probe& p) {
  sums<int>(p);
  sums<std::int64_t>(p);
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

PRIM_FN void shared_memory(const Probe& p) {
  int* word = prim::shared<int>(1024 * prim::warp());
  prim::elect([&] { *word = 0; });
  prim::sync_warp();
  prim::each_lane([&](int l) { prim::shared_add(word, l); });
  prim::sync_warp();
  const auto before = prim::lanes([&](int) { return prim::shared_fetch_add(word, 1); });
  prim::sync_warp();
  expect(p, kSharedMemory, prim::reduce_add(before) == 32 * 496 + 496 && *word == 496 + 32);
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
  if (prim::warp() == 1) prim::elect([&] { prim::store_release_sys(prim::Remote<std::int64_t>(flag), std::int64_t{9}); });
  const bool seen = prim::wait_until(guard, flag, [](std::int64_t v) { return v == 9; }, {"the other warp", -1, 9});
  const prim::Guard bounded = prim::make_guard(p.abort_word, nullptr, 1'000'000'000);
  const bool valued = prim::wait_value(bounded, flag, [](std::int64_t v) { return v == 9; }, {"the other warp", -1, 9});
  expect(p, kWaits, seen && valued && !prim::aborted(guard));
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
}

PRIM_KERNEL void PRIM_LAUNCH_BOUNDS(32 * kWarps) probe(PRIM_ARGS(Probe) p) {
  prim::wait_for_predecessor();
  identity(p);
  sections(p);
  collectives(p);
  numbers(p);
  shared_memory(p);
  if (prim::warp() == 0) {
    own_memory(p, reinterpret_cast<int*>(words(p)));
    own_memory(p, words(p) + 1);
    own_memory(p, reinterpret_cast<std::uint64_t*>(words(p)) + 2);
    peers(p, reinterpret_cast<int*>(words(p) + 8));
    peers(p, words(p) + 10);
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
