/* Rotary embedding of q and k (Su et al. 2021), then k and v to their pages. */
#include "kernels/cpu_device.h"
#include "kernels/reference/check.h"
#include "kernels/reference/kv_page.h"
#include "kernels/reference/reference.h"

/* ---------------------------------------------------------------- kernels */

static void rope_head(float *x, const float *cosine, const float *sine, uint32_t half) {
    for (uint32_t i = 0; i < half; i++) {
        canonical_rotate(&x[i], &x[i + half], cosine[i], sine[i]);
    }
}

static void rope_write_token(const struct kv_view *kv, void *page, uint32_t token, const float *k,
                             const float *v) {
    const struct kv_form *form = &kv->form;
    for (uint32_t head = 0; head < form->kv_heads; head++) {
        for (uint32_t d = 0; d < form->head_dim; d++) {
            size_t from = (size_t)head * form->head_dim + d;
            kv_store(page, form->type, kv_key_index(form, head, d, token), k[from]);
            kv_store(page, form->type, kv_value_index(form, head, token, d), v[from]);
        }
    }
}

static void rope_row(const struct rope_kv_write_args *args, uint32_t t) {
    const struct kv_form *form = &args->kv.form;
    uint32_t half = args->rotary_dims / 2, position = (uint32_t)args->rows.position[t];
    size_t q_width = (size_t)args->heads * form->head_dim;
    size_t kv_width = (size_t)form->kv_heads * form->head_dim;
    float *q = args->qkv + (size_t)t * (q_width + 2 * kv_width);
    float *k = q + q_width;
    for (uint32_t head = 0; half > 0 && head < args->heads + form->kv_heads; head++) {
        rope_head(q + (size_t)head * form->head_dim, args->cos_table + (size_t)position * half,
                  args->sin_table + (size_t)position * half, half);
    }
    void *page = kv_page(&args->kv, (uint32_t)args->rows.slot[t], position);
    rope_write_token(&args->kv, page, position % KV_PAGE_TOKENS, k, k + kv_width);
}

/* ---------------------------------------------------------------- launchers */

static void rope_range(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    (void)worker;
    for (uint32_t t = begin; t < end; t++) {
        rope_row(context, t);
    }
}

enum kernels_status reference_rope_kv_write(struct device *device,
                                            const struct rope_kv_write_args *args) {
    const struct kv_form *form = &args->kv.form;
    if (!check_rope_kv_write(args, reference_page_bytes(form)) ||
        !check_positions(&args->rows, &args->kv, UINT32_MAX)) {
        return KERNELS_INVALID;
    }
    struct rope_kv_write_args job = *args;
    uint64_t width = ((uint64_t)args->heads + 2u * form->kv_heads) * form->head_dim;
    pool_run_ranges(cpu_device_pool(device), rope_range, &job, args->rows.rows, width);
    return KERNELS_OK;
}
