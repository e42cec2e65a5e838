// The cost model's constants: one named double each, set from outside by name. The names carry their units; the values and
// their sources stand in the machine files. There are no defaults: a constant that was not given is an error.
#pragma once
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>
#include <string_view>

// Launch: host_launch = enqueue on an idle stream to first CTA; graph_gap = kernel complete to the next kernel's CTAs;
//   cooperative_launch = added for a cooperative launch; pdl_launch = all CTAs triggered to the dependent's CTAs placed;
//   pdl_release = predecessor complete to griddepcontrol.wait returns; cta_start = placed to first instruction;
//   code = what a kernel's instructions take, fetched where kernels take turns, and issued: all of it at its first one, or at its
//   release where it was launched early;
//   kernel_drain = last CTA gone to grid complete.
// Link: one-way latency and payload bandwidth of one direction of one rank's port; message = port time a message costs on top.
// Memory: latencies of a load that hits L2 or not; latency_spread = mean of what a warp's task adds to both, as a share: a
//   draw from [0, 3 spread] a task, density falling outwards, so that the slowest of many tasks is slower than that of few; bandwidths of the whole device; l2_bytes = what a repeated sweep keeps.
// SM: bandwidth of one SM's load/store path where the CTA takes the SM's shared memory, and of its loads where it leaves L1 room for
//   those in flight; bandwidth of its bulk-copy engine; issue and added latency of a bulk copy.
// Synchronisation: what the name says; acquire = a system-scope acquire load, which every poll of a wait is at least once; poll = a word changes to its poller goes on; warp = added per participating warp.
#define SIMGPU_MACHINE_CONSTANTS(X)                                                                                       \
  X(host_launch_ns) X(graph_gap_ns) X(cooperative_launch_ns) X(pdl_launch_ns) X(pdl_release_ns) X(cta_start_ns)          \
  X(code_ns) X(kernel_drain_ns)                                                                                          \
  X(nvlink_latency_ns) X(nvlink_gb_per_s) X(nvlink_message_ns)                                                           \
  X(l2_latency_ns) X(latency_spread) X(l2_gb_per_s) X(l2_bytes) X(hbm_latency_ns) X(hbm_gb_per_s)                                          \
  X(sm_load_gb_per_s) X(sm_load_l1_gb_per_s) X(bulk_gb_per_s) X(bulk_issue_ns) X(bulk_latency_ns) X(accumulate_ns)                              \
  X(atomic_ns) X(acquire_ns) X(poll_ns) X(fence_ns) X(cta_barrier_ns) X(warp_barrier_ns) X(grid_sync_ns) X(syncwarp_ns) X(shuffle_ns) \
  X(shared_ns) X(store_ns)                                                                                               \
  X(sm_count) X(threads_per_sm) X(shared_bytes_per_sm) X(shared_bytes_per_cta)

namespace simgpu {

struct Machine {
#define SIMGPU_FIELD(name) double name = std::nan("");
  SIMGPU_MACHINE_CONSTANTS(SIMGPU_FIELD)
#undef SIMGPU_FIELD

  // Throws std::invalid_argument for a name that is no constant.
  void set(std::string_view name, double value) {
#define SIMGPU_SET(field) \
  if (name == #field) {   \
    field = value;        \
    return;               \
  }
    SIMGPU_MACHINE_CONSTANTS(SIMGPU_SET)
#undef SIMGPU_SET
    throw std::invalid_argument("unknown machine constant '" + std::string(name) + "'");
  }

  // Throws std::invalid_argument naming the first constant that was never set.
  void require_complete() const {
#define SIMGPU_CHECK(field) \
  if (std::isnan(field)) throw std::invalid_argument("machine constant '" #field "' is missing");
    SIMGPU_MACHINE_CONSTANTS(SIMGPU_CHECK)
#undef SIMGPU_CHECK
  }
};

}  // namespace simgpu
