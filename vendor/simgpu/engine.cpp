#include "engine.hpp"

#include <cstring>

#include "nic.hpp"

namespace simgpu {

Engine::Engine(int num_ranks, const Machine& machine, const Options& options)
    : machine_(machine),
      options_(options),
      adversary_(options.hunt, options.seed, num_ranks),
      memory_(num_ranks),
      gpus_(static_cast<std::size_t>(num_ranks), Gpu(machine)),
      watches_(kWatchBuckets, nullptr),
      patience_(static_cast<std::size_t>(num_ranks)),
      waiting_(static_cast<std::size_t>(num_ranks)) {
  machine.require_complete();
}

Engine::~Engine() {
  races::end(idle_thread_);
  for (auto& cta : ctas_) {
    munmap(cta->shared, static_cast<std::size_t>(machine_.shared_bytes_per_sm));
    delete[] cta->async_view;
  }
}

void Engine::push(Time t, std::uintptr_t subject) {
  heap_.push({t, adversary_.active() ? adversary_.tie_break() : sequence_++, subject});
}

Action* Engine::act(Time t, void (*run)(Engine&, Action&)) {
  Action* action = actions_.take();
  action->run = run;
  action->when = t;
  push(t, reinterpret_cast<std::uintptr_t>(action) | 1);
  return action;
}

// The next runnable fiber; runs the actions that come before it. Null when nothing is left.
Fiber* Engine::pick() {
  for (;;) {
    if (ready_ != nullptr) {
      Fiber* fiber = ready_;
      ready_ = fiber->next;
      return fiber;
    }
    if (heap_.empty() || !fault_.empty()) return nullptr;
    const Event event = heap_.pop();
    now_ = event.time;
    if ((event.subject & 1) == 0) {
      ready_ = reinterpret_cast<Fiber*>(event.subject);
      continue;
    }
    auto* action = reinterpret_cast<Action*>(event.subject & ~std::uintptr_t{1});
    action->run(*this, *action);
    actions_.give(action);
  }
}

// What the race checker is told of a warp's first and last step: it follows its launch, and unless it waits for that itself, what
// its stream held before; whoever follows its kernel, or looks at the world once nothing runs, follows it.
void Engine::began(Fiber& fiber) {
  const Kernel& kernel = *fiber.cta->kernel;
  races::acquire(&kernel.enqueued);
  if (!kernel.launch.programmatic) follow_stream(kernel);
}
void Engine::ended(Fiber& fiber) {
  races::release(&fiber.cta->kernel->finished);
  races::release(&exited_);
}

void fiber_entry() {
  Engine::began(*engine->current);
  engine->current->cta->kernel->launch.body();
  engine->ended(*engine->current);
  engine->exit_fiber();
}

void Engine::resume(Fiber* fiber, void** save) {
  if (!fiber->started) {
    fiber->started = true;
    fiber->thread = races::begin(idle_thread_);
    stacks_.attach(*fiber, fiber_entry);
  }
  current = fiber;
  if (fiber->clock < now_ && !fiber->lags) fiber->clock = now_;
  races::become(fiber->thread);
  simgpu_switch(save, fiber->stack_pointer);
}

void Engine::block() {
  Fiber* self = current;
  Fiber* next = pick();
  if (next == self) {
    if (self->clock < now_) self->clock = now_;
    return;
  }
  if (next == nullptr) {
    current = nullptr;
    races::become(main_thread_);
    simgpu_switch(&self->stack_pointer, main_stack_);
  } else {
    resume(next, &self->stack_pointer);
  }
}

void Engine::exit_fiber() {
  exited_ = current;
  void* abandoned = nullptr;
  races::become(main_thread_);
  simgpu_switch(&abandoned, main_stack_);
}

bool Engine::run() {
  engine = this;
  main_thread_ = races::current();
  fault_.clear();
  for (;;) {
    if (exited_ != nullptr) {
      Fiber* fiber = exited_;
      exited_ = nullptr;
      stacks_.release(*fiber);
      races::end(fiber->thread);
      for (void* copier : fiber->copiers) races::end(copier);
      Cta* cta = fiber->cta;
      cta->end = std::max({cta->end, fiber->clock, adversary_.active() ? fiber->horizon : Time{0}});
      if (--cta->alive == 0) {
        Action* action = act(std::max(now_, cta->end), [](Engine& e, Action& a) { e.finish_cta(static_cast<Cta*>(a.target)); });
        action->target = cta;
      }
    }
    Fiber* fiber = pick();
    if (fiber == nullptr) break;
    resume(fiber, &main_stack_);
  }
  current = nullptr;
  races::acquire(&exited_);
  for (const auto& stream : streams_)
    if (stream->head != nullptr) return false;
  return fault_.empty();
}

void Engine::abandon() {
  while (!heap_.empty()) heap_.pop();
  ready_ = exited_ = nullptr;
  std::fill(watches_.begin(), watches_.end(), nullptr);
  for (auto& gpu : gpus_)
    for (auto& sm : gpu.sms) sm.threads = 0, sm.shared_bytes = 0;
  free_ctas_.clear();
  for (auto& cta : ctas_) {
    for (auto& fiber : cta->fibers)
      if (fiber.stack >= 0) stacks_.release(fiber);
    free_ctas_.push_back(cta.get());
  }
  for (auto& waiting : waiting_) waiting.clear();
  if (nics != nullptr) nics->reset();
  free_kernels_.clear();
  for (auto& kernel : kernels_) free_kernels_.push_back(kernel.get());
  for (auto& stream : streams_) stream->head = stream->tail = nullptr;
}

void Engine::stop(const std::string& what) {
  const Cta* cta = current->cta;
  fault_ = what + " (rank " + std::to_string(rank()) + ", kernel " + cta->kernel->launch.name + ", CTA " +
           std::to_string(cta->index) + ", warp " + std::to_string(current->warp) + ")";
  block();  // never resumed: pick() returns null once there is a fault
}

void Engine::check(const void* p, std::size_t bytes, const char* what) {
  if (memory_.contains(p, bytes)) return;
  stop(std::string(what) + ": " + std::to_string(bytes) + " bytes at offset " + std::to_string(memory_.offset(p)) +
       " of rank " + std::to_string(memory_.owner(p)) + " lie outside every live block");
}

void Engine::arrive_and_wait(Barrier& barrier, int expected, Time cost) {
  Fiber* fiber = current;
  races::release(&barrier);
  barrier.clock = std::max(barrier.clock, fiber->clock);
  barrier.horizon = std::max(barrier.horizon, fiber->horizon);
  fiber->next = nullptr;
  if (++barrier.arrived < expected) {
    (barrier.last != nullptr ? barrier.last->next : barrier.first) = fiber;
    barrier.last = fiber;
    block();
    races::acquire(&barrier);
    return;
  }
  races::acquire(&barrier);
  const Time t = barrier.clock + cost, horizon = barrier.horizon;
  Fiber* chain = barrier.first;
  land_stores(*fiber);
  for (Fiber* f = chain; f != nullptr; f = f->next) land_stores(*f);
  for (Fiber* f = chain; f != nullptr; f = f->next) f->clock = t, f->horizon = horizon;
  fiber->clock = t;
  fiber->horizon = horizon;
  barrier = Barrier{};
  if (chain != nullptr) {
    wake(chain, t);
    sync();
  }
}

Time Engine::transfer(int from, int to, Time t, std::size_t bytes) {
  const auto n = static_cast<double>(bytes);
  const Time wire = from_ns(n / machine_.nvlink_gb_per_s);
  const Time sent = gpu(from).link_out.hold(t, n / machine_.nvlink_gb_per_s + machine_.nvlink_message_ns);
  const Time arrives = gpu(to).link_in.hold(sent - wire + from_ns(machine_.nvlink_latency_ns),
                                            n / machine_.nvlink_gb_per_s + machine_.nvlink_message_ns);
  return arrives + adversary_.link_delay(from, to);
}

// When `bytes` at `p` have passed L2 and, where they were not resident, HBM; *latency_ns is what a load adds on top.
Time Engine::memory_traffic(int rank, const void* p, std::size_t bytes, Time t, double* latency_ns) {
  Gpu& g = gpu(rank);
  const double missing = g.l2_residency.touch(memory_.offset(p), bytes);
  Time done = g.l2.use(t, static_cast<double>(bytes), machine_.l2_gb_per_s);
  if (missing > 0) done = std::max(done, g.hbm.use(t, missing, machine_.hbm_gb_per_s));
  const double share = bytes == 0 ? 0 : missing / static_cast<double>(bytes);
  if (latency_ns != nullptr) *latency_ns = machine_.l2_latency_ns + share * (machine_.hbm_latency_ns - machine_.l2_latency_ns);
  return done;
}

// Rows longer than this are control bytes only where they end: record metadata never exceeds it.
constexpr std::size_t kControlBytes = 512;

void Engine::copy(void* to, const void* from, std::size_t bytes) const {
  const std::size_t skipped = options_.payload || bytes <= kControlBytes ? 0 : bytes - kControlBytes;
  races::copy(static_cast<char*>(to) + skipped, static_cast<const char*>(from) + skipped, bytes - skipped);
}

}  // namespace simgpu
