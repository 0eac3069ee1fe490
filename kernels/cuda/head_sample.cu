/* LM head and sampling, some rows at a time: a large head's logits of all rows would take more
 * memory than is worth it. Parallelisation, bytes and bounds are those of the two; logits go to
 * memory and back, 8 bytes each beside the 2 D of an output's weights. A sketch is passed over. */
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/linear_fast.h"
#include "kernels/reference/check.h"

/* Enough that weights are read seldom (linear_f32.cu takes 64 rows at a time) and that sampling
 * fills a card. A guess until one has been measured. */
#define SLICE_ROWS 128u

/* ---------------------------------------------------------------- launchers */

static uint32_t slice_rows(uint32_t rows) {
    return rows < SLICE_ROWS ? rows : SLICE_ROWS;
}

/* The logits of a slice; behind them, what the head's product needs. */
static size_t logits_bytes(uint32_t rows, uint32_t vocabulary) {
    return kernels_aligned(static_cast<size_t>(slice_rows(rows)) * vocabulary * sizeof(float));
}

static size_t product_bytes(const struct weight_form *head) {
    return head->fast ? cuda_linear_fast_bytes(head->n, head->k) : 0;
}

size_t cuda_head_sample_bytes(const struct kernels_shape *shape) {
    return logits_bytes(shape->sampled_max, shape->vocabulary) + cuda_head_logits_bytes(shape);
}

/* From row t on; what rows have seen is told by the same arrays. */
static struct sample_params params_from(const struct sample_params &all, uint32_t t) {
    struct sample_params params = all;
    params.temperature += t;
    params.top_k += t;
    params.top_p_q16 += t;
    params.min_p_q16 += t;
    params.repetition += t;
    params.presence += t;
    params.frequency += t;
    params.seed += t;
    params.position += t;
    params.seen_begin += t;
    return params;
}

static enum kernels_status run_slice(struct cuda_blas *blas, cudaStream_t stream,
                                     const struct head_sample_args *args, uint32_t t,
                                     uint32_t rows) {
    float *logits = static_cast<float *>(args->workspace.data);
    size_t begin = logits_bytes(args->rows, args->weight->form.n);
    struct head_logits_args head = {};
    head.workspace.data = static_cast<char *>(args->workspace.data) + begin;
    head.workspace.bytes = args->workspace.bytes - begin;
    head.x = args->x + static_cast<size_t>(t) * args->weight->form.k;
    head.weight = args->weight;
    head.logits = logits;
    head.rows = rows;
    enum kernels_status status = cuda_head_logits(blas, stream, &head);
    if (status != KERNELS_OK) {
        return status;
    }
    struct sample_args sample = {};
    sample.logits = logits;
    sample.vocabulary = args->weight->form.n;
    sample.params = params_from(args->params, t);
    sample.token = args->token + t;
    sample.bad = args->bad + t;
    sample.rows = rows;
    return cuda_sample(stream, &sample);
}

enum kernels_status cuda_head_sample(struct cuda_blas *blas, cudaStream_t stream,
                                     const struct head_sample_args *args) {
    if (args->rows < 1 || !check_words(args->x) || !check_weight_f32(args->weight) ||
        !check_sample_params(&args->params) || !check_words(args->token) || args->bad == NULL ||
        !check_workspace(&args->workspace, logits_bytes(args->rows, args->weight->form.n) +
                                               product_bytes(&args->weight->form))) {
        return KERNELS_INVALID;
    }
    enum kernels_status status = KERNELS_OK;
    for (uint32_t t = 0, rows; t < args->rows && status == KERNELS_OK; t += rows) {
        rows = slice_rows(args->rows - t);
        status = run_slice(blas, stream, args, t, rows);
    }
    return status;
}
