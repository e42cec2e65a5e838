#include "nic.hpp"

#include <cstdlib>
#include <cstring>

namespace simgpu {

namespace {

constexpr double kReadNs = 5000, kLandNs = 5000;  // how late a hunt may make either
constexpr double kHeaderBytes = 64;

void read_word(Engine& e, Action& a) {
  const auto* word = static_cast<std::uint64_t*>(a.target);
  Action* write = e.act(a.when + static_cast<Time>(a.bytes), [](Engine& engine, Action& w) {
    std::memcpy(w.target, &w.value, sizeof(w.value));
    engine.notify(w.target, w.when);
  });
  write->target = a.target;
  write->value = *word + a.value;
}

}  // namespace

Nics::Nics(Engine& engine, const NicMachine& machine) : engine_(engine), machine_(machine) {
  machine.require_complete();
  reset();
  engine.nics = this;
}

void Nics::reset() {
  const auto ranks = static_cast<std::size_t>(engine_.num_ranks()), pairs = static_cast<std::size_t>(machine_.queue_pairs);
  ports_.assign(ranks, Port{{}, {}, {}, {}, std::vector<Pipe>(pairs)});
  queues_.assign(ranks * ranks * pairs, NicQueue{});
}

NicQueue& Nics::queue(int rank, int peer, int queue_pair) {
  const int ranks = engine_.num_ranks(), pairs = static_cast<int>(machine_.queue_pairs);
  if (peer < 0 || peer >= ranks || queue_pair < 0 || queue_pair >= pairs)
    engine_.stop("NIC queue: expected one of " + std::to_string(pairs) + " queue pairs towards one of " + std::to_string(ranks) + " ranks");
  return queues_[static_cast<std::size_t>((rank * ranks + peer) * pairs + queue_pair)];
}

void Nics::ring(int rank, int peer, int queue_pair, Time t) {
  NicQueue& queue = this->queue(rank, peer, queue_pair);
  for (; !queue.waiting.empty(); queue.waiting.pop_front()) move(rank, peer, queue_pair, queue.waiting.front(), t + from_ns(machine_.ring_ns));
}

// Plans one entry: when its source is read, when it lands, when its addition is done. The addition comes after the bytes.
void Nics::move(int rank, int peer, int queue_pair, const NicEntry& entry, Time t) {
  NicQueue& queue = this->queue(rank, peer, queue_pair);
  Port& from = ports_[static_cast<std::size_t>(rank)];
  Port& to = ports_[static_cast<std::size_t>(peer)];
  const double bytes = entry.bytes + kHeaderBytes;
  Adversary& adversary = engine_.adversary();
  t = from.queue_messages[static_cast<std::size_t>(queue_pair)].hold(t, machine_.queue_message_ns);
  t = from.messages.hold(t, machine_.message_ns);
  const Time sent = from.out.use(t, bytes, machine_.gb_per_s);
  queue.last_read = std::max(queue.last_read + 1, sent + adversary.delay(kReadNs));
  const Time arrives = to.in.use(sent + from_ns(machine_.latency_ns), bytes, machine_.gb_per_s);
  const Time lands = std::max(arrives + adversary.link_delay(rank, peer) + adversary.delay(kLandNs), queue.last_read);
  queue.last_landed = std::max(queue.last_landed + 1, lands);
  Action* reading = engine_.act(queue.last_read, read);
  reading->target = entry.to;
  reading->source = const_cast<void*>(entry.from);
  reading->bytes = entry.bytes;
  reading->view = &queue;
  reading->value = entry.from == nullptr ? entry.value : static_cast<std::uint64_t>(queue.last_landed);
  if (entry.from == nullptr && entry.bytes > 0) {
    Action* landing = engine_.act(queue.last_landed, land);
    landing->target = entry.to;
    landing->value = entry.value;
    landing->bytes = entry.bytes;
  }
  if (entry.signal != nullptr) add(peer, queue, entry, queue.last_landed + 1);
}

// A NIC takes its additions one after another, each a read and a later write: atomic among themselves, not against the SMs.
void Nics::add(int peer, NicQueue& queue, const NicEntry& entry, Time t) {
  const Time written = ports_[static_cast<std::size_t>(peer)].atomics.hold(t, machine_.atomic_ns + 1) - kNanosecond;
  const Time window = from_ns(machine_.atomic_ns);
  Action* reading = engine_.act(written - window, read_word);
  reading->target = entry.signal;
  reading->value = entry.addend;
  reading->bytes = static_cast<std::uint32_t>(window);
  queue.last_landed = written;
}

// The source of an entry is read: its bytes are held until they land, and its place in the queue is free.
void Nics::read(Engine& engine, Action& action) {
  auto& queue = *static_cast<NicQueue*>(action.view);
  if (action.source != nullptr) {
    void* held = std::malloc(action.bytes);
    engine.copy(held, action.source, action.bytes);
    Action* landing = engine.act(static_cast<Time>(action.value), land);
    landing->target = action.target;
    landing->source = held;
    landing->bytes = action.bytes;
  }
  ++queue.read;
  engine.notify(&queue.read, action.when);
}

void Nics::land(Engine& engine, Action& action) {
  if (action.source == nullptr)
    std::memcpy(action.target, &action.value, action.bytes);
  else
    engine.copy(action.target, action.source, action.bytes);
  std::free(action.source);
  engine.notify_range(action.target, action.bytes, action.when);
}

}  // namespace simgpu
