// How kernels start and end: stream order, programmatic dependent launch, SM slots.
#include <cstring>

#include "engine.hpp"

namespace simgpu {

Stream* Engine::make_stream(int rank, int priority) {
  streams_.push_back(std::make_unique<Stream>());
  streams_.back()->rank = rank;
  streams_.back()->priority = priority;
  return streams_.back().get();
}

int Engine::end_capture() {
  graphs_.push_back(std::move(capture_));
  return static_cast<int>(graphs_.size()) - 1;
}

void Engine::replay(int graph) {
  for (const auto& [stream, launch] : *graphs_[static_cast<std::size_t>(graph)]) enqueue(stream, launch);
}

void Engine::enqueue(Stream* stream, Launch launch) {
  if (capture_ != nullptr) {
    capture_->emplace_back(stream, std::move(launch));
    return;
  }
  Kernel* kernel;
  if (free_kernels_.empty()) {
    kernels_.push_back(std::make_unique<Kernel>());
    kernel = kernels_.back().get();
  } else {
    kernel = free_kernels_.back();
    free_kernels_.pop_back();
    *kernel = Kernel{};
  }
  kernel->launch = std::move(launch);
  kernel->stream = stream;
  kernel->enqueued = now_;
  kernel->before = stream->last;
  stream->last = kernel;
  races::release(&kernel->enqueued);
  if (stream->tail != nullptr) {
    kernel->previous = stream->tail;
    kernel->previous_complete = false;
    stream->tail->following = kernel;
    stream->tail = kernel;
    maybe_trigger(kernel->previous, now_);
    return;
  }
  stream->head = stream->tail = kernel;
  schedule(kernel, now_ + from_ns(machine_.host_launch_ns));
}

void Engine::schedule(Kernel* kernel, Time t) {
  if (kernel->scheduled) return;
  kernel->scheduled = true;
  if (kernel->launch.cooperative) t += from_ns(machine_.cooperative_launch_ns);
  t += adversary_.launch_delay(kernel->stream->rank);
  Action* action = act(t, [](Engine& e, Action& a) { e.place(static_cast<Kernel*>(a.target)); });
  action->target = kernel;
}

void Engine::place(Kernel* kernel) {
  kernel->placed = true;
  kernel->placed_at = now_;
  if (kernel->launch.host) return call_host(kernel);
  auto& waiting = waiting_[static_cast<std::size_t>(kernel->stream->rank)];
  const int priority = kernel->stream->priority;
  const auto lower = [priority](const Kernel* other) { return other->stream->priority < priority; };
  waiting.insert(std::find_if(waiting.begin(), waiting.end(), lower), kernel);
  fill_waiting(kernel->stream->rank);
}

// The first kernel in line is served until all of its CTAs have a place; nobody behind it overtakes.
void Engine::fill_waiting(int rank) {
  auto& waiting = waiting_[static_cast<std::size_t>(rank)];
  while (!waiting.empty()) {
    fill(waiting.front());
    if (waiting.front()->started < waiting.front()->launch.grid) return;
    waiting.erase(waiting.begin());
  }
}

// What it enqueues on its own stream comes after it.
void Engine::call_host(Kernel* kernel) {
  kernel->launch.host();
  Action* action = act(now_ + from_ns(kernel->launch.busy_ns), [](Engine& e, Action& a) { e.complete(static_cast<Kernel*>(a.target)); });
  action->target = kernel;
}

// Whether every CTA of a cooperative kernel finds an SM: it starts as a whole or not at all.
bool Engine::has_room(const Kernel& kernel) const {
  int room = 0;
  for (const Sm& sm : gpus_[static_cast<std::size_t>(kernel.stream->rank)].sms) {
    const int threads = (static_cast<int>(machine_.threads_per_sm) - sm.threads) / kernel.launch.threads;
    const double shared = machine_.shared_bytes_per_sm - sm.shared_bytes;
    room += std::min(threads, kernel.launch.shared_bytes == 0 ? threads : static_cast<int>(shared / kernel.launch.shared_bytes));
  }
  return room >= kernel.launch.grid;
}

// Places CTAs while SMs have room, on the emptiest SM first.
void Engine::fill(Kernel* kernel) {
  const Launch& launch = kernel->launch;
  auto& sms = gpu(kernel->stream->rank).sms;
  const int num_sms = static_cast<int>(sms.size());
  if (launch.cooperative && kernel->started == 0 && !has_room(*kernel)) return;
  while (kernel->started < launch.grid) {
    int best = -1;
    for (int i = 0; i < num_sms; ++i) {
      const int candidate = (i + kernel->started) % num_sms;
      const Sm& sm = sms[static_cast<std::size_t>(candidate)];
      if (sm.threads + launch.threads > machine_.threads_per_sm) continue;
      if (sm.shared_bytes + launch.shared_bytes > machine_.shared_bytes_per_sm) continue;
      if (best < 0 || sm.threads < sms[static_cast<std::size_t>(best)].threads) best = candidate;
      if (sm.threads == 0) break;
    }
    if (best < 0) return;
    start_cta(kernel, kernel->started++, best);
  }
}

Cta* Engine::take_cta(const Launch& launch) {
  if (free_ctas_.empty()) {
    ctas_.push_back(std::make_unique<Cta>());
    void* shared = mmap(nullptr, static_cast<std::size_t>(machine_.shared_bytes_per_sm), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (shared == MAP_FAILED) throw std::bad_alloc();
    ctas_.back()->shared = static_cast<char*>(shared);
    if (adversary_.active()) ctas_.back()->async_view = new char[static_cast<std::size_t>(machine_.shared_bytes_per_sm)];
    free_ctas_.push_back(ctas_.back().get());
  }
  Cta* cta = free_ctas_.back();
  free_ctas_.pop_back();
  const auto num_fibers = static_cast<std::size_t>(launch.threads / 32 * SIMGPU_LANE_FIBERS);
  if (cta->fibers.size() < num_fibers) cta->fibers.resize(num_fibers);
  return cta;
}

void Engine::start_cta(Kernel* kernel, int index, int sm) {
  const Launch& launch = kernel->launch;
  Sm& slot = gpu(kernel->stream->rank).sms[static_cast<std::size_t>(sm)];
  slot.threads += launch.threads;
  slot.shared_bytes += launch.shared_bytes;
  Cta* cta = take_cta(launch);
  cta->kernel = kernel;
  cta->index = index;
  cta->sm = sm;
  cta->alive = launch.threads / 32 * SIMGPU_LANE_FIBERS;
  cta->triggered = false;
  cta->end = 0;
  const double code_ns = launch.programmatic || launch.busy_ns > 0 ? 0 : machine_.code_ns;
  cta->start = now_ + from_ns(machine_.cta_start_ns + code_ns) + adversary_.delay(10'000);
  for (auto& barrier : cta->barriers) barrier = Barrier{};
#ifdef SIMGPU_THREAD_FIBERS
  cta->warp_barriers.assign(static_cast<std::size_t>(launch.threads / 32), Barrier{});
  cta->exchange.assign(static_cast<std::size_t>(launch.threads), 0);
#endif
  if (adversary_.active()) {
    std::memset(cta->shared, 0xA5, static_cast<std::size_t>(launch.shared_bytes));
    std::memset(cta->async_view, 0x5A, static_cast<std::size_t>(launch.shared_bytes));
  }
  if (launch.busy_ns > 0) {
    Action* action = act(cta->start + from_ns(launch.busy_ns), [](Engine& e, Action& a) { e.finish_cta(static_cast<Cta*>(a.target)); });
    action->target = cta;
    return;
  }
  if (launch.waits_first && !kernel->previous_complete && !adversary_.active())  // when hunting, nobody is taken at their word
    kernel->previous->dependents_deferred.push_back(cta);
  else
    start_fibers(cta);
}

void Engine::start_fibers(Cta* cta) {
  Fiber* chain = nullptr;
  for (int i = cta->alive - 1; i >= 0; --i) {
    Fiber& fiber = cta->fibers[static_cast<std::size_t>(i)];
    fiber = Fiber{};
    fiber.cta = cta;
    fiber.warp = i / SIMGPU_LANE_FIBERS;
    fiber.lane = i % SIMGPU_LANE_FIBERS;
    fiber.clock = cta->start;
    fiber.lags = cta->start < now_;
    fiber.next = chain;
    chain = &fiber;
  }
  wake(chain, std::max(now_, cta->start));
}

void Engine::finish_cta(Cta* cta) {
  Kernel* kernel = cta->kernel;
  for (Fiber& fiber : cta->fibers) {  // a store that lands at this very time must not find its fiber in the next kernel
    if (fiber.late_stores.empty()) continue;
    fiber.clock = std::max(fiber.clock, now_);
    land_stores(fiber);
  }
  Sm& slot = gpu(kernel->stream->rank).sms[static_cast<std::size_t>(cta->sm)];
  slot.threads -= kernel->launch.threads;
  slot.shared_bytes -= kernel->launch.shared_bytes;
  if (!cta->triggered) ++kernel->triggered;
  cta->triggered = true;
  if (!races::kOn) free_ctas_.push_back(cta);
  maybe_trigger(kernel, now_);
  if (++kernel->finished == kernel->launch.grid) {
    Action* action = act(now_ + from_ns(machine_.kernel_drain_ns),
                         [](Engine& e, Action& a) { e.complete(static_cast<Kernel*>(a.target)); });
    action->target = kernel;
  }
  fill_waiting(kernel->stream->rank);
}

void Engine::complete(Kernel* kernel) {
  kernel->drained = true;
  if (!kernel->previous_complete) return;  // a stream completes in order; the predecessor's completion comes back here
  kernel->completed_at = now_;
  trace_.push_back({kernel->stream->rank, kernel->launch.tag, kernel->launch.group, kernel->launch.name, kernel->placed_at, now_});
  Stream* stream = kernel->stream;
  stream->head = kernel->following;
  if (stream->head == nullptr) stream->tail = nullptr;
  release_dependents(kernel);
  if (!races::kOn) free_kernels_.push_back(kernel);
}

void Engine::release_dependents(Kernel* kernel) {
  Kernel* following = kernel->following;
  if (following == nullptr) return;
  following->previous = nullptr;
  following->previous_complete = true;
  following->previous_completed_at = now_;
  if (!following->scheduled) schedule(following, std::max(now_ + from_ns(machine_.graph_gap_ns), following->enqueued));
  for (Fiber* fiber = kernel->dependents_waiting; fiber != nullptr; fiber = fiber->next)
    fiber->clock = std::max(fiber->clock, now_ + from_ns(machine_.pdl_release_ns + machine_.code_ns));
  if (kernel->dependents_waiting != nullptr) wake(kernel->dependents_waiting, now_ + from_ns(machine_.pdl_release_ns + machine_.code_ns));
  for (Cta* cta : kernel->dependents_deferred) start_fibers(cta);
  if (following->drained) complete(following);
}

// The running warp follows what its stream held before its kernel; the last few kernels follow all the others.
void Engine::follow_stream(const Kernel& kernel) {
  if constexpr (!races::kOn) return;
  int kernels = 8;
  for (const Kernel* before = kernel.before; before != nullptr && kernels > 0; before = before->before, --kernels)
    races::acquire(&before->finished);
}

void Engine::grid_dependency_wait() {
  Fiber* fiber = current;
  Kernel* kernel = fiber->cta->kernel;
  fiber->lags = false;
  if (!kernel->launch.programmatic) return;
  if (!kernel->previous_complete) {
    sync();
    if (!kernel->previous_complete) {
      fiber->next = kernel->previous->dependents_waiting;
      kernel->previous->dependents_waiting = fiber;
      block();
      follow_stream(*kernel);
      return;
    }
  }
  follow_stream(*kernel);
  fiber->clock = std::max(fiber->clock, kernel->previous_completed_at + from_ns(machine_.pdl_release_ns + machine_.code_ns));
}

void Engine::trigger_dependents() {
  Cta* cta = current->cta;
  if (cta->triggered) return;
  cta->triggered = true;
  ++cta->kernel->triggered;
  maybe_trigger(cta->kernel, current->clock);
}

void Engine::maybe_trigger(Kernel* kernel, Time t) {
  Kernel* following = kernel->following;
  if (following == nullptr || !following->launch.programmatic) return;
  if (kernel->triggered == kernel->launch.grid && kernel->previous_complete) schedule(following, t + from_ns(machine_.pdl_launch_ns));
}

}  // namespace simgpu
