// Blocked waits: words that fibers watch, what wakes them, and what is left when nothing happens any more.
#include <cstring>

#include "engine.hpp"

namespace simgpu {

namespace {

constexpr double kLookAroundNs = 20'000;  // hunt: a wait looks at the abort word now and then, and its own word may come first

}  // namespace

void Engine::watch(Watch* watches, int count) {
  if (watches[0].wait.name != nullptr) try_patience(rank());
  current->watches = watches;
  current->num_watches = count;
  for (int i = 0; i < count; ++i) {
    Watch*& head = watches_[bucket(watches[i].word)];
    watches[i].fiber = current;
    watches[i].next = head;
    head = &watches[i];
  }
  block();
}

// A named wait of the rank blocks: the one that its patience ends with may be this one.
void Engine::try_patience(int rank) {
  Patience& patience = patience_[static_cast<std::size_t>(rank)];
  if (patience.waits < 0 || patience.waits-- > 0) return;
  Action* action = act(current->clock + patience.after, [](Engine& e, Action& a) {
    e.patience_[a.value].lost = true;
    e.wake_aborted(static_cast<int>(a.value), a.when);
  });
  action->value = static_cast<std::uint64_t>(rank);
}

// Takes the fiber's watches out of their lists.
void Engine::end_watches(Fiber& fiber) {
  for (int i = 0; i < fiber.num_watches; ++i) {
    Watch** link = &watches_[bucket(fiber.watches[i].word)];
    while (*link != nullptr && *link != &fiber.watches[i]) link = &(*link)->next;
    if (*link != nullptr) *link = fiber.watches[i].next;
  }
}

// Named waits of the rank give up.
void Engine::wake_aborted(int rank, Time landed) {
  for (auto& head : watches_)
    for (Watch** link = &head; *link != nullptr;) {
      Watch* watch = *link;
      Fiber* fiber = watch->fiber;
      if (fiber->cta->kernel->stream->rank != rank || watch->wait.name == nullptr) {
        link = &watch->next;
        continue;
      }
      *link = watch->next;
      if (fiber->num_watches > 1) end_watches(*fiber), link = &head;
      fiber->next = nullptr;
      fiber->clock = std::max(fiber->clock, landed + from_ns(machine_.poll_ns) + adversary_.delay(kLookAroundNs));
      wake(fiber, fiber->clock);
    }
}

bool Engine::satisfied(Watch& watch) const {
  const races::Behalf waiter(watch.fiber->thread);
  return watch.satisfied(watch.context);
}

void Engine::notify(const void* word, Time landed) {
  for (const auto& [rank, abort_word] : abort_words_)
    if (abort_word == word) wake_aborted(rank, landed);
  Watch*& head = watches_[bucket(word)];
  for (Watch** link = &head; *link != nullptr;) {
    Watch* watch = *link;
    if (watch->word != word || !satisfied(*watch)) {
      link = &watch->next;
      continue;
    }
    *link = watch->next;
    Fiber* fiber = watch->fiber;
    if (fiber->num_watches > 1) end_watches(*fiber), link = &head;
    fiber->next = nullptr;
    const Time detect = from_ns(watch->wait.name != nullptr ? machine_.poll_ns : machine_.shared_ns) + adversary_.delay(500);
    fiber->clock = std::max(fiber->clock, landed + detect);
    wake(fiber, fiber->clock);
  }
}

void Engine::notify_range(const void* begin, std::size_t bytes, Time landed) {
  const char* word = static_cast<const char*>(begin);
  for (const char* end = word + bytes; word < end; word += 4)
    if (watches_[bucket(word)] != nullptr) notify(word, landed);
}

// A kernel that was placed and waits for nothing by name: for SM slots of its own, or for its CTAs to end.
BlockedWait Engine::unfinished(const Kernel& kernel) {
  const bool placing = kernel.started < kernel.launch.grid;
  return {kernel.stream->rank, -1, -1, -1, kernel.launch.name, placing ? "SM slots" : "CTAs to end",
          static_cast<std::uint64_t>(kernel.launch.grid), static_cast<std::uint64_t>(placing ? kernel.started : kernel.finished)};
}

std::vector<BlockedWait> Engine::blocked() const {
  std::vector<BlockedWait> waits;
  for (const Watch* head : watches_)
    for (const Watch* w = head; w != nullptr; w = w->next) {
      std::uint64_t seen = 0;
      std::memcpy(&seen, w->word, static_cast<std::size_t>(w->bytes));
      const Fiber& fiber = *w->fiber;
      const Kernel* kernel = fiber.cta->kernel;
      waits.push_back({kernel->stream->rank, fiber.cta->index, fiber.warp, w->wait.peer, kernel->launch.name,
                       w->wait.name != nullptr ? w->wait.name : "mbarrier", w->wait.expected, seen});
    }
  for (const auto& stream : streams_)
    for (const Kernel* kernel = stream->head; kernel != nullptr && kernel->placed; kernel = kernel->following)
      if (waits.empty() || kernel->started == 0) waits.push_back(unfinished(*kernel));
  return waits;
}

}  // namespace simgpu
