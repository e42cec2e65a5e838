// The primitive set that kernels are written against. One kernel source, two targets: nvcc maps it to PTX (sm_90a), any other
// compiler to the simulator.
//
// Kernels are written warp-uniformly: code outside a lane section (lanes, each_lane, elect, for_strided, for_vectors) is the
// same for all lanes of a warp, and per-lane values live in Lanes<T>, read inside a section through at(lane).
//   identity      cta num_ctas warp num_warps num_threads shared<T>(byte_offset)
//   lanes         Lanes<T> lanes(f) each_lane(f) elect(f) for_strided(first, stride, n, f) for_vectors(n, f) sync_warp
//   collectives   broadcast ballot any reduce_add reduce_max scan_inclusive match
//   barriers      sync_warps(id, warps) sync_cta sync_grid wait_for_predecessor launch_dependents
//   own memory    load store load_acquire_sys shared_add shared_fetch_add
//   atomics       add_gpu, and returning: fetch_add_gpu fetch_add_acq_rel_gpu fetch_or_gpu fetch_max_gpu swap_gpu compare_swap_gpu
//   peers         Remote<T> (cannot be dereferenced) store_relaxed_sys store_release_sys set_once_release_sys add_release_sys fence_sys
//   waits         Wait{name, peer, expected} make_guard wait_until wait_value wait_all wait_any aborted pass_on_abort: named, bounded, ended by an abort
//   rows          push_row wait_row poison_row kPoison: 16-byte vectors whose 32-bit words carry their own arrival
//   bulk copies   Mbarrier mbarrier_init/expect/wait bulk_load bulk_store bulk_commit bulk_wait bulk_wait_read fence_proxy_async
//   costs         begin_task Gather charge_load/store/accumulate/packed_add: what a plain data loop costs; nothing on the device
//   NICs          in prim_nic.cuh, for the simulator alone so far
//   checks        expect(holds, what): stops a simulated kernel that left its memory; nothing on the device
#pragma once
#ifdef __CUDACC__
#include "prim_cuda_any.cuh"
#include "prim_cuda_atomics.cuh"
#include "prim_cuda_rows.cuh"
#else
#include "../simgpu/prim_rows.hpp"
#endif
