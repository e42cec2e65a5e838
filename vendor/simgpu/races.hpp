// What a happens-before checker (ThreadSanitizer) is told about simulated warps. Each warp is a thread of its own to it, and so is
// whoever does a warp's bulk copies; only what orders memory on the device orders them: barriers, releases that are acquired,
// mbarriers, waits for bulk groups, and the ends of kernels. Kernels are compiled with -fsanitize=thread and SIMGPU_RACES, the
// engine with SIMGPU_RACES alone. Without it there is nothing here.
#pragma once
#include <cstddef>
#include <cstring>

#ifdef SIMGPU_RACES
#include <sanitizer/tsan_interface.h>
extern "C" void __tsan_read_range(void* p, unsigned long bytes);
extern "C" void __tsan_write_range(void* p, unsigned long bytes);
// Accesses that are no plain ones of the warp: atomics, polls, what lands, and the simulator's own state.
#define SIMGPU_UNSEEN __attribute__((no_sanitize_thread, noinline))
#else
#define SIMGPU_UNSEEN
#endif

namespace simgpu::races {

#ifdef SIMGPU_RACES

// Nothing is used twice that a new thread would take over from an ended one without an order between them.
constexpr bool kOn = true;

inline void acquire(const void* token) { __tsan_acquire(const_cast<void*>(token)); }
inline void release(const void* token) { __tsan_release(const_cast<void*>(token)); }
inline void read(const void* p, std::size_t bytes) { __tsan_read_range(const_cast<void*>(p), bytes); }
inline void wrote(void* p, std::size_t bytes) { __tsan_write_range(p, bytes); }
inline void* current() { return __tsan_get_current_fiber(); }
inline void become(void* thread) { __tsan_switch_to_fiber(thread, __tsan_switch_to_fiber_no_sync); }
inline void end(void* thread) {
  if (thread != nullptr) __tsan_destroy_fiber(thread);
}
// A thread that nothing precedes but what preceded `creator`.
inline void* begin(void* creator) {
  void* self = current();
  become(creator);
  void* thread = __tsan_create_fiber(0);
  become(self);
  return thread;
}
// A copy that nobody makes: who reads and who writes was told.
inline void copy(void* to, const void* from, std::size_t bytes) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

#else

constexpr bool kOn = false;

inline void acquire(const void*) {}
inline void release(const void*) {}
inline void read(const void*, std::size_t) {}
inline void wrote(void*, std::size_t) {}
inline void* current() { return nullptr; }
inline void become(void*) {}
inline void end(void*) {}
inline void* begin(void*) { return nullptr; }
inline void copy(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

#endif

// While it lives, accesses are those of `thread`.
class Behalf {
 public:
  explicit Behalf(void* thread) : self_(current()) { become(thread); }
  ~Behalf() { become(self_); }
  Behalf(const Behalf&) = delete;
  Behalf& operator=(const Behalf&) = delete;

 private:
  void* self_;
};

}  // namespace simgpu::races
