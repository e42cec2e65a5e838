// Named waits of the CUDA target: acquire polls that end when the predicate holds, when the rank is aborted, or when the device
// clock says that the peer is not coming. A wait that times out leaves a record, aborts its rank, tells every other rank and
// returns false; none traps. It tells them before its kernel goes on, so whatever this rank releases afterwards, in this kernel or a
// later one, reaches a peer behind the abort: no peer takes a message of a rank that gave up for a good one.
// Whom a time-out names: a wait that has lasted half its time publishes its peer, and one that times out follows these words from its
// own peer on, so a rank that itself waits for a lost one is not taken for lost.
#pragma once
#include <cstdint>

#include "prim_cuda_memory.cuh"

namespace prim {

// What a wait waits for.
struct Wait {
  const char* name = nullptr;
  int peer = -1;  // rank waited for, -1: the own rank
  std::uint64_t expected = 0;
};

// What the first wait of a rank to time out leaves behind.
struct WaitRecord {
  char name[32];  // ends with a zero byte
  std::int32_t peer, cta;
  std::uint64_t expected, seen;
};

// The ranks that a time-out tells: where each one's window starts, and where its abort word and the word for its missing peer lie.
struct Peers {
  char* const* windows = nullptr;
  std::int64_t abort_word = 0;
  std::int64_t missing_word = 0;  // s32: 1 + the rank that a wait there misses, zero where none does
  int num_ranks = 0;
};

// Where a rank learns that it or somebody else gave up: every wait ends when the word is not zero. It lies in the arguments of a
// kernel, so that a call off the fast path passes one address.
struct Guard {
  const std::uint64_t* abort_word;
  WaitRecord* record = nullptr;  // of the own rank; null: none is kept
  std::uint64_t timeout_ns;      // of one wait
  std::uint64_t code;            // what a time-out puts into abort words, beside the missing peer: the low 16 bits are 1 + the own rank
  Peers peers;
};

// `record` is a WaitRecord or null.
PRIM_HOST_FN Guard make_guard(const std::uint64_t* abort_word, void* record, std::uint64_t timeout_ns, std::uint64_t code, const Peers& peers) {
  return {abort_word, static_cast<WaitRecord*>(record), timeout_ns, code, peers};
}

namespace detail {

constexpr unsigned kPollsPerCheck = 256;  // polls between two looks at the abort word and the clock

PRIM_FN std::uint64_t clock_ns() {
  std::uint64_t t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}
// Sets an abort word, of any rank, that is not set; false when it was.
PRIM_FN bool set_abort(const void* word, std::uint64_t code) {
  std::uint64_t before;
  asm volatile("atom.relaxed.sys.global.cas.b64 %0, [%1], %2, %3;" : "=l"(before) : "l"(word), "l"(std::uint64_t{0}), "l"(code) : "memory");
  return before == 0;
}
template <class T>
PRIM_FN T load_relaxed_sys(const T* word) {
  static_assert(detail::kIsWord<T>);
  T v;
  if constexpr (sizeof(T) == 4)
    asm volatile("ld.relaxed.sys.global.b32 %0, [%1];" : "=r"(v) : "l"(word) : "memory");
  else
    asm volatile("ld.relaxed.sys.global.b64 %0, [%1];" : "=l"(v) : "l"(word) : "memory");
  return v;
}
PRIM_FN void tell(const Guard& guard, std::uint64_t code) {
  for (int rank = 0; rank < guard.peers.num_ranks; ++rank) {
    const auto* word = reinterpret_cast<const std::uint64_t*>(guard.peers.windows[rank] + guard.peers.abort_word);
    if (load_relaxed_sys(word) == 0) set_abort(word, code);
  }
}
// What the own abort word says, to every rank that has not heard.
PRIM_FN_COLD void pass_on(const Guard& guard) { tell(guard, load_relaxed_sys(guard.abort_word)); }

PRIM_FN void keep_record(const Guard& guard, const Wait& wait, std::uint64_t seen) {
  if (guard.record == nullptr) return;
  WaitRecord& record = *guard.record;
  int i = 0;
  for (; wait.name != nullptr && wait.name[i] != 0 && i < static_cast<int>(sizeof(record.name)) - 1; ++i) record.name[i] = wait.name[i];
  record.name[i] = 0;
  record.peer = wait.peer;
  record.cta = static_cast<int>(blockIdx.x);
  record.expected = wait.expected;
  record.seen = seen;
}

PRIM_FN int own_rank(const Guard& guard) { return static_cast<int>(guard.code & 0xffff) - 1; }
PRIM_FN std::int32_t* missing_word(const Guard& guard, int rank) {
  return reinterpret_cast<std::int32_t*>(guard.peers.windows[rank] + guard.peers.missing_word);
}
PRIM_FN void publish_missing(const Guard& guard, int value) {
  if (guard.peers.num_ranks == 0) return;
  asm volatile("st.relaxed.sys.global.b32 [%0], %1;" ::"l"(missing_word(guard, own_rank(guard))), "r"(value) : "memory");
}
// The end of the chain of ranks that miss each other, from `peer` on; `peer` itself where the chain comes back to this rank.
PRIM_FN int lost_rank(const Guard& guard, int peer) {
  int lost = peer;
  for (int step = 0; step < guard.peers.num_ranks && lost >= 0; ++step) {
    const int next = load_relaxed_sys(missing_word(guard, lost)) - 1;
    if (next == own_rank(guard)) return peer;
    if (next < 0 || next == lost) return lost;
    lost = next;
  }
  return peer;
}
PRIM_FN void time_out(const Guard& guard, const Wait& wait, std::uint64_t seen) {
  const std::uint64_t code = guard.code | static_cast<std::uint64_t>(lost_rank(guard, wait.peer) + 1) << 16;
  if (!set_abort(guard.abort_word, code)) return pass_on(guard);
  keep_record(guard, wait, seen);
  tell(guard, code);
}
// What a wait does now and then: looks at the abort word and the clock. Returns when it first did so, or zero: the wait has ended.
PRIM_FN_COLD std::uint64_t look_around(const Guard& guard, Wait wait, std::uint64_t since, std::uint64_t seen) {
  if (load_relaxed_sys(guard.abort_word) != 0) return pass_on(guard), 0;
  const std::uint64_t now = clock_ns();
  if (since == 0) return now;
  if (now - since > guard.timeout_ns) return time_out(guard, wait, seen), 0;
  if (now - since > guard.timeout_ns / 2) publish_missing(guard, wait.peer + 1);
  return since;
}
// A wait that had to look around has its peer now. Another wait of the rank may miss another one still.
PRIM_FN_COLD void found(const Guard& guard, int peer) {
  if (guard.peers.num_ranks == 0) return;
  asm volatile("atom.relaxed.sys.global.cas.b32 _, [%0], %1, %2;" ::"l"(missing_word(guard, own_rank(guard))), "r"(peer + 1), "r"(0)
               : "memory");
}

}  // namespace detail

// A rank that was told to give up tells the others before it goes on: what it releases afterwards reaches nobody ahead of that.
PRIM_FN void pass_on_abort(const Guard& guard) { detail::pass_on(guard); }

PRIM_FN bool aborted(const Guard& guard) {
  std::uint64_t word;
  asm volatile("ld.relaxed.sys.global.b64 %0, [%1];" : "=l"(word) : "l"(guard.abort_word) : "memory");
  return word != 0;
}

namespace detail {

template <bool kAcquire, class T, class Predicate>
PRIM_FN bool wait_word(const Guard& guard, const T* word, Predicate predicate, const Wait& wait) {
  for (std::uint64_t since = 0;;) {
    T seen{};
    _Pragma("unroll 1") for (unsigned polls = 0; polls < kPollsPerCheck; ++polls) {
      seen = kAcquire ? load_acquire_sys(word) : load_relaxed_sys(word);
      if (!predicate(seen)) continue;
      if (since != 0) found(guard, wait.peer);
      return true;
    }
    since = look_around(guard, wait, since, static_cast<std::uint64_t>(seen));
    if (since == 0) return false;
  }
}

}  // namespace detail

// Waits until predicate(*word); false when the rank was aborted instead. `wait` names the wait, its peer and what it expects. A
// predicate that holds within the first polls is believed though the rank may have been aborted.
template <class T, class Predicate>
PRIM_FN bool wait_until(const Guard& guard, const T* word, Predicate predicate, const Wait& wait) {
  return detail::wait_word<true>(guard, word, predicate, wait);
}
// The same for a word that says all there is to know: its polls order nothing else.
template <class T, class Predicate>
PRIM_FN bool wait_value(const Guard& guard, const T* word, Predicate predicate, const Wait& wait) {
  return detail::wait_word<false>(guard, word, predicate, wait);
}
// The warp's lanes wait for n words in parallel: word(i), predicate(i, value), wait(i). All lanes learn whether all arrived.
template <class Word, class Predicate, class Describe>
PRIM_FN bool wait_all(const Guard& guard, int n, Word word, Predicate predicate, Describe describe) {
  bool ok = true;
  for (int i = detail::lane(); i < n; i += 32)
    ok &= wait_until(guard, word(i), [&](auto value) { return predicate(i, value); }, describe(i));
  return __all_sync(detail::kAllLanes, ok) != 0;
}

}  // namespace prim
