// Hunt mode's plain stores: on their way until a barrier, a fence or the end of the kernel, and visible to their own thread.
#include <cstring>

#include "engine.hpp"

namespace simgpu {

namespace {

constexpr double kLateNs = 3000;

void write(Engine& e, Action& store, Time landed) {
  std::memcpy(store.target, &store.value, store.bytes);
  store.bytes = 0;  // done: its event finds nothing left to do
  e.notify(store.target, landed);
}

void land(Engine& e, Action& store) {
  if (store.bytes == 0) return;
  auto& pending = static_cast<Fiber*>(store.source)->late_stores;
  pending.erase(std::find(pending.begin(), pending.end(), &store));
  write(e, store, store.when);
}

}  // namespace

void Engine::store_late(void* p, std::uint64_t bits, std::uint32_t bytes) {
  Fiber& fiber = *current;
  land_stores_at(fiber, p);
  const Time lands = fiber.clock + from_ns(machine_.l2_latency_ns) + adversary_.delay(kLateNs);
  fiber.horizon = std::max(fiber.horizon, lands);
  Action* store = act(lands, land);
  store->target = p;
  store->source = &fiber;
  store->value = bits;
  store->bytes = bytes;
  fiber.late_stores.push_back(store);
}

void Engine::land_stores(Fiber& fiber) {
  for (Action* store : fiber.late_stores) write(*this, *store, fiber.clock);
  fiber.late_stores.clear();
}

void Engine::land_stores_at(Fiber& fiber, const void* p) {
  auto& pending = fiber.late_stores;
  const auto here = std::find_if(pending.begin(), pending.end(), [p](const Action* store) { return store->target == p; });
  if (here == pending.end()) return;
  Action* store = *here;
  pending.erase(here);
  write(*this, *store, fiber.clock);
}

}  // namespace simgpu
