/* A forward pass: a batch through a model on its device, once per step.
 *
 * Owns the activation arena (one, shared by all layers, sized by the largest batch), the KV pages,
 * the device copies of a batch's arrays and the workspaces; borrows model and device until
 * forward_close. One thread (the engine's). Refuses to know sequences, tickets and jobs. */
#ifndef SOLFLEET_ENGINE_FORWARD_H
#define SOLFLEET_ENGINE_FORWARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/batch.h"
#include "engine/model.h"

struct forward;

/* For tests: is given the logits, host f32 [sampled_count, vocabulary], of every pass that samples.
 * Without one they are never made. */
struct forward_tap {
    void *context;
    void (*see)(void *context, const struct batch *batch, const float *logits);
};

struct forward_options {
    struct batch_limits limits;
    uint32_t page_count;         /* KV pages, page 0 being the scratch page of padded rows */
    const uint32_t *row_buckets; /* ascending, borrowed until forward_close; NULL where the device
                                    does not want fixed shapes */
    uint32_t row_bucket_count;
    const struct forward_tap *tap; /* borrowed until forward_close; NULL: none */
    bool head_sketch;              /* use the model's INT8 copy of the head, which must be there */
    bool sends_ahead;              /* forward_send_ahead will be called */
    bool has_graphs;               /* forward_capture will be called */
    bool fast;                     /* the model's 16-bit weights are of the fast form */
    bool poison_pages; /* tests: fill the cache with NaN first: reading the unwritten shows */
};

/* Bytes by purpose, computed before anything is reserved. */
struct forward_plan {
    size_t activation_bytes; /* does not grow with depth */
    size_t kv_bytes;
    size_t workspace_bytes;
    size_t batch_bytes;  /* the arrays of a batch */
    size_t ahead_bytes;  /* the inputs of the step after */
    size_t graph_bytes;  /* an allowance, not measured */
    size_t pinned_bytes; /* of the host, for copies of batches */
    size_t total_bytes;  /* of the device: without pinned_bytes, unless its memory is the host's */
};

void forward_make_plan(const struct model_config *config, const struct kv_form *kv,
                       const struct device *device, const struct forward_options *options,
                       struct forward_plan *plan);

enum forward_status {
    FORWARD_OK = 0,
    FORWARD_NO_MEMORY,
    FORWARD_UNSUPPORTED, /* the back end lacks an op that this model needs: named in err */
    FORWARD_FAILED       /* device fault: the engine cannot go on */
};

enum forward_status forward_open(const struct model *model, const struct forward_options *options,
                                 struct forward **out, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));
void forward_close(struct forward *forward); /* accepts NULL */

/* For tests: fills a page of every layer with NaN. */
enum forward_status forward_poison_page(struct forward *forward, uint32_t page, char *err,
                                        size_t err_bytes) __attribute__((warn_unused_result));

/* Starts a pass: every row is computed and the sampled rows are sampled while the host goes on, at
 * first with forward_send_ahead, and then with forward_finish. The batch stays as it is until then.
 * Where the device is the host, all has been done on return. */
enum forward_status forward_start(struct forward *forward, const struct batch *batch, char *err,
                                  size_t err_bytes) __attribute__((warn_unused_result));
/* Once between start and finish: copies what the next pass will probably want while this one
 * computes. Any batch is right; the likelier, the less is left for forward_start to copy. */
enum forward_status forward_send_ahead(struct forward *forward, const struct batch *guess,
                                       char *err, size_t err_bytes)
    __attribute__((warn_unused_result));
/* The one wait of a pass; reads back sampled_token, sampled_bad, row_bad. */
enum forward_status forward_finish(struct forward *forward, struct batch *batch, char *err,
                                   size_t err_bytes) __attribute__((warn_unused_result));
/* Starts and finishes. */
enum forward_status forward_run(struct forward *forward, struct batch *batch, char *err,
                                size_t err_bytes) __attribute__((warn_unused_result));

/* Runs a small batch in the shape of a row bucket: what is made at a shape's first use is made. */
enum forward_status forward_warm_up(struct forward *forward, struct batch *batch, uint32_t rows,
                                    char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

/* Records the passes of decode steps, one for each bucket of rows and of context, which forward_run
 * then launches whole. Nothing where the device wants no fixed shapes. The device must have graphs,
 * and every row bucket must have run once, so that nothing is left to be made in a capture. */
enum forward_status forward_capture(struct forward *forward, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));
uint32_t forward_graph_count(const struct forward *forward);

/* Runs every row and gives the logits of the sampled rows instead of tokens: host f32
 * [sampled_count, vocabulary], written to the caller's array. For compare and tests. */
enum forward_status forward_run_logits(struct forward *forward, struct batch *batch, float *logits,
                                       char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

#endif
