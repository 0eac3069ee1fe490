/* Argument checks that launchers share. Every launcher checks everything before it starts, for a
 * kernel cannot report. Private to kernels. */
#ifndef SOLFLEET_KERNELS_REFERENCE_CHECK_H
#define SOLFLEET_KERNELS_REFERENCE_CHECK_H

#include "kernels/ops.h"

static inline bool check_array(const void *array, size_t alignment) {
    return array != NULL && ((uintptr_t)array & (alignment - 1)) == 0;
}

/* f32 and i32 arrays. */
static inline bool check_words(const void *array) {
    return check_array(array, 4);
}

static inline bool check_words_or_null(const void *array) {
    return array == NULL || check_words(array);
}

static inline bool check_dim(uint32_t dim) {
    return dim >= 1 && dim <= KERNELS_K_MAX;
}

/* A weight of f32 rows: F16 or F32, packed. */
static inline bool check_weight_f32(const struct weight *weight) {
    return weight != NULL && check_array(weight->packed, KERNELS_ALIGNMENT_BYTES) &&
           weight->form.n >= 1 && check_dim(weight->form.k) && weight->form.type != ELEMENT_I8;
}

static inline bool check_weight_i8(const struct weight *weight) {
    return weight != NULL && check_array(weight->packed, KERNELS_ALIGNMENT_BYTES) &&
           weight->form.n >= 1 && check_dim(weight->form.k) && weight->form.type == ELEMENT_I8;
}

/* What the epilogue of a weight needs of its rows. */
static inline bool check_quantized_scales(const struct quantized *x,
                                          const struct weight_form *form) {
    return check_words(x->scale) && form->activation_zero_point == (x->zero_point != NULL) &&
           check_words_or_null(x->zero_point) && (!form->weight_zero_point || check_words(x->sum));
}

static inline bool check_workspace(const struct kernels_workspace *workspace, size_t bytes) {
    return bytes == 0 ||
           (check_array(workspace->data, KERNELS_ALIGNMENT_BYTES) && workspace->bytes >= bytes);
}

static inline bool check_quantize(const struct quantize_args *args) {
    return args->out.q != NULL && check_words(args->out.scale) &&
           check_words_or_null(args->out.zero_point) && check_words_or_null(args->out.sum) &&
           check_words_or_null(args->static_scale) &&
           check_words_or_null(args->static_zero_point) &&
           (args->static_zero_point == NULL || args->out.zero_point != NULL) && args->bad != NULL;
}

static inline bool check_norm(const struct norm_args *args) {
    return args->rows >= 1 && check_dim(args->dim) && check_words(args->x) &&
           check_words_or_null(args->row_index) && check_words(args->weight) &&
           check_words_or_null(args->bias);
}

static inline bool check_kv(const struct kv_view *kv, size_t page_bytes) {
    return page_bytes > 0 && check_array(kv->base, KERNELS_ALIGNMENT_BYTES) &&
           kv->stride_bytes >= page_bytes && kv->stride_bytes % KERNELS_ALIGNMENT_BYTES == 0 &&
           check_words(kv->page_table) && kv->table_pages >= 1;
}

/* Arrays of a step, unread: a back end whose memory is the host's reads them in check_positions. */
static inline bool check_step_rows(const struct step_rows *rows) {
    return rows->rows >= 1 && check_words(rows->position) && check_words(rows->slot);
}

/* What the rows say, of memory that the host may read: every position lies below context_max and
 * has an entry in the page table. */
static inline bool check_positions(const struct step_rows *rows, const struct kv_view *kv,
                                   uint32_t context_max) {
    for (uint32_t t = 0; t < rows->rows; t++) {
        int32_t position = rows->position[t];
        if (position < 0 || (uint32_t)position >= context_max ||
            (uint32_t)position / KV_PAGE_TOKENS >= kv->table_pages || rows->slot[t] < 0) {
            return false;
        }
    }
    return true;
}

static inline bool check_gemm_i8(const struct gemm_i8_args *args) {
    return args->rows >= 1 && check_weight_i8(args->weight) && args->x.q != NULL &&
           check_words(args->sum);
}

static inline bool check_dequantize(const struct dequantize_args *args) {
    return args->rows >= 1 && check_weight_i8(args->weight) &&
           check_quantized_scales(&args->x, &args->weight->form) && check_words(args->sum) &&
           check_words_or_null(args->residual) && check_words(args->y);
}

static inline bool check_linear_i8(const struct linear_i8_args *args) {
    return args->rows >= 1 && check_weight_i8(args->weight) && args->x.q != NULL &&
           check_quantized_scales(&args->x, &args->weight->form) &&
           check_words_or_null(args->residual) && check_words(args->y);
}

static inline bool check_linear_f32(const struct linear_f32_args *args) {
    return args->rows >= 1 && check_weight_f32(args->weight) && check_words(args->x) &&
           check_words_or_null(args->residual) && check_words(args->y);
}

/* Without what the rows say. */
static inline bool check_rope_kv_write(const struct rope_kv_write_args *args, size_t page_bytes) {
    const struct kv_form *form = &args->kv.form;
    bool tables =
        args->rotary_dims == 0 || (check_words(args->cos_table) && check_words(args->sin_table));
    return check_words(args->qkv) && tables && check_kv(&args->kv, page_bytes) &&
           check_step_rows(&args->rows) && args->heads >= 1 && args->heads % form->kv_heads == 0 &&
           args->rotary_dims % 2 == 0 && args->rotary_dims <= form->head_dim;
}

/* Without what the rows say. */
static inline bool check_attention(const struct attention_args *args, size_t page_bytes) {
    const struct kv_form *form = &args->kv.form;
    return check_words(args->q) && check_words(args->out) && check_kv(&args->kv, page_bytes) &&
           check_step_rows(&args->rows) && args->heads >= 1 && args->heads % form->kv_heads == 0 &&
           (uint64_t)args->rows.rows * args->heads <= UINT32_MAX &&
           args->q_stride >= (uint64_t)args->heads * form->head_dim && args->context_max >= 1;
}

static inline bool check_glu(const struct glu_args *args) {
    return args->rows >= 1 && check_dim(args->dim) && check_words(args->gate_up);
}

static inline bool check_head_norm(const struct head_norm_args *args) {
    return args->rows >= 1 && args->heads >= 1 && check_dim(args->head_dim) &&
           args->stride >= (uint64_t)args->heads * args->head_dim && check_words(args->x) &&
           check_words(args->weight);
}

static inline bool check_sample_params(const struct sample_params *params) {
    return check_words(params->temperature) && check_words(params->top_k) &&
           check_words(params->top_p_q16) && check_words(params->min_p_q16) &&
           check_words(params->repetition) && check_words(params->presence) &&
           check_words(params->frequency) && check_array(params->seed, 8) &&
           check_array(params->position, 8) && check_words(params->seen_begin) &&
           check_words_or_null(params->seen_id) && check_words_or_null(params->seen_count);
}

/* Without the workspace. */
static inline bool check_sample(const struct sample_args *args) {
    return args->rows >= 1 && args->vocabulary >= 1 && args->vocabulary <= INT32_MAX &&
           check_words(args->logits) && check_sample_params(&args->params) &&
           check_words(args->token) && args->bad != NULL;
}

#endif
