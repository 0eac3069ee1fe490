/* The memory of a forward pass: where every array lies, and how many bytes each purpose takes.
 *
 * Four regions on the device (activations, KV pages, workspace, the arrays of a batch) and pinned
 * copies of a batch's arrays on the host. One layout function per region serves both the plan and
 * the addresses, so they cannot disagree. One thread. Refuses to know what is computed. */
#ifndef SOLFLEET_ENGINE_FORWARD_MEMORY_H
#define SOLFLEET_ENGINE_FORWARD_MEMORY_H

#include "engine/forward_inputs.h"

/* f32 unless said; T rows, S sampled rows. One set for all layers. */
struct forward_activations {
    float *x;            /* [T, D], the residual stream */
    float *normed;       /* [T, D] */
    float *qkv;          /* [T, (H + 2G) d] */
    float *attention;    /* [T, H d] */
    float *gate_up;      /* [T, 2F] */
    float *gated;        /* [T, F] */
    float *final;        /* [S, D] */
    int8_t *q;           /* i8 [T, max(D, H d, F)] */
    float *scale;        /* [T] */
    int32_t *zero_point; /* i32 [T] */
    int32_t *sum;        /* i32 [T] */
};

/* Arrays that a pass fills for the host. */
struct forward_outputs {
    int32_t *sampled_token; /* [S] */
    uint8_t *sampled_bad;   /* [S] */
    uint8_t *row_bad;       /* [T] */
};

struct forward_memory {
    struct device *device; /* borrowed */
    struct forward_plan plan;

    struct forward_activations activations;
    struct forward_inputs inputs, staged_inputs;
    struct forward_outputs outputs, staged_outputs;
    size_t fixed_input_bytes; /* from inputs.token on, the lists left out */
    size_t output_bytes;      /* from outputs.sampled_token on */

    unsigned char *kv; /* layer l, page p at l * kv_layer_bytes + p * page_bytes */
    size_t page_bytes, kv_layer_bytes;
    struct kernels_workspace workspace;
    struct kernels_shape shape;

    void *device_regions[4]; /* owned: activations, KV, workspace, batch */
    void *pinned;            /* owned */
};

void forward_memory_make_plan(const struct model_config *config, const struct kv_form *kv,
                              const struct device *device, const struct forward_options *options,
                              struct forward_plan *plan);

enum forward_status forward_memory_open(struct forward_memory *memory, const struct model *model,
                                        const struct forward_options *options, char *err,
                                        size_t err_bytes) __attribute__((warn_unused_result));
void forward_memory_close(struct forward_memory *memory); /* accepts zeroed */

#endif
