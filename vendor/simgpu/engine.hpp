// The simulator: ranks, streams, SM slots and fibers under one virtual clock. Single-threaded and deterministic.
#pragma once
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "adversary.hpp"
#include "events.hpp"
#include "fiber.hpp"
#include "kernel.hpp"
#include "machine.hpp"
#include "memory.hpp"
#include "ports.hpp"

namespace simgpu {

struct Options {
  bool payload = true;  // false: rows are not copied, only their trailing control bytes; the times are the same
  bool hunt = false;
  std::uint64_t seed = 0;
};

// A blocked wait, as the deadlock report lists it.
struct BlockedWait {
  int rank, cta, warp, peer;
  std::string kernel, wait;
  std::uint64_t expected, seen;
};

// A primitive was handed memory outside every live block.
struct MemoryFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// How long a rank's named waits last: for ever, unless `waits` of them have blocked and `after` has passed.
struct Patience {
  int waits = -1;
  Time after = 0;
  bool lost = false;
};

class Nics;

class Engine {
 public:
  Engine(int num_ranks, const Machine& machine, const Options& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const Machine& machine() const { return machine_; }
  const Options& options() const { return options_; }
  Adversary& adversary() { return adversary_; }
  Memory& memory() { return memory_; }
  Gpu& gpu(int rank) { return gpus_[static_cast<std::size_t>(rank)]; }
  int num_ranks() const { return static_cast<int>(gpus_.size()); }
  Time now() const { return now_; }

  // ---- host side
  void set_payload(bool payload) { options_.payload = payload; }
  Stream* make_stream(int rank, int priority = 0);
  void enqueue(Stream* stream, Launch launch);
  // From begin_capture() to end_capture() launches are recorded instead of enqueued; replay() enqueues them, as often as wanted.
  void begin_capture() { capture_ = std::make_unique<Graph>(); }
  int end_capture();
  void replay(int graph);
  // Runs until nothing can happen any more. True when every kernel completed; otherwise blocked() lists the waits.
  bool run();
  std::vector<BlockedWait> blocked() const;
  // Drops every unfinished kernel and pending event; streams are empty afterwards.
  void abandon();
  // A write to `word` wakes every wait of `rank`, so that waits can give up. A rank may have several such words.
  void watch_abort(int rank, const void* word) { abort_words_.emplace_back(rank, word); }
  // The named wait of `rank` that is the `waits`-th to block from now on, counted from 0, times out `after_ns` later, and with it all of
  // the rank's: none has patience any more.
  void lose_patience(int rank, int waits, double after_ns) { patience_[static_cast<std::size_t>(rank)] = {waits, from_ns(after_ns), false}; }
  bool lost_patience(int rank) const { return patience_[static_cast<std::size_t>(rank)].lost; }
  const std::string& fault() const { return fault_; }
  std::vector<KernelTime>& trace() { return trace_; }

  Nics* nics = nullptr;  // the fabric between the ranks, where somebody made one

  // ---- fiber side
  Fiber* current = nullptr;
  int rank() const { return current->cta->kernel->stream->rank; }
  void sync();                              // yields if something else happens before the fiber's clock
  void block();                             // gives up the processor; the wake-up has been arranged
  void watch(Watch* watches, int count);    // blocks until one of the words satisfies its watch, or the rank is aborted
  void notify(const void* word, Time landed);
  void notify_range(const void* begin, std::size_t bytes, Time landed);  // every 4-byte word of it
  void arrive_and_wait(Barrier& barrier, int expected, Time cost);
  void grid_dependency_wait();
  void trigger_dependents();
  // Hunt: a plain store of up to 8 bytes lands late, at the latest at the fiber's next barrier or fence or its kernel's end.
  void store_late(void* p, std::uint64_t bits, std::uint32_t bytes);
  void land_stores(Fiber& fiber);                                   // all of them, now
  void land_stores_at(Fiber& fiber, const void* p);                 // those to this address: a thread sees its own stores
  void stop(const std::string& what);       // records the fault; nothing runs any more
  void check(const void* p, std::size_t bytes, const char* what);

  // ---- time and transport
  void wake(Fiber* chain, Time t) { push(t, reinterpret_cast<std::uintptr_t>(chain)); }
  Action* act(Time t, void (*run)(Engine&, Action&));
  Time transfer(int from, int to, Time t, std::size_t bytes);
  Time memory_traffic(int rank, const void* p, std::size_t bytes, Time t, double* latency_ns);
  void copy(void* to, const void* from, std::size_t bytes) const;
  void* copier(void*& thread) { return thread = thread == nullptr ? races::begin(idle_thread_) : thread; }

 private:
  friend void fiber_entry();
  static void began(Fiber& fiber);
  static void follow_stream(const Kernel& kernel);
  void ended(Fiber& fiber);
  bool satisfied(Watch& watch) const;
  static BlockedWait unfinished(const Kernel& kernel);
  void end_watches(Fiber& fiber);
  void wake_aborted(int rank, Time landed);
  void try_patience(int rank);
  void push(Time t, std::uintptr_t subject);
  Fiber* pick();
  void resume(Fiber* fiber, void** save);
  void exit_fiber();
  void schedule(Kernel* kernel, Time t);
  void place(Kernel* kernel);
  void fill(Kernel* kernel);
  void fill_waiting(int rank);
  void call_host(Kernel* kernel);
  bool has_room(const Kernel& kernel) const;
  void start_cta(Kernel* kernel, int index, int sm);
  void start_fibers(Cta* cta);
  Cta* take_cta(const Launch& launch);
  void finish_cta(Cta* cta);
  void complete(Kernel* kernel);
  void release_dependents(Kernel* kernel);
  void maybe_trigger(Kernel* kernel, Time t);
  static std::size_t bucket(const void* word) {
    return static_cast<std::size_t>((reinterpret_cast<std::uintptr_t>(word) >> 2) * 0x9E3779B1u) >> 8 & (kWatchBuckets - 1);
  }

  static constexpr std::size_t kWatchBuckets = 1 << 14;
  Machine machine_;
  Options options_;
  Adversary adversary_;
  Memory memory_;
  std::vector<Gpu> gpus_;
  StackPool stacks_;
  EventHeap heap_;
  ActionPool actions_;
  std::vector<Watch*> watches_;
  std::vector<std::pair<int, const void*>> abort_words_;
  std::vector<Patience> patience_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<Kernel*> free_kernels_;
  std::vector<std::vector<Kernel*>> waiting_;  // of a rank: kernels whose CTAs have not all found an SM, in the order they are served
  std::vector<std::unique_ptr<Cta>> ctas_;
  std::vector<Cta*> free_ctas_;
  std::vector<KernelTime> trace_;
  std::unique_ptr<Graph> capture_;
  std::vector<std::unique_ptr<Graph>> graphs_;
  Time now_ = 0;
  std::uint64_t sequence_ = 0;
  Fiber* ready_ = nullptr;
  Fiber* exited_ = nullptr;
  void* main_stack_ = nullptr;
  void* main_thread_ = nullptr;  // to the race checker: whoever calls run(), and one that does nothing
  void* idle_thread_ = races::begin(races::current());
  std::string fault_;
};

// The engine whose fibers are running; set by Engine::run.
inline Engine* engine = nullptr;

SIMGPU_UNSEEN inline void Engine::sync() {
  Fiber* fiber = current;
  if (fiber->in_lanes && fiber->last_sync == fiber->clock) return;
  // Lanes of a section are slow together, or the section would stall 32 times as often as its warp.
  if (adversary_.active() && !(fiber->in_lanes && fiber->last_sync >= 0)) fiber->clock += adversary_.step(rank(), fiber->cta->kernel->launch.name);
  if (ready_ != nullptr || (!heap_.empty() && heap_.next_time() <= fiber->clock)) {
    fiber->next = nullptr;
    wake(fiber, fiber->clock);
    block();
  } else if (fiber->clock > now_) {
    now_ = fiber->clock;
  }
  fiber->last_sync = fiber->clock;
}

}  // namespace simgpu
