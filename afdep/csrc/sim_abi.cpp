// The C ABI over the engine and its sets of Buffers. Exceptions end here.
#include <algorithm>
#include <cstdio>

#include "abi.h"
#include "sim_buffers.hpp"

#ifndef AFDEP_NATIVE_DIGEST
#error "AFDEP_NATIVE_DIGEST must be defined by the build"
#endif
#ifdef SIMGPU_THREAD_FIBERS
#define AFDEP_FIBER "thread"
#else
#define AFDEP_FIBER "warp"
#endif

struct afdep_buffers {
  afdep::SimBuffers set;
};
struct afdep_world {
  simgpu::Engine engine;
  std::vector<std::unique_ptr<afdep_buffers>> buffers;
  std::vector<simgpu::BlockedWait> blocked;
};

namespace {

simgpu::Machine make_machine(const char* const* names, const double* values, int count) {
  simgpu::Machine machine;
  for (int i = 0; i < count; ++i) machine.set(names[i], values[i]);
  machine.require_complete();
  return machine;
}

// What `make` returns; null where it throws, with the reason in error[0, error_bytes).
template <class Make>
auto attempt(char* error, int32_t error_bytes, Make&& make) -> decltype(make()) {
  try {
    return make();
  } catch (const std::exception& failure) {
    std::snprintf(error, static_cast<std::size_t>(error_bytes), "%s", failure.what());
    return nullptr;
  }
}

}  // namespace

extern "C" {

const char* afdep_build_info(void) {
  return "{\"digest\": \"" AFDEP_NATIVE_DIGEST "\", \"target\": \"sim\", \"fiber\": \"" AFDEP_FIBER "\"}";
}

int64_t afdep_inbox_bytes(const afdep_shape* shape) { return afdep::Shapes(*shape, 1, 1 << 20).inbox_bytes(); }

afdep_world* afdep_sim_create(int32_t num_ranks, const afdep_sim_options* options, const char* const* constant_names,
                              const double* constant_values, int32_t num_constants, char* error, int32_t error_bytes) {
  return attempt(error, error_bytes, [&] {
    const simgpu::Options run{options->payload != 0, options->hunt != 0, options->seed};
    return new afdep_world{{num_ranks, make_machine(constant_names, constant_values, num_constants), run}, {}, {}};
  });
}
void afdep_sim_destroy(afdep_world* world) { delete world; }
afdep_buffers* afdep_sim_add_buffers(afdep_world* world, const afdep_shape* shape, char* error, int32_t error_bytes) {
  return attempt(error, error_bytes, [&] {
    const int number = static_cast<int>(world->buffers.size());
    auto buffers = std::unique_ptr<afdep_buffers>(new afdep_buffers{{world->engine, *shape, number}});
    return world->buffers.emplace_back(std::move(buffers)).get();
  });
}

void* afdep_sim_alloc(afdep_world* world, int32_t rank, int64_t bytes) {
  try {
    return world->engine.memory().allocate(rank, static_cast<std::size_t>(bytes));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void afdep_sim_free(afdep_world* world, int32_t rank, void* memory) {
  world->engine.memory().release(rank, static_cast<char*>(memory));
}

int32_t afdep_sim_owner(afdep_world* world, const void* memory) { return world->engine.memory().owner(memory); }

void afdep_source_dispatch(afdep_buffers* buffers, int32_t rank, const void* x, const void* scales, const void* ids, int32_t id_bytes,
                           const float* weights, int32_t num_tokens, const int32_t* num_tokens_word, int32_t bucket) {
  const auto *rows = static_cast<const char*>(x), *words = static_cast<const char*>(scales);
  buffers->set.dispatch(rank, {rows, words, ids, id_bytes, weights, num_tokens, num_tokens_word}, bucket);
}
void afdep_ffn_receive(afdep_buffers* buffers, int32_t rank, int32_t bucket, afdep_received* received) {
  buffers->set.dispatch(rank, {nullptr, nullptr, nullptr, 4, nullptr, 0, nullptr}, bucket);
  *received = buffers->set.received(rank);
}
void afdep_ffn_reply(afdep_buffers* buffers, int32_t rank, const void* out) { buffers->set.combine(rank, out, nullptr); }
void afdep_source_collect(afdep_buffers* buffers, int32_t rank, void* y) { buffers->set.combine(rank, nullptr, y); }
void afdep_expert_transform(afdep_buffers* buffers, int32_t rank, void* out) { buffers->set.transform(rank, out); }
void afdep_refuse(afdep_buffers* buffers, int32_t rank) { buffers->set.refuse(rank); }
void afdep_sim_refuse_beside(afdep_buffers* buffers, int32_t rank, double ns) { buffers->set.refuse_beside(rank, ns); }
void afdep_sim_delay(afdep_buffers* buffers, int32_t rank, double ns) { buffers->set.delay(rank, ns); }

void afdep_sim_begin_capture(afdep_world* world) { world->engine.begin_capture(); }
int32_t afdep_sim_end_capture(afdep_world* world) { return world->engine.end_capture(); }
void afdep_sim_replay(afdep_world* world, int32_t graph) { world->engine.replay(graph); }
void afdep_sim_set_payload(afdep_world* world, int32_t payload) { world->engine.set_payload(payload != 0); }

int32_t afdep_sim_run(afdep_world* world) {
  simgpu::Engine& engine = world->engine;
  const bool complete = engine.run();
  if (complete) return 0;
  world->blocked = engine.fault().empty() ? engine.blocked() : std::vector<simgpu::BlockedWait>{};
  engine.abandon();
  return engine.fault().empty() ? 1 : 2;
}
const char* afdep_sim_fault(afdep_world* world) { return world->engine.fault().c_str(); }

int32_t afdep_sim_blocked(afdep_world* world, afdep_blocked_wait* waits, int32_t max_waits) {
  const auto n = std::min(world->blocked.size(), static_cast<std::size_t>(max_waits));
  for (std::size_t i = 0; i < n; ++i) {
    const simgpu::BlockedWait& w = world->blocked[i];
    waits[i] = {w.kernel.c_str(), w.wait.c_str(), w.rank, w.cta, w.warp, w.peer, w.expected, w.seen};
  }
  return static_cast<int32_t>(world->blocked.size());
}
uint64_t afdep_sim_abort(afdep_buffers* buffers, int32_t rank, afdep_error_record* record) { return buffers->set.abort_word(rank, record); }
void afdep_sim_lose_patience(afdep_world* world, int32_t rank, int32_t waits, double after_ns) {
  world->engine.lose_patience(rank, waits, after_ns);
}
void afdep_sim_note(afdep_buffers* buffers, int32_t rank, const void* const* blocks, const int64_t* bytes, int32_t count) {
  std::vector<afdep::SimBuffers::Block> all;
  for (int i = 0; i < count; ++i) all.emplace_back(static_cast<const char*>(blocks[i]), static_cast<std::size_t>(bytes[i]));
  buffers->set.note(rank, all);
}
int32_t afdep_sim_notes(afdep_buffers* buffers, int32_t rank) { return static_cast<int32_t>(buffers->set.notes(rank).size()); }
uint64_t afdep_sim_read_note(afdep_buffers* buffers, int32_t rank, int32_t note, void* bytes) {
  const auto& found = buffers->set.notes(rank)[static_cast<std::size_t>(note)];
  std::copy(found.bytes.begin(), found.bytes.end(), static_cast<char*>(bytes));
  return found.abort_word;
}
void afdep_sim_poison(afdep_buffers* buffers, int32_t rank, int32_t bucket, int32_t byte) { buffers->set.poison(rank, bucket, byte); }

int32_t afdep_sim_trace(afdep_world* world, afdep_kernel_time* times, int32_t max_times) {
  const auto& trace = world->engine.trace();
  const auto n = std::min(trace.size(), static_cast<std::size_t>(max_times));
  for (std::size_t i = 0; i < n; ++i) times[i] = {trace[i].name, trace[i].rank, trace[i].tag, trace[i].group, trace[i].start, trace[i].end};
  return static_cast<int32_t>(trace.size());
}
void afdep_sim_clear_trace(afdep_world* world) { world->engine.trace().clear(); }

}  // extern "C"
