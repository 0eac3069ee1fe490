#include "engine/forward.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/forward_internal.h"
#include "engine/forward_layers.h"
#include "engine/forward_needs.h"
#include "engine/forward_pass.h"

/* What failed, with the device's own words where it is the device. */
static enum forward_status forward_fault(const struct forward *forward, char *err,
                                         size_t err_bytes) {
    static const char *const meanings[] = {
        "ok", "an argument is wrong", "unsupported", "no memory", "no device", "the device failed"};
    char words[256] = "";
    bool is_lost = forward->fault == KERNELS_FAILED &&
                   device_sync(forward->device, words, sizeof words) != KERNELS_OK;
    snprintf(err, err_bytes, "%s: %s%s%s", forward->fault_op, meanings[forward->fault],
             is_lost ? ": " : "", is_lost ? words : "");
    return FORWARD_FAILED;
}

/* ---------------------------------------------------------------- a batch in, tokens out */

static bool forward_copy_in(struct forward *forward, void *to, const void *from, size_t bytes) {
    return bytes == 0 ||
           forward_note(forward, "copy in",
                        device_copy_in(forward->device, DEVICE_STREAM_COMPUTE, to, from, bytes));
}

static bool forward_copy_inputs(struct forward *forward, const struct batch *batch) {
    const struct forward_memory *memory = &forward->memory;
    const struct forward_inputs *in = &memory->staged_inputs;
    size_t seen_bytes = (size_t)batch->seen_begin[batch->sampled_count] * sizeof *in->seen_id;
    return forward_copy_in(forward, memory->inputs.token, in->token, memory->fixed_input_bytes) &&
           forward_copy_in(forward, memory->inputs.seen_id, in->seen_id, seen_bytes) &&
           forward_copy_in(forward, memory->inputs.seen_count, in->seen_count, seen_bytes);
}

static bool forward_upload(struct forward *forward, const struct batch *batch,
                           const struct forward_pass *pass) {
    const struct forward_memory *memory = &forward->memory;
    const struct forward_inputs *in = &memory->staged_inputs;
    forward_inputs_stage(in, batch, pass);
    bool is_there =
        forward->ahead.is_under_way
            ? forward_note(forward, "copy in",
                           forward_ahead_take(&forward->ahead, &memory->inputs, in, batch, pass))
            : forward_copy_inputs(forward, batch);
    return is_there &&
           forward_note(forward, "fill",
                        device_fill(forward->device, DEVICE_STREAM_COMPUTE,
                                    memory->outputs.sampled_token, 0, memory->output_bytes));
}

/* Waits for the pass, not for what is sent ahead meanwhile. */
static enum forward_status forward_sync(struct forward *forward, char *err, size_t err_bytes) {
    return device_sync_stream(forward->device, DEVICE_STREAM_COMPUTE, err, err_bytes) == KERNELS_OK
               ? FORWARD_OK
               : FORWARD_FAILED;
}

static bool forward_copy_out(struct forward *forward) {
    const struct forward_memory *memory = &forward->memory;
    return forward_note(forward, "copy out",
                        device_copy_out(forward->device, DEVICE_STREAM_COMPUTE,
                                        memory->staged_outputs.sampled_token,
                                        memory->outputs.sampled_token, memory->output_bytes));
}

static enum forward_status forward_read_back(struct forward *forward, struct batch *batch,
                                             char *err, size_t err_bytes) {
    const struct forward_outputs *out = &forward->memory.staged_outputs;
    enum forward_status status = forward_sync(forward, err, err_bytes);
    if (status == FORWARD_OK) {
        memcpy(batch->sampled_token, out->sampled_token,
               batch->sampled_count * sizeof *batch->sampled_token);
        memcpy(batch->sampled_bad, out->sampled_bad, batch->sampled_count);
        memcpy(batch->row_bad, out->row_bad, batch->row_count);
    }
    return status;
}

/* ---------------------------------------------------------------- logits */

static bool forward_logits(struct forward *forward, uint32_t first, uint32_t count, float *out) {
    const struct model_config *config = &forward->model->config;
    struct head_logits_args args = {.x = forward->memory.activations.final +
                                         (size_t)first * config->dim,
                                    .weight = forward->model->head,
                                    .logits = forward->logits,
                                    .workspace = forward->memory.workspace,
                                    .rows = count};
    return FORWARD_CALL(forward, head_logits, &args) &&
           forward_note(forward, "copy out",
                        device_copy_out(forward->device, DEVICE_STREAM_COMPUTE,
                                        out + (size_t)first * config->vocabulary, forward->logits,
                                        (size_t)count * config->vocabulary * sizeof *out));
}

static bool forward_all_logits(struct forward *forward, uint32_t sampled_count, float *out) {
    for (uint32_t first = 0; first < sampled_count; first += FORWARD_LOGITS_ROWS) {
        uint32_t left = sampled_count - first;
        uint32_t count = left < FORWARD_LOGITS_ROWS ? left : FORWARD_LOGITS_ROWS;
        if (!forward_logits(forward, first, count, out)) {
            return false;
        }
    }
    return true;
}

static enum forward_status forward_reserve_logits(struct forward *forward, char *err,
                                                  size_t err_bytes) {
    size_t bytes =
        (size_t)FORWARD_LOGITS_ROWS * forward->model->config.vocabulary * sizeof *forward->logits;
    if (forward->ops->head_logits == NULL) {
        snprintf(err, err_bytes, "tier %s has no op head_logits", forward->ops->tier);
        return FORWARD_UNSUPPORTED;
    }
    void *memory = NULL;
    if (forward->logits == NULL &&
        device_alloc(forward->device, DEVICE_MEMORY, bytes, &memory) != KERNELS_OK) {
        snprintf(err, err_bytes, "no memory for logits: %zu bytes", bytes);
        return FORWARD_NO_MEMORY;
    }
    forward->logits = forward->logits != NULL ? forward->logits : memory;
    return FORWARD_OK;
}

enum forward_status forward_run_logits(struct forward *forward, struct batch *batch, float *logits,
                                       char *err, size_t err_bytes) {
    enum forward_status status = forward_reserve_logits(forward, err, err_bytes);
    struct forward_pass pass = forward_pass_make(&forward->options, batch);
    if (status != FORWARD_OK) {
        return status;
    }
    if (!forward_upload(forward, batch, &pass) || !forward_layers_run(forward, &pass)) {
        return forward_fault(forward, err, err_bytes);
    }
    if (!forward_all_logits(forward, batch->sampled_count, logits) || !forward_copy_out(forward)) {
        return forward_fault(forward, err, err_bytes);
    }
    return forward_read_back(forward, batch, err, err_bytes);
}

/* The final rows of the pass that has just been run are still there. */
static enum forward_status forward_show_logits(struct forward *forward, const struct batch *batch,
                                               char *err, size_t err_bytes) {
    const struct forward_tap *tap = forward->options.tap;
    enum forward_status status = forward_reserve_logits(forward, err, err_bytes);
    if (status == FORWARD_OK &&
        !forward_all_logits(forward, batch->sampled_count, forward->tapped)) {
        status = forward_fault(forward, err, err_bytes);
    }
    if (status == FORWARD_OK) {
        status = forward_sync(forward, err, err_bytes);
    }
    if (status == FORWARD_OK) {
        tap->see(tap->context, batch, forward->tapped);
    }
    return status;
}

/* By one launch where the pass was captured, else op by op: the same kernels, the same bits. */
static bool forward_launch(struct forward *forward, const struct forward_pass *pass) {
    struct device_graph *graph = forward_graphs_find(&forward->graphs, pass);
    if (graph != NULL) {
        return forward_note(forward, "graph", device_graph_launch(forward->device, graph));
    }
    return forward_layers_run(forward, pass) && forward_layers_sample(forward, pass);
}

static bool forward_start_pass(struct forward *forward, const struct batch *batch,
                               const struct forward_pass *pass) {
    assert(batch->row_count > 0);
    return forward_upload(forward, batch, pass) && forward_launch(forward, pass) &&
           forward_copy_out(forward);
}

enum forward_status forward_start(struct forward *forward, const struct batch *batch, char *err,
                                  size_t err_bytes) {
    const struct forward_pass pass = forward_pass_make(&forward->options, batch);
    return forward_start_pass(forward, batch, &pass) ? FORWARD_OK
                                                     : forward_fault(forward, err, err_bytes);
}

enum forward_status forward_send_ahead(struct forward *forward, const struct batch *guess,
                                       char *err, size_t err_bytes) {
    const struct forward_pass pass = forward_pass_make(&forward->options, guess);
    assert(forward->options.sends_ahead && guess->row_count > 0);
    return forward_note(forward, "copy ahead", forward_ahead_send(&forward->ahead, guess, &pass))
               ? FORWARD_OK
               : forward_fault(forward, err, err_bytes);
}

enum forward_status forward_finish(struct forward *forward, struct batch *batch, char *err,
                                   size_t err_bytes) {
    enum forward_status status = forward_read_back(forward, batch, err, err_bytes);
    if (status == FORWARD_OK && forward->tapped != NULL && batch->sampled_count > 0) {
        status = forward_show_logits(forward, batch, err, err_bytes);
    }
    return status;
}

enum forward_status forward_run(struct forward *forward, struct batch *batch, char *err,
                                size_t err_bytes) {
    enum forward_status status = forward_start(forward, batch, err, err_bytes);
    return status == FORWARD_OK ? forward_finish(forward, batch, err, err_bytes) : status;
}

enum forward_status forward_warm_up(struct forward *forward, struct batch *batch, uint32_t rows,
                                    char *err, size_t err_bytes) {
    struct forward_pass pass = forward_pass_make(&forward->options, batch);
    assert(forward->options.row_bucket_count > 0 && rows >= pass.rows);
    pass.rows = rows;
    return forward_start_pass(forward, batch, &pass)
               ? forward_read_back(forward, batch, err, err_bytes)
               : forward_fault(forward, err, err_bytes);
}

/* ---------------------------------------------------------------- graphs */

/* The capture is ended whatever happened in it, else nothing could follow it. */
static bool forward_capture_pass(struct forward *forward, const struct forward_pass *pass) {
    struct device_graph *graph = NULL;
    if (!forward_note(forward, "begin of a capture", device_graph_begin(forward->device))) {
        return false;
    }
    bool is_whole = forward_layers_run(forward, pass) && forward_layers_sample(forward, pass);
    enum kernels_status ended = device_graph_end(forward->device, &graph);
    if (is_whole && !forward_note(forward, "end of a capture", ended)) {
        return false;
    }
    if (!is_whole || !forward_graphs_add(&forward->graphs, pass, graph)) {
        device_graph_close(forward->device, graph);
        return is_whole && forward_note(forward, "a list of graphs", KERNELS_NO_MEMORY);
    }
    return true;
}

enum forward_status forward_capture(struct forward *forward, char *err, size_t err_bytes) {
    struct forward_pass pass;
    for (uint32_t i = 0; forward_pass_decode(&forward->options, i, &pass); i++) {
        if (!forward_capture_pass(forward, &pass)) {
            return forward_fault(forward, err, err_bytes);
        }
    }
    return FORWARD_OK;
}

uint32_t forward_graph_count(const struct forward *forward) {
    return forward->graphs.count;
}

/* ---------------------------------------------------------------- open and close */

static enum forward_status forward_reserve_tap(struct forward *forward, char *err,
                                               size_t err_bytes) {
    size_t count = (size_t)forward->options.limits.sampled_max * forward->model->config.vocabulary;
    if (forward->options.tap == NULL) {
        return FORWARD_OK;
    }
    forward->tapped = malloc(count * sizeof *forward->tapped);
    if (forward->tapped == NULL) {
        snprintf(err, err_bytes, "no memory for the logits of a test");
        return FORWARD_NO_MEMORY;
    }
    return FORWARD_OK;
}

static enum forward_status forward_reserve_ahead(struct forward *forward, char *err,
                                                 size_t err_bytes) {
    if (!forward->options.sends_ahead ||
        forward_ahead_open(&forward->ahead, forward->device, &forward->options.limits) ==
            KERNELS_OK) {
        return FORWARD_OK;
    }
    snprintf(err, err_bytes, "no memory for the next step's inputs: %zu bytes",
             forward->memory.plan.ahead_bytes);
    return FORWARD_NO_MEMORY;
}

enum forward_status forward_poison_page(struct forward *forward, uint32_t page, char *err,
                                        size_t err_bytes) {
    const struct forward_memory *memory = &forward->memory;
    assert(page < forward->options.page_count);
    for (uint32_t layer = 0; layer < forward->model->config.layers; layer++) {
        unsigned char *begin =
            memory->kv + layer * memory->kv_layer_bytes + page * memory->page_bytes;
        if (!forward_note(forward, "fill",
                          device_fill(forward->device, DEVICE_STREAM_COMPUTE, begin, 0xFF,
                                      memory->page_bytes))) {
            return forward_fault(forward, err, err_bytes);
        }
    }
    return FORWARD_OK;
}

void forward_make_plan(const struct model_config *config, const struct kv_form *kv,
                       const struct device *device, const struct forward_options *options,
                       struct forward_plan *plan) {
    forward_memory_make_plan(config, kv, device, options, plan);
}

enum forward_status forward_open(const struct model *model, const struct forward_options *options,
                                 struct forward **out, char *err, size_t err_bytes) {
    enum forward_status status = forward_needs_check(model, err, err_bytes);
    if (status != FORWARD_OK) {
        return status;
    }
    struct forward *forward = calloc(1, sizeof *forward);
    if (forward == NULL) {
        snprintf(err, err_bytes, "no memory for a forward pass");
        return FORWARD_NO_MEMORY;
    }
    forward->model = model;
    forward->device = model->device;
    forward->ops = device_ops(model->device);
    forward->options = *options;
    forward_graphs_init(&forward->graphs, forward->device);
    status = forward_memory_open(&forward->memory, model, options, err, err_bytes);
    if (status == FORWARD_OK && options->poison_pages &&
        !forward_note(forward, "fill",
                      device_fill(forward->device, DEVICE_STREAM_COMPUTE, forward->memory.kv, 0xFF,
                                  forward->memory.plan.kv_bytes))) {
        status = forward_fault(forward, err, err_bytes);
    }
    if (status == FORWARD_OK) {
        status = forward_reserve_ahead(forward, err, err_bytes);
    }
    if (status == FORWARD_OK) {
        status = forward_reserve_tap(forward, err, err_bytes);
    }
    if (status != FORWARD_OK) {
        forward_close(forward);
        return status;
    }
    *out = forward;
    return FORWARD_OK;
}

void forward_close(struct forward *forward) {
    if (forward == NULL) {
        return;
    }
    forward_ahead_close(&forward->ahead);
    forward_graphs_deinit(&forward->graphs);
    device_free(forward->device, DEVICE_MEMORY, forward->logits);
    forward_memory_close(&forward->memory);
    free(forward->tapped);
    free(forward);
}
