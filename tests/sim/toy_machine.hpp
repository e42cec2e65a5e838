// A machine of few SMs on which everything costs 100: programs here ask for order and results, and for times of their own choice.
#pragma once
#include "../../vendor/simgpu/engine.hpp"

inline simgpu::Machine toy_machine(int sm_count) {
  simgpu::Machine m;
#define SIMGPU_ANY(name) m.name = 100;
  SIMGPU_MACHINE_CONSTANTS(SIMGPU_ANY)
#undef SIMGPU_ANY
  m.sm_count = sm_count;
  m.threads_per_sm = 1024;
  m.shared_bytes_per_sm = m.shared_bytes_per_cta = 1 << 16;
  return m;
}
