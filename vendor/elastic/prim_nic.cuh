// What kernels ask of a NIC, for ranks that no NVLink joins. prim.cuh does not include it. The CUDA target is not built: here are its
// declarations alone, and a kernel that calls one of them does not compile for a GPU. The simulator has them all.
//
// Each call is one lane's. Posting waits while the queue is full, and returns false when the rank was aborted meanwhile.
//   order     entries of one queue, that is, of a queue pair towards a peer, land in the order they were posted; nothing else is ordered
//   doorbell  nothing posted moves before nic_ring()
//   sources   are read some time after the doorbell; plain stores to them need fence_sys() before it
//   flush     the sources of all that was posted have been read and may be reused; nothing need have landed
//   signals   the addition of nic_put_signal() comes after its bytes have landed
//   atomics   additions of NICs to a word are atomic among themselves, not against the atomics of an SM
//   peers     may be the own rank: the entry goes through the NIC all the same
#pragma once
#include "prim.cuh"

#ifdef __CUDACC__
namespace prim {

struct NicQueue {
  int peer, queue_pair;
};

__device__ bool nic_put(const Guard& guard, const NicQueue& queue, Remote<char> to, const void* from, int bytes);
__device__ bool nic_put_signal(const Guard& guard, const NicQueue& queue, Remote<char> to, const void* from, int bytes,
                               Remote<std::uint64_t> signal, std::uint64_t addend);
template <class T>
__device__ bool nic_put_value(const Guard& guard, const NicQueue& queue, Remote<T> to, T v);
__device__ bool nic_add(const Guard& guard, const NicQueue& queue, Remote<std::uint64_t> word, std::uint64_t addend);
__device__ void nic_ring(const NicQueue& queue);
__device__ bool nic_flush(const Guard& guard, const NicQueue& queue);

}  // namespace prim
#else
#include "../simgpu/prim_nic.hpp"
#endif
