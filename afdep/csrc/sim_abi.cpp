// The C ABI over SimWorld. Exceptions end here.
#include <algorithm>
#include <cstdio>

#include "abi.h"
#include "sim_world.hpp"

#ifndef AFDEP_NATIVE_DIGEST
#error "AFDEP_NATIVE_DIGEST must be defined by the build"
#endif
#ifdef SIMGPU_THREAD_FIBERS
#define AFDEP_FIBER "thread"
#else
#define AFDEP_FIBER "warp"
#endif

struct afdep_world {
  afdep::SimWorld world;
  std::vector<simgpu::BlockedWait> blocked;
};

namespace {

simgpu::Machine make_machine(const char* const* names, const double* values, int count) {
  simgpu::Machine machine;
  for (int i = 0; i < count; ++i) machine.set(names[i], values[i]);
  machine.require_complete();
  return machine;
}

}  // namespace

extern "C" {

const char* afdep_build_info(void) {
  return "{\"digest\": \"" AFDEP_NATIVE_DIGEST "\", \"target\": \"sim\", \"fiber\": \"" AFDEP_FIBER "\"}";
}

int64_t afdep_inbox_bytes(const afdep_shape* shape) { return afdep::Shapes(*shape, 1, 1 << 20).inbox_bytes(); }

afdep_world* afdep_sim_create(const afdep_shape* shape, const afdep_sim_options* options, const char* const* constant_names,
                              const double* constant_values, int32_t num_constants, char* error, int32_t error_bytes) {
  try {
    return new afdep_world{{*shape, *options, make_machine(constant_names, constant_values, num_constants)}, {}};
  } catch (const std::exception& failure) {
    std::snprintf(error, static_cast<std::size_t>(error_bytes), "%s", failure.what());
    return nullptr;
  }
}
void afdep_sim_destroy(afdep_world* world) { delete world; }

void* afdep_sim_alloc(afdep_world* world, int32_t rank, int64_t bytes) {
  try {
    return world->world.engine().memory().allocate(rank, static_cast<std::size_t>(bytes));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void afdep_sim_free(afdep_world* world, int32_t rank, void* memory) {
  world->world.engine().memory().release(rank, static_cast<char*>(memory));
}

int32_t afdep_sim_owner(afdep_world* world, const void* memory) { return world->world.engine().memory().owner(memory); }

void afdep_source_dispatch(afdep_world* world, int32_t rank, const void* x, const void* scales, const void* ids, int32_t id_bytes,
                           const float* weights, int32_t num_tokens, const int32_t* num_tokens_word, int32_t bucket) {
  const auto *rows = static_cast<const char*>(x), *words = static_cast<const char*>(scales);
  world->world.dispatch(rank, {rows, words, ids, id_bytes, weights, num_tokens, num_tokens_word}, bucket);
}
void afdep_ffn_receive(afdep_world* world, int32_t rank, int32_t bucket, afdep_received* received) {
  world->world.dispatch(rank, {nullptr, nullptr, nullptr, 4, nullptr, 0, nullptr}, bucket);
  *received = world->world.received(rank);
}
void afdep_ffn_reply(afdep_world* world, int32_t rank, const void* out) { world->world.combine(rank, out, nullptr); }
void afdep_source_collect(afdep_world* world, int32_t rank, void* y) { world->world.combine(rank, nullptr, y); }
void afdep_expert_transform(afdep_world* world, int32_t rank, void* out) { world->world.transform(rank, out); }
void afdep_refuse(afdep_world* world, int32_t rank) { world->world.refuse(rank); }

void afdep_sim_begin_capture(afdep_world* world) { world->world.engine().begin_capture(); }
int32_t afdep_sim_end_capture(afdep_world* world) { return world->world.engine().end_capture(); }
void afdep_sim_replay(afdep_world* world, int32_t graph) { world->world.engine().replay(graph); }
void afdep_sim_set_payload(afdep_world* world, int32_t payload) { world->world.engine().set_payload(payload != 0); }

int32_t afdep_sim_run(afdep_world* world) {
  simgpu::Engine& engine = world->world.engine();
  const bool complete = engine.run();
  if (complete) return 0;
  world->blocked = engine.fault().empty() ? engine.blocked() : std::vector<simgpu::BlockedWait>{};
  engine.abandon();
  return engine.fault().empty() ? 1 : 2;
}
const char* afdep_sim_fault(afdep_world* world) { return world->world.engine().fault().c_str(); }

int32_t afdep_sim_blocked(afdep_world* world, afdep_blocked_wait* waits, int32_t max_waits) {
  const auto n = std::min(world->blocked.size(), static_cast<std::size_t>(max_waits));
  for (std::size_t i = 0; i < n; ++i) {
    const simgpu::BlockedWait& w = world->blocked[i];
    waits[i] = {w.kernel.c_str(), w.wait.c_str(), w.rank, w.cta, w.warp, w.peer, w.expected, w.seen};
  }
  return static_cast<int32_t>(world->blocked.size());
}
uint64_t afdep_sim_abort(afdep_world* world, int32_t rank, afdep_error_record* record) { return world->world.abort_word(rank, record); }
void afdep_sim_poison(afdep_world* world, int32_t rank, int32_t bucket, int32_t byte) { world->world.poison(rank, bucket, byte); }

int32_t afdep_sim_trace(afdep_world* world, afdep_kernel_time* times, int32_t max_times) {
  const auto& trace = world->world.engine().trace();
  const auto n = std::min(trace.size(), static_cast<std::size_t>(max_times));
  for (std::size_t i = 0; i < n; ++i) times[i] = {trace[i].name, trace[i].rank, trace[i].tag, trace[i].start, trace[i].end};
  return static_cast<int32_t>(trace.size());
}
void afdep_sim_clear_trace(afdep_world* world) { world->world.engine().trace().clear(); }

}  // extern "C"
