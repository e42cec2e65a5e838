// One rank on a GPU: its own memory, and the four kernels of each exchange on a stream of the caller's.
#pragma once
#include <cuda_runtime.h>

#include <cstring>
#include <memory>
#include <vector>

#include "cuda_abi.h"
#include "kernels.hpp"
#include "ranks.hpp"

namespace afdep {

inline void check_cuda(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

struct DeviceLimits {
  int sm_count = 0, shared_bytes = 0;

  static DeviceLimits of_current() {
    DeviceLimits limits;
    int device = 0;
    check_cuda(cudaGetDevice(&device), "current device");
    check_cuda(cudaDeviceGetAttribute(&limits.sm_count, cudaDevAttrMultiProcessorCount, device), "SM count");
    check_cuda(cudaDeviceGetAttribute(&limits.shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "shared memory");
    return limits;
  }
};

class CudaRank {
 public:
  // Throws std::invalid_argument when the shape does not fit the device, std::runtime_error when CUDA refuses.
  CudaRank(const afdep_shape& shape, int rank, void* const* windows, std::uint64_t timeout_ns)
      : limits_(DeviceLimits::of_current()), shapes_(shape, limits_.sm_count, limits_.shared_bytes), shape_(shape) {
    check_fit(shape, shapes_, limits_.sm_count);
    fill_exchange(exchange_, shape, shapes_, rank, [this](std::int64_t bytes) { return take(bytes); });
    for (int peer = 0; peer < shapes_.num_ranks(); ++peer) exchange_.windows[peer] = static_cast<char*>(windows[peer]);
    set_guard(exchange_, windows_on_device(), timeout_ns);
    dispatch_ = prepared(dispatch_kernel(shapes_.directed()));
    copy_ = prepared(&elastic::copy_epilogue);
    combine_ = prepared(combine_kernel(shapes_, exchange_));
    collect_ = prepared(collect_kernel(shapes_, exchange_));
    load(reinterpret_cast<const void*>(&expert_transform));
    load(reinterpret_cast<const void*>(&refuse_exchange));
    check_cuda(cudaDeviceSynchronize(), "own memory");
  }

  void set_timeout(std::uint64_t timeout_ns) { exchange_.guard.timeout_ns = timeout_ns; }
  void dispatch(cudaStream_t stream, const SourceInput& input, int bucket) {
    set_dispatch(exchange_, input, bucket);
    launch_main(stream, dispatch_, shapes_.dispatch_launch(), exchange_);
    launch_epilogue(stream, copy_, shapes_.copy_launch());
  }
  void combine(cudaStream_t stream, const void* replies, void* y) {
    set_combine(exchange_, replies, y);
    launch_main(stream, combine_, shapes_.combine_launch(), exchange_);
    launch_epilogue(stream, collect_, shapes_.collect_launch(exchange_.num_tokens));
  }
  void transform(cudaStream_t stream, void* out) {
    ExpertTransform args{exchange_, static_cast<char*>(out), shape_.dtype};
    launch(stream, reinterpret_cast<const void*>(&expert_transform), {limits_.sm_count, 1024, 0}, &args, {});
  }
  void refuse(cudaStream_t stream) { launch(stream, reinterpret_cast<const void*>(&refuse_exchange), {1, 32, 0}, &exchange_, {}); }
  void poison(cudaStream_t stream, int bucket, int byte) {
    poison_exchange(exchange_, shapes_, shape_.capacity, bucket, [&](char* memory, std::int64_t bytes) {
      check_cuda(cudaMemsetAsync(memory, byte, static_cast<std::size_t>(bytes), stream), "poison");
    });
  }

  afdep_received received() const { return received_memory(exchange_, shapes_); }

  // As the words stand now: the copies run on a stream of their own.
  std::uint64_t abort_word(afdep_error_record& error, afdep_wait_record& wait) {
    using elastic::WorkspaceLayout;
    elastic::ErrorRecord found{};
    std::uint64_t word = 0;
    read(&word, WorkspaceLayout::kAbort, sizeof(word));
    read(&found, WorkspaceLayout::kError, sizeof(found));
    read(&wait, WorkspaceLayout{exchange_.num_ranks, exchange_.num_experts}.wait_record(), sizeof(wait));
    static_assert(sizeof(wait) == sizeof(prim::WaitRecord));
    error = {found.failure, found.rank, found.token, found.lane, found.expert};
    return word;
  }
  // Ranks that have come to fewer all-rank barriers than this one: after a time-out there, the missing ones.
  std::vector<std::int32_t> behind() {
    const auto round = [this](int rank) {
      std::uint64_t value = 0;
      copy_from(exchange_.windows[rank] + elastic::WorkspaceLayout::kBarrierRound, &value, sizeof(value));
      return value;
    };
    const std::uint64_t own = round(exchange_.rank);
    std::vector<std::int32_t> ranks;
    for (int rank = 0; rank < exchange_.num_ranks; ++rank)
      if (round(rank) < own) ranks.push_back(rank);
    return ranks;
  }

 private:
  struct Freed {
    void operator()(char* memory) const { cudaFree(memory); }
  };
  struct StreamGone {
    void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  };
  using Stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, StreamGone>;

  static Stream make_stream() {
    cudaStream_t stream = nullptr;
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    return Stream(stream);
  }
  // The windows' addresses in memory: what gives up goes through all of them.
  char** windows_on_device() {
    const std::size_t bytes = sizeof(char*) * static_cast<std::size_t>(exchange_.num_ranks);
    char* memory = take(static_cast<std::int64_t>(bytes));
    check_cuda(cudaMemcpy(memory, exchange_.windows, bytes, cudaMemcpyHostToDevice), "own memory");
    return reinterpret_cast<char**>(memory);
  }
  char* take(std::int64_t bytes) {
    if (bytes == 0) return nullptr;
    void* memory = nullptr;
    check_cuda(cudaMalloc(&memory, static_cast<std::size_t>(bytes)), "own memory");
    own_.emplace_back(static_cast<char*>(memory));
    check_cuda(cudaMemset(memory, 0, static_cast<std::size_t>(bytes)), "own memory");
    return own_.back().get();
  }
  // A kernel may take the shared memory of a whole SM; what it does not take is L1.
  const void* prepared(Kernel kernel) const {
    const auto* function = reinterpret_cast<const void*>(kernel);
    check_cuda(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, limits_.shared_bytes), "shared memory");
    check_cuda(cudaFuncSetAttribute(function, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxL1), "shared memory");
    return function;
  }
  // A kernel that is loaded only as it is launched may have to wait for an idle context, while peers wait for what is enqueued behind it.
  static void load(const void* kernel) {
    cudaFuncAttributes attributes;
    check_cuda(cudaFuncGetAttributes(&attributes, kernel), "kernel");
  }
  void read(void* to, std::int64_t offset, std::size_t bytes) { copy_from(exchange_.windows[exchange_.rank] + offset, to, bytes); }
  void copy_from(const char* device, void* to, std::size_t bytes) {
    check_cuda(cudaMemcpyAsync(to, device, bytes, cudaMemcpyDefault, reader_.get()), "workspace");
    check_cuda(cudaStreamSynchronize(reader_.get()), "workspace");
  }

  static cudaLaunchAttribute cooperative() {
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    return attribute;
  }
  static cudaLaunchAttribute clusters_of(unsigned ctas) {
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = ctas;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    return attribute;
  }
  static cudaLaunchAttribute programmatic() {
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    return attribute;
  }
  void launch_main(cudaStream_t stream, const void* kernel, const LaunchShape& shape, elastic::Exchange& exchange) {
    std::vector<cudaLaunchAttribute> attributes{cooperative()};
    if (shape.grid % 2 == 0) attributes.push_back(clusters_of(2));
    launch(stream, kernel, shape, &exchange, attributes);
  }
  void launch_epilogue(cudaStream_t stream, const void* kernel, const LaunchShape& shape) {
    launch(stream, kernel, shape, &exchange_, {programmatic()});
  }
  void launch(cudaStream_t stream, const void* kernel, const LaunchShape& shape, void* args, std::vector<cudaLaunchAttribute> attributes) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(shape.grid));
    config.blockDim = dim3(static_cast<unsigned>(shape.threads));
    config.dynamicSmemBytes = static_cast<std::size_t>(shape.shared_bytes);
    config.stream = stream;
    config.attrs = attributes.data();
    config.numAttrs = static_cast<unsigned>(attributes.size());
    void* arguments[] = {args};
    check_cuda(cudaLaunchKernelExC(&config, kernel, arguments), "launch");
  }

  DeviceLimits limits_;
  Shapes shapes_;
  afdep_shape shape_;
  elastic::Exchange exchange_{};  // as of the last call
  std::vector<std::unique_ptr<char, Freed>> own_;
  Stream reader_ = make_stream();
  const void *dispatch_ = nullptr, *copy_ = nullptr, *combine_ = nullptr, *collect_ = nullptr;
};

}  // namespace afdep
