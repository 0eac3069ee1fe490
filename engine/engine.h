/* An engine: jobs in, events out; one model on one device, computing for many sequences at once.
 *
 * Contract. A job is admitted by engine_submit on the caller's ("worker") thread: rendered,
 * tokenised, checked against the limits, and moved into a sequence under the caller's ticket. From
 * then on exactly one ENGINE_EVENT_FINISHED comes back for that ticket, whatever happens short of
 * ENGINE_FAILED; progress events may come before it. The engine never blocks on its events: room is
 * reserved per ticket. A job never harms its neighbours: its faults become its own result.
 *
 * Threads: two. The worker thread calls everything here; the engine's own thread (started by
 * engine_start) owns scheduler, sequences, KV pages and device. They share two bounded
 * single-producer single-consumer rings and nothing else. Without engine_start the caller drives
 * the engine by engine_step on its own thread (tests, generate, compare): then one thread in all.
 *
 * Memory: everything long-lived is reserved in engine_open, the plan logged in bytes by purpose
 * first. The engine owns jobs it accepted and events until taken; taken events belong to the caller
 * (engine_event_deinit).
 *
 * Refuses to know: Kafka, Redis, the JSON of jobs and results, partitions and offsets. */
#ifndef SOLFLEET_ENGINE_ENGINE_H
#define SOLFLEET_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"
#include "schemas/job.h"
#include "schemas/result.h"

struct engine;
struct clock;
struct log;
struct forward_tap;

enum engine_status {
    ENGINE_OK = 0,
    ENGINE_BUSY,     /* no room now: retry after events; the job stays the caller's */
    ENGINE_REJECTED, /* the job can never run: tell the client; the job stays the caller's */
    ENGINE_FAILED,   /* the engine cannot go on: close it and exit */
    ENGINE_BAD_OPTION,
    ENGINE_BAD_MODEL,
    ENGINE_NO_DEVICE /* no usable device, or the model does not fit */
};

/* Names, defaults and ranges as in ops/CONFIGURATION.md. Zero means the default named there. */
struct engine_options {
    const char *model_path;
    const char *policy;              /* "int8" by default */
    bool weight_cache_beside;        /* keep packed weights beside the model's file … */
    const char *weight_cache_folder; /* … or, where that cannot be, here; NULL = nowhere */
    const char *device;              /* "cpu" | "cuda:N" | "auto" */
    const char *cublaslt;            /* file of libcublasLt for CUDA; NULL = the loader's search */
    const char *cpu_tier;
    uint32_t threads;
    uint32_t max_batch_size;       /* 32 */
    uint32_t max_running;          /* max_batch_size */
    uint32_t max_queue_size;       /* 1024 */
    uint32_t max_batch_tokens;     /* 4096 */
    uint32_t prefill_chunk_tokens; /* 256 */
    uint32_t max_model_len;        /* min(4096, the model's) */
    int64_t max_queue_delay_ms;    /* 50; -1 = no delay */
    int64_t priority_ageing_ms;    /* 2000: see wait_queue.h; -1 = a level ages at once */
    bool bucket_strict;
    int32_t max_speculative_tokens;   /* 5; -1 = never guess at the next tokens of an answer */
    int32_t repetition_cycles;        /* 8; -1 = never stop an answer for repeating itself */
    uint32_t repetition_cycle_tokens; /* 64 */
    uint32_t repetition_tokens;       /* 256 */
    bool poison_pages;                /* tests: fill KV pages with NaN before they are used */
    const struct forward_tap *tap;    /* tests: sees logits; borrowed; see forward.h */
    bool head_sketch_off;             /* compute every logit, with no INT8 copy of the head */
    bool graphs_off;                  /* launch decode steps op by op, even where graphs are */
    bool prefix_cache_off;            /* compute every prompt whole, though others began alike */
    size_t kv_cache_bytes; /* 0: room for max_running sequences of max_model_len, bounded; on
                                      a card, all that is left of its share */
    double gpu_memory_utilization; /* 0.9: of the card's free memory, what an engine may take */
    int64_t progress_interval_ms;  /* 250: at most one progress event a job in this time */
    struct clock *clock;           /* borrowed; NULL = the real one */
    struct log *log;               /* borrowed; NULL = silent */
};

/* A deadline (job.deadline_ns, a moment of the engine's clock) holds through every stage: what is
 * past it is not begun; what is computed is cut within a step and keeps its text so far; none ends
 * by FINISH_STOP, FINISH_LENGTH or FINISH_REPETITION after it. It ends by FINISH_DEADLINE with code
 * `expired`; or, at once, with code `infeasible` where its first token cannot come in time
 * (cost_model.h). */
enum engine_event_kind { ENGINE_EVENT_STARTED, ENGINE_EVENT_PROGRESS, ENGINE_EVENT_FINISHED };

/* How one job ended, or how far it is. Times are monotonic nanoseconds of the engine's clock;
 * 0 = not reached. completion_tokens and answer_sha256 count every token drawn, an end token that
 * closed the answer included; the text is theirs without it, cut before a stop string, behind the
 * heading that a built-in prompt began it with. */
struct engine_event {
    uint64_t ticket;
    enum engine_event_kind kind;
    enum finish_reason finish_reason; /* FINISHED */
    struct job_error
        error; /* FINISHED with FINISH_ERROR: numeric, engine_failed …; FINISH_DEADLINE:
                               expired, infeasible; FINISH_CANCELLED: cancelled */
    struct result_usage usage;
    char *text; /* owned; FINISHED always (""), PROGRESS where the job asked for text, else NULL */
    const char *prompt_version; /* of the built-in prompt, "none" where none was used; static */
    bool truncated; /* FINISHED by FINISH_LENGTH: max_tokens, or the end of the context */
    char answer_sha256[SHA256_HEX_BYTES]; /* FINISHED */
    int64_t admitted_ns, started_ns, first_token_ns, finished_ns;
};

void engine_event_deinit(struct engine_event *event);

/* Why a batch was cut. */
enum engine_cut {
    ENGINE_CUT_SIZE,
    ENGINE_CUT_TOKENS,
    ENGINE_CUT_DELAY,
    ENGINE_CUT_PRIORITY,
    ENGINE_CUT_DRAIN,
    ENGINE_CUT_JOIN,
    ENGINE_CUT_COUNT
};

const char *engine_cut_name(enum engine_cut cut);

/* How late a cut for delay came is counted in classes: up to and with 0.1, 0.2, 0.5, 1, 2, 5, 10,
 * 20, 50, 100 ms, and beyond. */
#define ENGINE_LATE_CLASSES 11
int64_t engine_late_class_ns(uint32_t index); /* the upper end; INT64_MAX for the last */

#define ENGINE_BATCH_SIZE_MAX 1024

/* Counters since open, a consistent copy as of the last step. A batch is a step that admits at
 * least one job; its size is all sequences in that step. */
struct engine_stats {
    uint64_t requests_total;
    uint64_t batches_total;
    uint64_t batch_sizes_total; /* sum, so the average is batch_sizes_total / batches_total */
    uint64_t batches_single;    /* batches of one sequence */
    uint32_t batch_size_max;    /* largest batch seen */
    uint64_t wait_ns_total;     /* admission to first step */
    uint64_t cuts[ENGINE_CUT_COUNT];
    uint64_t delay_cuts_late[ENGINE_LATE_CLASSES]; /* of the engine with a model */
    uint64_t steps_total;
    uint64_t prefill_chunks_split; /* prompts computed in more than one chunk */
    uint64_t prefill_tokens_total; /* computed: without those cached, with those recomputed */
    uint64_t decode_tokens_total;
    uint64_t drafted_tokens_total; /* guessed, of which kept: drawn in fewer steps */
    uint64_t kept_tokens_total;
    uint64_t busy_ns_total; /* inside engine_step with rows to compute */
    uint32_t queued_count;  /* buffer size: admitted and not running, preempted ones included */
    uint32_t running_count;
    uint32_t pages_used, pages_total;
    uint32_t pages_cached;      /* kept for prompts that begin alike, and held by nobody now */
    uint64_t prefix_hits_total; /* sequences that began with pages computed before */
    uint64_t cached_tokens_total;
    uint64_t preemptions_total;
    uint64_t recomputed_tokens_total; /* computed again after a preemption */
    uint64_t failed_total;            /* FINISH_ERROR */
    uint64_t expired_total;           /* FINISH_DEADLINE, infeasible ones not included */
    uint64_t infeasible_total;
    uint64_t cancelled_total;
};

/* What results say about the model. Borrowed strings live as long as the engine. */
struct engine_info {
    const char *model_name;
    const char *model_sha256;
    const char *policy;
    const char *numerics;
    const char *device_name;
    const char *tier;
    uint32_t threads;
    uint32_t max_model_len;
    uint32_t max_queue_size;
    size_t reserved_bytes;
};

/* Loads the model, reserves memory, warms up one step per row bucket. On ENGINE_OK *out is the
 * caller's; otherwise err says what is wrong and what would help. */
enum engine_status engine_open(const struct engine_options *options, struct engine **out, char *err,
                               size_t err_bytes) __attribute__((warn_unused_result));

/* The same contract without a model (engine/engine_null.c): answers each job with a fixed text of
 * `completion_tokens` tokens, `delay_us` after it was admitted. For pipeline benches and faults.
 * Zero means the default. */
struct engine_null_options {
    uint32_t max_queue_size;    /* 1024 */
    uint32_t completion_tokens; /* 128 */
    uint32_t answer_bytes;      /* 512 */
    int64_t delay_us;           /* 0: within the next step */
    uint32_t error_every;       /* each n-th job ends with FINISH_ERROR, numeric; 0 = none */
    uint32_t break_first;       /* the first n jobs end with FINISH_ERROR, engine_failed */
    uint32_t prompt_bytes_max;  /* longer prompts are rejected, prompt_too_long; 0 = none */
    uint64_t fail_after;        /* ENGINE_FAILED once so many jobs have ended; 0 = never */
    struct clock *clock;        /* borrowed; NULL = the real one */
    struct log *log;            /* borrowed; NULL = silent */
};
enum engine_status engine_null_open(const struct engine_null_options *options, struct engine **out,
                                    char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

/* Starts the engine's thread. Once, before the first submit. */
enum engine_status engine_start(struct engine *engine, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

/* Admits a job. ENGINE_OK moves *job (zeroed); ENGINE_BUSY leaves it: max_queue_size + max_running
 * tickets are out, each until its ENGINE_EVENT_FINISHED is taken; ENGINE_REJECTED leaves it and
 * fills *rejected (prompt_too_long, empty_prompt, too_large, invalid_field …). Tickets are the
 * caller's, unique among those not finished. */
enum engine_status engine_submit(struct engine *engine, uint64_t ticket, struct job *job,
                                 struct job_error *rejected) __attribute__((warn_unused_result));

/* Ends a ticket early with FINISH_CANCELLED or FINISH_DEADLINE and the text so far, within one
 * step and in constant time; what it held of the device is free then. An unknown or finished ticket
 * is ignored. False when the command ring is full: retry. */
bool engine_cancel(struct engine *engine, uint64_t ticket, enum finish_reason reason)
    __attribute__((warn_unused_result));

/* From now on waiting jobs are cut at once (reason `drain`). False when the ring is full: retry. */
bool engine_drain(struct engine *engine) __attribute__((warn_unused_result));

/* Takes up to `max` events in order; each belongs to the caller. Never blocks. */
size_t engine_take_events(struct engine *engine, struct engine_event *events, size_t max);

/* Readable (poll for POLLIN) while events may be waiting or the engine has failed. Owned by the
 * engine; engine_take_events clears it. */
int engine_event_fd(const struct engine *engine);

/* True once the engine cannot go on; err (may be NULL) says why. Tickets not finished then get no
 * event: they are the caller's to give back. */
bool engine_has_failed(const struct engine *engine, char *err, size_t err_bytes);

/* One step on the caller's thread; only without engine_start. *worked is false when there was
 * nothing to do at this time of the clock. */
enum engine_status engine_step(struct engine *engine, bool *worked, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

void engine_stats(const struct engine *engine, struct engine_stats *out);
void engine_info(const struct engine *engine, struct engine_info *out);

/* Stops the thread after its current step, ends every ticket without an event, frees everything.
 * Accepts NULL. */
void engine_close(struct engine *engine);

#endif
