/* The C ABI of the native library. Python binds it with ctypes (afdep/native.py). */
#ifndef AFDEP_ABI_H
#define AFDEP_ABI_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { AFDEP_PROTOCOL_SYMMETRIC = 0, AFDEP_PROTOCOL_DIRECTED = 1 };
enum { AFDEP_DTYPE_BF16 = 0, AFDEP_DTYPE_FP8_FP32 = 1, AFDEP_DTYPE_FP8_UE8M0 = 2 };

typedef struct {
  int32_t attention_ranks, ffn_ranks;
  int32_t hidden, num_experts, top_k, capacity;
  int32_t dtype, transport_sms, protocol;
  uint32_t switches;
  int32_t expert_alignment;
} afdep_shape;

typedef struct {
  int32_t payload;  /* 0: rows are not copied, only control bytes; same times */
  int32_t hunt;     /* 1: adversarial schedule drawn from seed */
  uint64_t seed;
} afdep_sim_options;

/* What an FFN rank received, in its own memory. */
typedef struct {
  void *rows, *row_scales, *row_weights;  /* [max_rows, ...] expert-major */
  void *expert_offsets;                   /* int32 [experts_per_rank + 1] */
  void *expert_counts;                    /* int32 [experts_per_rank] */
  void *source_metadata;                  /* int32 [received, top_k + 2] */
  void *rank_prefix;                      /* int32 [num_ranks] */
  int64_t max_rows;
} afdep_received;

typedef struct {
  const char* name;
  int32_t rank, exchange, buffers;
  int64_t start_ps, end_ps;
} afdep_kernel_time;

typedef struct {
  const char *kernel, *wait;
  int32_t rank, cta, warp, peer;
  uint64_t expected, seen;
} afdep_blocked_wait;

typedef struct {
  int32_t failure, rank, token, lane;
  int64_t expert;
} afdep_error_record;

/* Simulated ranks: their memory, SMs, links and clock. */
typedef struct afdep_world afdep_world;
/* One Buffer on every rank of a world, each with a window and a stream of its own; they live as long as the world. */
typedef struct afdep_buffers afdep_buffers;

/* {"digest": ..., "target": "sim", "fiber": "warp"} */
const char* afdep_build_info(void);
/* Registered bytes of a window without its workspace. */
int64_t afdep_inbox_bytes(const afdep_shape* shape);

/* Null on failure, with the reason in error[0, error_bytes). */
afdep_world* afdep_sim_create(int32_t num_ranks, const afdep_sim_options* options, const char* const* constant_names,
                              const double* constant_values, int32_t num_constants, char* error, int32_t error_bytes);
void afdep_sim_destroy(afdep_world* world);
afdep_buffers* afdep_sim_add_buffers(afdep_world* world, const afdep_shape* shape, char* error, int32_t error_bytes);
/* Device memory of a rank, zeroed and directly addressable; null when there is none left. */
void* afdep_sim_alloc(afdep_world* world, int32_t rank, int64_t bytes);
void afdep_sim_free(afdep_world* world, int32_t rank, void* memory);
/* The rank whose device memory it is, or -1. */
int32_t afdep_sim_owner(afdep_world* world, const void* memory);

/* Each enqueues its kernels on the rank's stream. ids: [num_tokens, top_k] of id_bytes each. num_tokens_word: null, or a word of
   the rank's memory that says how many of the num_tokens count; read by dispatch and collect as they run. */
void afdep_source_dispatch(afdep_buffers* buffers, int32_t rank, const void* x, const void* scales, const void* ids, int32_t id_bytes,
                           const float* weights, int32_t num_tokens, const int32_t* num_tokens_word, int32_t bucket);
void afdep_ffn_receive(afdep_buffers* buffers, int32_t rank, int32_t bucket, afdep_received* received);
void afdep_ffn_reply(afdep_buffers* buffers, int32_t rank, const void* out);
void afdep_source_collect(afdep_buffers* buffers, int32_t rank, void* y);
/* out[row] = rows[row] (times its scales) * the factor of its expert, see expert_transform.cuh. */
void afdep_expert_transform(afdep_buffers* buffers, int32_t rank, void* out);
/* Ranks that will not take part say so: peers' waits end and their hosts learn it. */
void afdep_refuse(afdep_buffers* buffers, int32_t rank);
/* The same, so much later than now and beside what the rank's stream holds. */
void afdep_sim_refuse_beside(afdep_buffers* buffers, int32_t rank, double ns);
/* What the rank's stream holds next begins so much later. */
void afdep_sim_delay(afdep_buffers* buffers, int32_t rank, double ns);

/* Between the two, kernels are recorded instead of enqueued; the second returns the graph's number for replays. */
void afdep_sim_begin_capture(afdep_world* world);
int32_t afdep_sim_end_capture(afdep_world* world);
void afdep_sim_replay(afdep_world* world, int32_t graph);
/* Whether rows are copied from now on; control bytes always are, and the times do not change. */
void afdep_sim_set_payload(afdep_world* world, int32_t payload);
/* 0: everything enqueued is done; 1: a wait that nothing can end; 2: a memory fault (text in afdep_sim_fault). */
int32_t afdep_sim_run(afdep_world* world);
const char* afdep_sim_fault(afdep_world* world);
int32_t afdep_sim_blocked(afdep_world* world, afdep_blocked_wait* waits, int32_t max_waits);
/* The rank's abort word (0: none), and, when it holds one, its own error record. */
uint64_t afdep_sim_abort(afdep_buffers* buffers, int32_t rank, afdep_error_record* record);
/* The named wait of the rank that is the `waits`-th to block from now on, counted from 0, times out `after_ns` later. */
void afdep_sim_lose_patience(afdep_world* world, int32_t rank, int32_t waits, double after_ns);
/* Behind what the rank's stream holds, one more note: its abort word, and `count` blocks of its memory one behind the other. */
void afdep_sim_note(afdep_buffers* buffers, int32_t rank, const void* const* blocks, const int64_t* bytes, int32_t count);
int32_t afdep_sim_notes(afdep_buffers* buffers, int32_t rank);
/* The abort word of a note; its bytes to `bytes`, which has room for all of its blocks. */
uint64_t afdep_sim_read_note(afdep_buffers* buffers, int32_t rank, int32_t note, void* bytes);
/* Fills what an exchange of `bucket` writes on the rank: inbox and expanded rows. */
void afdep_sim_poison(afdep_buffers* buffers, int32_t rank, int32_t bucket, int32_t byte);
int32_t afdep_sim_trace(afdep_world* world, afdep_kernel_time* times, int32_t max_times);
void afdep_sim_clear_trace(afdep_world* world);

#ifdef __cplusplus
}
#endif
#endif
