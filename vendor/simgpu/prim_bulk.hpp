// Mbarriers and bulk copies of the CPU target. When hunting, a bulk store reads its source late and lands late.
#pragma once
#include <cstdlib>
#include <cstring>

#include "prim_memory.hpp"

namespace prim {

// Phase, expected and pending arrivals, and the bytes still to come.
struct alignas(8) Mbarrier {
  std::uint32_t phase : 1, expected : 15, pending : 16;
  std::int32_t bytes;
};

namespace detail {

SIMGPU_UNSEEN inline void advance(Engine& e, Mbarrier* barrier, Time t) {
  if (barrier->pending != 0 || barrier->bytes != 0) return;
  barrier->phase ^= 1;
  barrier->pending = barrier->expected;
  e.notify(barrier, t);
}
SIMGPU_UNSEEN inline void loaded(Engine& e, Action& a) {
  auto* barrier = reinterpret_cast<Mbarrier*>(a.value);
  barrier->bytes -= static_cast<std::int32_t>(a.bytes);
  advance(e, barrier, a.when);
}
// A copy made as it is issued. To the race checker another thread makes it, behind the warp's earlier steps; `read` stands for its
// having read the source, `landed` for its having written.
inline void copy_at_once(void*& thread, void* to, const void* from, std::size_t bytes, const void* read, const void* landed) {
  if constexpr (races::kOn) {
    races::release(&thread);
    const races::Behalf copier(engine->copier(thread));
    races::acquire(&thread);
    races::read(from, bytes);
    races::release(read);
    races::wrote(to, bytes);
    races::release(landed);
  }
  engine->copy(to, from, bytes);
}
// Where a bulk copy finds or leaves this CTA's shared memory when hunting.
inline char* async_view(const void* shared) {
  const simgpu::Cta& c = *self().cta;
  return c.async_view + (static_cast<const char*>(shared) - c.shared);
}
inline void load_lands(Engine& e, Action& a) {
  e.copy(a.target, a.source, a.bytes);
  e.copy(a.view, a.source, a.bytes);
  loaded(e, a);
}
inline void store_lands(Engine& e, Action& a) {
  e.copy(a.target, a.source, a.bytes);
  std::free(a.source);
}
// The engine reads the source of a bulk store only now; a.value is when the bytes land.
inline void store_reads(Engine& e, Action& a) {
  void* held = std::malloc(a.bytes);
  e.copy(held, a.source, a.bytes);
  Action* landing = e.act(static_cast<Time>(a.value), store_lands);
  landing->target = a.target;
  landing->source = held;
  landing->bytes = a.bytes;
}

}  // namespace detail

SIMGPU_UNSEEN inline void mbarrier_init(Mbarrier* barrier, int arrivals) {
  barrier->phase = 0;
  barrier->expected = barrier->pending = static_cast<std::uint32_t>(arrivals) & 0x7fff;
  barrier->bytes = 0;
  charge(cost().shared_ns);
}
inline void fence_mbarrier_init() {}
SIMGPU_UNSEEN inline void mbarrier_expect(Mbarrier* barrier, int bytes) {
  engine->sync();
  barrier->bytes += bytes;
  barrier->pending = (barrier->pending - 1u) & 0xffff;
  charge(cost().shared_ns);
  detail::advance(*engine, barrier, self().clock);
}
inline void mbarrier_wait(Mbarrier* barrier, std::uint32_t parity) {
  struct Context {
    const Mbarrier* barrier;
    std::uint32_t parity;
    SIMGPU_UNSEEN static bool satisfied(void* c) {
      auto* context = static_cast<Context*>(c);
      return context->barrier->phase != context->parity;
    }
  } context{barrier, parity};
  engine->sync();
  simgpu::Watch watch{barrier, 4, &Context::satisfied, &context, Wait{}};
  while (!Context::satisfied(&context)) engine->watch(&watch, 1);
  races::acquire(barrier);
  charge(cost().shared_ns);
}

// Orders this thread's earlier generic accesses to shared memory before later bulk copies. When hunting, bulk copies see generic
// writes only as of the CTA's latest fence.
inline void fence_proxy_async() {
  charge(cost().shared_ns);
  const simgpu::Cta& c = *self().cta;
  if (engine->adversary().active()) std::memcpy(c.async_view, c.shared, static_cast<std::size_t>(c.kernel->launch.shared_bytes));
}

// Global (own rank) to shared; completes on the mbarrier.
SIMGPU_UNSEEN inline void bulk_load(void* to, const void* from, int bytes, Mbarrier* barrier) {
  engine->check(from, static_cast<std::size_t>(bytes), "bulk load");
  engine->sync();
  charge(cost().bulk_issue_ns);
  Fiber& fiber = self();
  double latency = 0;
  simgpu::Sm& sm = engine->gpu(own_rank()).sms[static_cast<std::size_t>(fiber.cta->sm)];
  const Time path = sm.bulk.use(fiber.clock, bytes, cost().bulk_gb_per_s);
  const Time memory = engine->memory_traffic(own_rank(), from, static_cast<std::size_t>(bytes), fiber.clock, &latency);
  const Time done = std::max(path, memory) + from_ns(latency * fiber.latency_factor + cost().bulk_latency_ns) + engine->adversary().delay(4000);
  const bool late = engine->adversary().active();
  Action* action = engine->act(done, late ? detail::load_lands : detail::loaded);
  action->target = to;
  action->source = const_cast<void*>(from);
  action->bytes = static_cast<std::uint32_t>(bytes);
  action->value = reinterpret_cast<std::uint64_t>(barrier);
  if (late) action->view = detail::async_view(to);
  if (!late) detail::copy_at_once(fiber.copiers[0], to, from, static_cast<std::size_t>(bytes), barrier, barrier);
}

// Shared to global memory of any rank; joins the open bulk group.
SIMGPU_UNSEEN inline void bulk_store(Remote<char> to, const void* from, int bytes) {
  engine->check(to.address(), static_cast<std::size_t>(bytes), "bulk store");
  engine->sync();
  charge(cost().bulk_issue_ns);
  Fiber& fiber = self();
  const int owner = engine->memory().owner(to.address()), rank = own_rank();
  simgpu::Sm& sm = engine->gpu(rank).sms[static_cast<std::size_t>(fiber.cta->sm)];
  Time read = sm.bulk.use(fiber.clock, bytes, cost().bulk_gb_per_s) + from_ns(cost().bulk_latency_ns) + engine->adversary().delay(4000);
  // A copy that the adversary holds back must not hold the pipes for everyone behind it: that would undo its lateness.
  const Time begins = engine->adversary().active() ? fiber.clock : read;
  Time landed;
  if (owner == rank) {
    landed = engine->memory_traffic(rank, to.address(), static_cast<std::size_t>(bytes), begins, nullptr) + from_ns(cost().l2_latency_ns) +
             engine->adversary().delay(4000);
  } else {
    landed = engine->transfer(rank, owner, begins, static_cast<std::size_t>(bytes));
    engine->gpu(owner).l2_residency.touch(engine->memory().offset(to.address()), static_cast<std::size_t>(bytes));
  }
  landed = std::max(landed, read);
  const Time acknowledged = landed + from_ns(owner == rank ? cost().l2_latency_ns : cost().nvlink_latency_ns);
  if (engine->adversary().active()) {
    Action* action = engine->act(read, detail::store_reads);
    action->target = to.address();
    action->source = detail::async_view(from);
    action->bytes = static_cast<std::uint32_t>(bytes);
    action->value = static_cast<std::uint64_t>(landed);
  } else {
    detail::copy_at_once(fiber.copiers[1], to.address(), from, static_cast<std::size_t>(bytes), &fiber.open.read, &fiber.open.landed);
  }
  fiber.open.read = std::max(fiber.open.read, read);
  fiber.open.landed = std::max(fiber.open.landed, acknowledged);
}
inline void bulk_store(char* to, const void* from, int bytes) { bulk_store(Remote<char>(to), from, bytes); }

inline void bulk_commit() {
  Fiber& fiber = self();
  if (fiber.num_groups == Fiber::kMaxGroups) {
    fiber.groups[1].read = std::max(fiber.groups[0].read, fiber.groups[1].read);
    fiber.groups[1].landed = std::max(fiber.groups[0].landed, fiber.groups[1].landed);
    std::memmove(fiber.groups, fiber.groups + 1, sizeof(fiber.groups[0]) * (Fiber::kMaxGroups - 1));
    --fiber.num_groups;
  }
  fiber.groups[fiber.num_groups++] = fiber.open;
  fiber.open = {};
  charge(cost().shared_ns);
}
// Called by the whole warp. Until all but the `pending` latest groups of every lane have been read (`bulk_wait_read`) or have landed everywhere (`bulk_wait`).
inline void bulk_wait_read(int pending = 0) {
  Fiber& fiber = self();
  // When hunting, what happens at one time happens in any order: the wait ends behind the read, not beside it.
  const Time behind = engine->adversary().active() ? 1 : 0;
  for (int g = 0; g + pending < fiber.num_groups; ++g) fiber.clock = std::max(fiber.clock, fiber.groups[g].read + behind);
  engine->sync();
#ifdef SIMGPU_THREAD_FIBERS
  sync_warp();
#endif
  if (pending == 0) races::acquire(&fiber.open.read);
}
inline void bulk_wait(int pending = 0) {
  Fiber& fiber = self();
  const int done = fiber.num_groups - pending;
  if (pending == 0) races::acquire(&fiber.open.landed);
  for (int g = 0; g < done; ++g) fiber.clock = std::max(fiber.clock, fiber.groups[g].landed);
  if (done > 0) std::memmove(fiber.groups, fiber.groups + done, sizeof(fiber.groups[0]) * static_cast<std::size_t>(pending));
  fiber.num_groups = std::min(fiber.num_groups, pending);
  // A warp without work has nothing to wait for; whatever it touches next lets earlier events go first itself.
  if (fiber.has_task || done > 0 || engine->adversary().active()) engine->sync();
#ifdef SIMGPU_THREAD_FIBERS
  sync_warp();
#endif
}

}  // namespace prim
