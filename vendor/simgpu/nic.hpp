// Simulated NICs, one a rank. What a kernel posts waits in a bounded queue for the doorbell; from then on it moves by itself: its
// source is read late, and it lands later still. Only entries of one queue (a queue pair towards one peer) keep their order.
#pragma once
#include <cmath>
#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine.hpp"

// post: the poster's time for an entry; ring: doorbell to NIC; latency: one way; queue_message and message: the least time between two
// messages of one queue pair and of one NIC; atomic: between the read and the write of a remote addition; queue_entries: a queue's depth.
// No machine file has them yet: whoever makes a fabric brings them.
#define SIMGPU_NIC_CONSTANTS(X) \
  X(post_ns) X(ring_ns) X(latency_ns) X(gb_per_s) X(queue_message_ns) X(message_ns) X(atomic_ns) X(queue_pairs) X(queue_entries)

namespace simgpu {

struct NicMachine {
#define SIMGPU_FIELD(name) double name = std::nan("");
  SIMGPU_NIC_CONSTANTS(SIMGPU_FIELD)
#undef SIMGPU_FIELD

  // Throws std::invalid_argument naming the first constant that was never set.
  void require_complete() const {
#define SIMGPU_CHECK(field) \
  if (std::isnan(field)) throw std::invalid_argument("NIC constant '" #field "' is missing");
    SIMGPU_NIC_CONSTANTS(SIMGPU_CHECK)
#undef SIMGPU_CHECK
  }
};

// Bytes from memory or a value of its own, then an addition: either may be absent.
struct NicEntry {
  void* to = nullptr;
  const void* from = nullptr;  // null: `value` is what goes out
  std::uint32_t bytes = 0;
  std::uint64_t value = 0;
  std::uint64_t* signal = nullptr;  // null: nothing is added
  std::uint64_t addend = 0;
};

struct NicQueue {
  std::deque<NicEntry> waiting;  // posted, the doorbell has not rung for them
  std::uint64_t posted = 0;
  std::uint64_t read = 0;  // entries whose source has been read; waits watch it
  Time last_read = 0, last_landed = 0;
};

class Nics {
 public:
  Nics(Engine& engine, const NicMachine& machine);
  ~Nics() { engine_.nics = nullptr; }
  Nics(const Nics&) = delete;
  Nics& operator=(const Nics&) = delete;

  const NicMachine& machine() const { return machine_; }
  NicQueue& queue(int rank, int peer, int queue_pair);
  bool full(const NicQueue& queue) const { return queue.posted - queue.read >= static_cast<std::uint64_t>(machine_.queue_entries); }
  // The doorbell of a queue at time t: all that was posted to it moves.
  void ring(int rank, int peer, int queue_pair, Time t);
  void reset();

 private:
  struct Port {
    Pipe out, in, messages, atomics;
    std::vector<Pipe> queue_messages;  // of a queue pair, whomever it sends to
  };
  void move(int rank, int peer, int queue_pair, const NicEntry& entry, Time t);
  static void read(Engine& engine, Action& action);
  static void land(Engine& engine, Action& action);
  void add(int peer, NicQueue& queue, const NicEntry& entry, Time t);

  Engine& engine_;
  NicMachine machine_;
  std::vector<Port> ports_;
  std::vector<NicQueue> queues_;
};

}  // namespace simgpu
