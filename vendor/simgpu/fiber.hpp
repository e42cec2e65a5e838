// A fiber is one simulated warp (or, with SIMGPU_THREAD_FIBERS, one thread): a stack, a clock and the state of its waits.
// Stacks are handed out last-in first-out when a fiber first runs, so warps that never block share one warm stack.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "clock.hpp"
#include "races.hpp"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#ifdef SIMGPU_THREAD_FIBERS
#define SIMGPU_LANE_FIBERS 32
#else
#define SIMGPU_LANE_FIBERS 1
#endif

extern "C" void simgpu_switch(void** save, void* load);

namespace simgpu {

struct Action;
struct Cta;

// What a blocked fiber waits for; the deadlock report prints it.
struct Wait {
  const char* name = nullptr;
  int peer = -1;                // rank waited for, -1: the own rank
  std::uint64_t expected = 0;
};

struct Fiber;

// A word that a blocked fiber waits for, in the list of its bucket; it lives on the fiber's stack.
struct Watch {
  const void* word = nullptr;
  int bytes = 0;
  bool (*satisfied)(void* context) = nullptr;
  void* context = nullptr;
  Wait wait;
  Fiber* fiber = nullptr;
  Watch* next = nullptr;
};

struct BulkGroup {
  Time read = 0;    // sources have been read
  Time landed = 0;  // writes have landed and been acknowledged
};

struct Fiber {
  void* stack_pointer = nullptr;
  Fiber* next = nullptr;
  Time clock = 0;
  double latency_factor = 1;  // of loads, for the task at hand
  Time horizon = 0;    // landing time of this fiber's latest generic write
  Time last_sync = -1;  // clock of the last yield check inside the current lane section
  Cta* cta = nullptr;
  int warp = 0, lane = 0;
  int stack = -1;
  bool started = false, in_lanes = false;
  bool has_task = false;  // it turned to an item of its kernel's work
  bool lags = false;   // started after its predecessor completed, runs its shared-memory prologue at its CTA's start time

  Watch* watches = nullptr;  // while blocked on words: any of them ends the wait
  int num_watches = 0;

  void* thread = nullptr;  // what the race checker takes it for, and whoever does its bulk loads and stores: no order joins these
  void* copiers[2] = {nullptr, nullptr};

  std::vector<Action*> late_stores;  // hunt: plain stores of this fiber that have not landed

  static constexpr int kMaxGroups = 8;
  BulkGroup open, groups[kMaxGroups];
  int num_groups = 0;
};

class StackPool {
 public:
  static constexpr std::size_t kStackBytes = 64 * 1024;
  static constexpr int kMaxStacks = 1 << 17;

  StackPool() {
    void* p = mmap(nullptr, kStackBytes * kMaxStacks, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    madvise(p, kStackBytes * kMaxStacks, MADV_NOHUGEPAGE);
    base_ = static_cast<char*>(p);
  }
  ~StackPool() {
    for (int stack = 0; stack < next_; ++stack) forget(stack);
    munmap(base_, kStackBytes * kMaxStacks);
  }
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  // Gives `fiber` a stack whose first switch enters `entry`. Tops are staggered so that stacks do not share cache sets.
  void attach(Fiber& fiber, void (*entry)()) {
    fiber.stack = free_.empty() ? next_++ : free_.back();
    if (!free_.empty()) free_.pop_back();
    if (fiber.stack >= kMaxStacks) throw std::bad_alloc();
    const auto stagger = static_cast<std::size_t>(fiber.stack) * 320 % 3072 / 64 * 64;
    char* top = base_ + (static_cast<std::size_t>(fiber.stack) + 1) * kStackBytes - stagger;
    auto* slot = reinterpret_cast<std::uint64_t*>(reinterpret_cast<std::uintptr_t>(top) & ~std::uintptr_t{15});
    *--slot = 0;
    *--slot = reinterpret_cast<std::uint64_t>(entry);
    for (int saved = 0; saved < 6; ++saved) *--slot = 0;
    fiber.stack_pointer = slot;
  }
  void release(Fiber& fiber) {
    forget(fiber.stack);
    if (!races::kOn) free_.push_back(fiber.stack);
    fiber.stack = -1;
  }

 private:
  // A fiber that was dropped leaves its frames' red zones behind.
  void forget([[maybe_unused]] int stack) {
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(base_ + static_cast<std::size_t>(stack) * kStackBytes, kStackBytes);
#endif
  }

  char* base_ = nullptr;
  std::vector<int> free_;
  int next_ = 0;
};

}  // namespace simgpu
