// Mbarriers and bulk copies of the CUDA target: cp.async.bulk between shared memory and any rank's global memory. Addresses and
// sizes are multiples of 16 bytes. Bulk copies go through the async proxy; fence_proxy_async() stands between them and this
// thread's plain accesses.
#pragma once
#include <cstdint>

#include "prim_cuda_memory.cuh"

namespace prim {

// In shared memory.
struct alignas(8) Mbarrier {
  std::uint64_t state;
};

// Orders this thread's earlier generic accesses to shared memory before later bulk copies. What a bulk copy wrote needs no such
// fence: its completion, once awaited, makes it visible to plain accesses.
PRIM_FN void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

PRIM_FN void mbarrier_init(Mbarrier* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(detail::shared_address(barrier)), "r"(arrivals) : "memory");
}
// Bulk copies complete on an mbarrier through the async proxy, so its initial value must have reached that proxy.
PRIM_FN void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  fence_proxy_async();
}
// One arrival, and `bytes` more to come.
PRIM_FN void mbarrier_expect(Mbarrier* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(detail::shared_address(barrier)), "r"(bytes)
               : "memory");
}
// Until the phase of `parity` is complete. Not bounded: what it waits for is a copy from the own GPU's memory.
PRIM_FN void mbarrier_wait(Mbarrier* barrier, std::uint32_t parity) {
  int complete;
  do {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.s32 %0, 1, 0, p;\n"
        "}"
        : "=r"(complete)
        : "r"(detail::shared_address(barrier)), "r"(parity)
        : "memory");
  } while (!complete);
}

// Global (own rank) to shared; completes on the mbarrier.
PRIM_FN void bulk_load(void* to, const void* from, int bytes, Mbarrier* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   detail::shared_address(to)),
               "l"(from), "r"(bytes), "r"(detail::shared_address(barrier))
               : "memory");
}
// Shared to global memory of any rank; joins this lane's open bulk group.
PRIM_FN void bulk_store(Remote<char> to, const void* from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to.address()), "r"(detail::shared_address(from)),
               "r"(bytes)
               : "memory");
}
PRIM_FN void bulk_store(char* to, const void* from, int bytes) { bulk_store(Remote<char>(to), from, bytes); }

// Each lane has its own groups; all lanes of a warp call these three together.
PRIM_FN void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

namespace detail {

constexpr int kMaxPendingGroups = 7;

template <int kPending>
PRIM_FN void wait_group() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}
template <int kPending>
PRIM_FN void wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
// PTX wants the number of pending groups as an immediate; a constant `pending` leaves one case.
template <int kPending = kMaxPendingGroups>
PRIM_FN void wait_groups(int pending) {
  if constexpr (kPending > 0)
    if (pending < kPending) return wait_groups<kPending - 1>(pending);
  wait_group<kPending>();
}
template <int kPending = kMaxPendingGroups>
PRIM_FN void wait_groups_read(int pending) {
  if constexpr (kPending > 0)
    if (pending < kPending) return wait_groups_read<kPending - 1>(pending);
  wait_group_read<kPending>();
}

}  // namespace detail

// Until all but the `pending` (at most 7) latest groups of every lane of the warp have been read (`bulk_wait_read`) or have
// landed everywhere (`bulk_wait`). The lanes leave together: one lane's next copy may reuse what another lane's copy read.
PRIM_FN void bulk_wait_read(int pending = 0) {
  detail::wait_groups_read(pending);
  __syncwarp();
}
PRIM_FN void bulk_wait(int pending = 0) {
  detail::wait_groups(pending);
  __syncwarp();
}

}  // namespace prim
