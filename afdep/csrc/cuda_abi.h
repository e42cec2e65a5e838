/* The C ABI of the CUDA target's native library: one rank a process and GPU. Python binds it with ctypes (afdep/cuda/native.py).
   Functions that return int32_t give 0, or 1 with the reason in afdep_cuda_error(). Streams are cudaStream_t. */
#ifndef AFDEP_CUDA_ABI_H
#define AFDEP_CUDA_ABI_H
#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AFDEP_IPC_BYTES = 64 };

/* What the first wait of a rank to time out says of itself. */
typedef struct {
  char name[32];
  int32_t peer, cta;
  uint64_t expected, seen;
} afdep_wait_record;

typedef struct afdep_cuda_rank afdep_cuda_rank;

/* The reason of this thread's last failure. */
const char* afdep_cuda_error(void);
/* Bytes of a rank's window, workspace included. */
int64_t afdep_cuda_window_bytes(const afdep_shape* shape);

/* Memory of the current device that other processes can map. */
void* afdep_cuda_ipc_allocate(int64_t bytes, char* handle);
void* afdep_cuda_ipc_open(const char* handle);
int32_t afdep_cuda_ipc_close(void* mapped);
int32_t afdep_cuda_ipc_free(void* memory);

/* A rank on the current device. windows: of every rank, as this process addresses it; all zero before any rank's first call.
   Null on failure. */
afdep_cuda_rank* afdep_cuda_create(const afdep_shape* shape, int32_t rank, void* const* windows, uint64_t timeout_ns);
/* The device must have finished with the rank. */
int32_t afdep_cuda_destroy(afdep_cuda_rank* rank);
/* Of each wait of the calls that follow. */
int32_t afdep_cuda_set_timeout(afdep_cuda_rank* rank, uint64_t timeout_ns);

/* num_tokens_word: null, or a word of the device that says how many of the num_tokens count; read by dispatch and collect. */
int32_t afdep_cuda_source_dispatch(afdep_cuda_rank* rank, void* stream, const void* x, const void* scales, const void* ids,
                                   int32_t id_bytes, const float* weights, int32_t num_tokens, const int32_t* num_tokens_word,
                                   int32_t bucket);
int32_t afdep_cuda_ffn_receive(afdep_cuda_rank* rank, void* stream, int32_t bucket, afdep_received* received);
int32_t afdep_cuda_ffn_reply(afdep_cuda_rank* rank, void* stream, const void* out);
int32_t afdep_cuda_source_collect(afdep_cuda_rank* rank, void* stream, void* y);
int32_t afdep_cuda_expert_transform(afdep_cuda_rank* rank, void* stream, void* out);
/* Tells the peers that this rank will not take part. */
int32_t afdep_cuda_refuse(afdep_cuda_rank* rank, void* stream);
/* Fills what an exchange of `bucket` writes on the rank. */
int32_t afdep_cuda_poison(afdep_cuda_rank* rank, void* stream, int32_t bucket, int32_t byte);
/* The rank's abort word as it stands now, without waiting for any stream (0: none), its error record and its wait record. */
int32_t afdep_cuda_abort(afdep_cuda_rank* rank, uint64_t* word, afdep_error_record* error, afdep_wait_record* wait);
/* The ranks that have come to fewer all-rank barriers than this one; `ranks` has room for all of the group. */
int32_t afdep_cuda_behind(afdep_cuda_rank* rank, int32_t* ranks, int32_t* count);

#ifdef __cplusplus
}
#endif
#endif
