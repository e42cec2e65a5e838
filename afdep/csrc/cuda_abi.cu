// The C ABI over CudaRank. Exceptions end here.
#include "cuda_rank.cuh"

#ifndef AFDEP_NATIVE_DIGEST
#error "AFDEP_NATIVE_DIGEST must be defined by the build"
#endif

struct afdep_cuda_rank {
  afdep::CudaRank rank;
};

namespace {

thread_local std::string last_error;

template <class F>
int32_t attempt(F&& f) {
  try {
    f();
    return 0;
  } catch (const std::exception& failure) {
    last_error = failure.what();
    return 1;
  }
}
cudaStream_t as_stream(void* stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace

extern "C" {

const char* afdep_build_info(void) { return "{\"digest\": \"" AFDEP_NATIVE_DIGEST "\", \"target\": \"cuda\", \"fiber\": \"none\"}"; }
const char* afdep_cuda_error(void) { return last_error.c_str(); }

int64_t afdep_inbox_bytes(const afdep_shape* shape) { return afdep::Shapes(*shape, 1, 1 << 20).inbox_bytes(); }
int64_t afdep_cuda_window_bytes(const afdep_shape* shape) { return afdep::Shapes(*shape, 1, 1 << 20).window_bytes(); }

void* afdep_cuda_ipc_allocate(int64_t bytes, char* handle) {
  void* memory = nullptr;
  const int32_t failed = attempt([&] {
    static_assert(sizeof(cudaIpcMemHandle_t) == AFDEP_IPC_BYTES);
    afdep::check_cuda(cudaMalloc(&memory, static_cast<std::size_t>(bytes)), "window");
    afdep::check_cuda(cudaMemset(memory, 0, static_cast<std::size_t>(bytes)), "window");
    afdep::check_cuda(cudaDeviceSynchronize(), "window");
    cudaIpcMemHandle_t ipc;
    afdep::check_cuda(cudaIpcGetMemHandle(&ipc, memory), "window handle");
    std::memcpy(handle, &ipc, sizeof(ipc));
  });
  if (failed == 0) return memory;
  cudaFree(memory);
  return nullptr;
}
void* afdep_cuda_ipc_open(const char* handle) {
  void* mapped = nullptr;
  attempt([&] {
    cudaIpcMemHandle_t ipc;
    std::memcpy(&ipc, handle, sizeof(ipc));
    afdep::check_cuda(cudaIpcOpenMemHandle(&mapped, ipc, cudaIpcMemLazyEnablePeerAccess), "peer's window");
  });
  return mapped;
}
int32_t afdep_cuda_ipc_close(void* mapped) {
  return attempt([&] { afdep::check_cuda(cudaIpcCloseMemHandle(mapped), "peer's window"); });
}
int32_t afdep_cuda_ipc_free(void* memory) {
  return attempt([&] { afdep::check_cuda(cudaFree(memory), "window"); });
}

afdep_cuda_rank* afdep_cuda_create(const afdep_shape* shape, int32_t rank, void* const* windows, uint64_t timeout_ns) {
  afdep_cuda_rank* made = nullptr;
  attempt([&] { made = new afdep_cuda_rank{{*shape, rank, windows, timeout_ns}}; });
  return made;
}
int32_t afdep_cuda_destroy(afdep_cuda_rank* rank) {
  return attempt([&] { delete rank; });
}
int32_t afdep_cuda_set_timeout(afdep_cuda_rank* rank, uint64_t timeout_ns) {
  return attempt([&] { rank->rank.set_timeout(timeout_ns); });
}

int32_t afdep_cuda_source_dispatch(afdep_cuda_rank* rank, void* stream, const void* x, const void* scales, const void* ids,
                                   int32_t id_bytes, const float* weights, int32_t num_tokens, const int32_t* num_tokens_word,
                                   int32_t bucket) {
  return attempt([&] {
    const auto *rows = static_cast<const char*>(x), *words = static_cast<const char*>(scales);
    rank->rank.dispatch(as_stream(stream), {rows, words, ids, id_bytes, weights, num_tokens, num_tokens_word}, bucket);
  });
}
int32_t afdep_cuda_ffn_receive(afdep_cuda_rank* rank, void* stream, int32_t bucket, afdep_received* received) {
  return attempt([&] {
    rank->rank.dispatch(as_stream(stream), {nullptr, nullptr, nullptr, 4, nullptr, 0, nullptr}, bucket);
    *received = rank->rank.received();
  });
}
int32_t afdep_cuda_ffn_reply(afdep_cuda_rank* rank, void* stream, const void* out) {
  return attempt([&] { rank->rank.combine(as_stream(stream), out, nullptr); });
}
int32_t afdep_cuda_source_collect(afdep_cuda_rank* rank, void* stream, void* y) {
  return attempt([&] { rank->rank.combine(as_stream(stream), nullptr, y); });
}
int32_t afdep_cuda_expert_transform(afdep_cuda_rank* rank, void* stream, void* out) {
  return attempt([&] { rank->rank.transform(as_stream(stream), out); });
}
int32_t afdep_cuda_refuse(afdep_cuda_rank* rank, void* stream) {
  return attempt([&] { rank->rank.refuse(as_stream(stream)); });
}
int32_t afdep_cuda_poison(afdep_cuda_rank* rank, void* stream, int32_t bucket, int32_t byte) {
  return attempt([&] { rank->rank.poison(as_stream(stream), bucket, byte); });
}
int32_t afdep_cuda_abort(afdep_cuda_rank* rank, uint64_t* word, afdep_error_record* error, afdep_wait_record* wait) {
  return attempt([&] { *word = rank->rank.abort_word(*error, *wait); });
}
int32_t afdep_cuda_behind(afdep_cuda_rank* rank, int32_t* ranks, int32_t* count) {
  return attempt([&] {
    const std::vector<std::int32_t> found = rank->rank.behind();
    std::copy(found.begin(), found.end(), ranks);
    *count = static_cast<std::int32_t>(found.size());
  });
}

}  // extern "C"
