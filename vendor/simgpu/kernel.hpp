// Kernels in flight: launch shape, CTAs, and the streams that order them.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "fiber.hpp"

namespace simgpu {

// A barrier among fibers: collects clocks and write horizons, releases everyone at the latest.
struct Barrier {
  int arrived = 0;
  Time clock = 0, horizon = 0;
  Fiber* first = nullptr;
  Fiber* last = nullptr;
};

struct Launch {
  const char* name = "";
  int grid = 1, threads = 32, shared_bytes = 0;
  bool leaves_l1 = false;     // room in L1 for many loads in flight
  bool cooperative = false;
  bool programmatic = false;  // may start when the predecessor's CTAs have triggered
  bool waits_first = false;   // touches nothing but shared memory before griddepcontrol.wait
  int tag = 0;                // the exchange it belongs to, for the trace
  int group = 0;              // and whose exchanges these are
  std::function<void()> body;
  double busy_ns = 0;          // above zero: an opaque kernel, whose CTAs hold their slots for so long and run no body
  std::function<void()> host;  // a host actor instead of CTAs: called when all before it in its stream is complete, for busy_ns
};

struct Stream;

struct Kernel {
  Launch launch;
  Stream* stream = nullptr;
  Kernel* previous = nullptr;  // predecessor in the stream while it matters to griddepcontrol.wait
  Kernel* following = nullptr;
  Kernel* before = nullptr;    // in the stream, complete or not: for the race checker
  int started = 0, finished = 0, triggered = 0;
  bool scheduled = false, placed = false, drained = false;
  bool previous_complete = true;
  Time enqueued = 0, placed_at = 0, completed_at = 0, previous_completed_at = 0;
  Fiber* dependents_waiting = nullptr;     // fibers of the next kernel in griddepcontrol.wait
  std::vector<Cta*> dependents_deferred;   // its CTAs whose fibers have not been started yet
  Barrier grid_barrier;
};

struct Stream {
  int rank = 0;
  int priority = 0;  // CTAs of streams with a higher one are placed first
  Kernel* head = nullptr;
  Kernel* tail = nullptr;
  Kernel* last = nullptr;  // that was enqueued: for the race checker
};

// Launches of several streams as they were captured, arguments included: what a replay enqueues.
using Graph = std::vector<std::pair<Stream*, Launch>>;

struct Cta {
  static constexpr int kNamedBarriers = 16;
  Kernel* kernel = nullptr;
  int index = 0, sm = 0, alive = 0;
  bool triggered = false;
  Time start = 0, end = 0;
  char* shared = nullptr;
  char* async_view = nullptr;  // hunt: shared memory as bulk copies see it, that is, as of the last proxy fence
  std::vector<Fiber> fibers;
  Barrier barriers[kNamedBarriers];
  std::vector<Barrier> warp_barriers;      // thread fibers only
  std::vector<std::uint64_t> exchange;     // thread fibers only: one slot a thread
};

struct KernelTime {
  int rank, tag, group;
  const char* name;
  Time start, end;
};

}  // namespace simgpu
