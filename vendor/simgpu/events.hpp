// The event heap: what happens next in virtual time. Ties go by order of insertion, or at random when hunting.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "clock.hpp"

namespace simgpu {

class Engine;

// Something that happens at a point in time without a fiber: a store landing, a copy completing, a kernel starting.
struct Action {
  void (*run)(Engine&, Action&) = nullptr;
  void* target = nullptr;
  void* source = nullptr;
  void* view = nullptr;
  std::uint64_t value = 0;
  std::uint32_t bytes = 0;
  Time when = 0;
};

struct Event {
  Time time;
  std::uint64_t key;
  std::uintptr_t subject;  // a Fiber chain, or an Action when the low bit is set
};

class EventHeap {
 public:
  bool empty() const { return heap_.empty(); }
  Time next_time() const { return heap_.front().time; }
  void push(const Event& event) {
    heap_.push_back(event);
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  Event pop() {
    const Event event = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), later);
    heap_.pop_back();
    return event;
  }

 private:
  static bool later(const Event& a, const Event& b) { return a.time != b.time ? a.time > b.time : a.key > b.key; }
  std::vector<Event> heap_;
};

class ActionPool {
 public:
  Action* take() {
    if (free_.empty()) {
      storage_.emplace_back();
      return &storage_.back();
    }
    Action* action = free_.back();
    free_.pop_back();
    *action = Action{};
    return action;
  }
  void give(Action* action) { free_.push_back(action); }

 private:
  std::deque<Action> storage_;
  std::vector<Action*> free_;
};

}  // namespace simgpu
