/* Weights of the CUDA back end: which forms there are, packing on the host, plans. */
#include "kernels/cuda/weight.h"

#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/cuda_ops.h"

/* ---------------------------------------------------------------- forms and layout */

static const char *weight_complaint(const struct weight_form *form) {
    if (form->n > WEIGHT_N_MAX) {
        return "more than 4194240 outputs";
    }
    if (form->fast && form->type != ELEMENT_F16) {
        return "fast products of weights that are not F16";
    }
    if (form->type == ELEMENT_I8 && form->group_size < form->k &&
        form->group_size % WEIGHT_VECTOR_BYTES != 0) {
        return "INT8 weights in groups of no multiple of 16 inputs";
    }
    return NULL;
}

static enum kernels_status weight_check_form(const struct weight_form *form, char *err,
                                             size_t err_bytes) {
    struct weight_form plain = *form;
    plain.fast = false; /* the CPU has no such form */
    enum kernels_status status = reference_weight_check_form(&plain, err, err_bytes);
    const char *complaint = status == KERNELS_OK ? weight_complaint(form) : NULL;
    if (complaint != NULL) {
        snprintf(err, err_bytes, "weight [%u, %u]: %s", form->n, form->k, complaint);
        return KERNELS_UNSUPPORTED;
    }
    return status;
}

/* Stored as rows, for cuBLASLt; else as panels. */
static bool weight_is_rows(const struct weight_form *form) {
    return form->type == ELEMENT_I8 || form->fast;
}

static uint32_t weight_panel_steps(const struct weight_form *form) {
    return weight_steps(form->k,
                        WEIGHT_VECTOR_BYTES / static_cast<uint32_t>(element_bytes(form->type)));
}

size_t cuda_weight_values_bytes(const struct weight_form *form) {
    if (weight_is_rows(form)) {
        return static_cast<size_t>(weight_padded(form->n)) * weight_padded(form->k) *
               element_bytes(form->type);
    }
    size_t panels = weight_steps(form->n, WEIGHT_PANEL);
    return panels * weight_panel_steps(form) * WEIGHT_PANEL * WEIGHT_VECTOR_BYTES;
}

struct reference_weight_view cuda_weight_view(const struct weight *weight) {
    return reference_weight_view_of(weight, cuda_weight_values_bytes(&weight->form));
}

/* ---------------------------------------------------------------- packing */

enum kernels_status cuda_weight_packed_bytes(const struct weight_form *form, size_t *bytes,
                                             char *err, size_t err_bytes) {
    enum kernels_status status = weight_check_form(form, err, err_bytes);
    if (status == KERNELS_OK) {
        *bytes = reference_weight_layout_of(form, cuda_weight_values_bytes(form)).bytes;
    }
    return status;
}

static void weight_pack_rows(const struct weight_form *form, const void *values, char *packed) {
    const char *from = static_cast<const char *>(values);
    size_t row_bytes = form->k * element_bytes(form->type);
    size_t stride = weight_padded(form->k) * element_bytes(form->type);
    for (size_t n = 0; n < form->n; n++) {
        memcpy(packed + n * stride, from + n * row_bytes, row_bytes);
    }
}

static void weight_pack_panels(const struct weight_form *form, const void *values, char *packed) {
    const char *from = static_cast<const char *>(values);
    size_t row_bytes = form->k * element_bytes(form->type);
    uint32_t steps = weight_panel_steps(form);
    for (uint32_t n = 0; n < form->n; n++) {
        for (uint32_t step = 0; step < steps; step++) {
            size_t begin = static_cast<size_t>(step) * WEIGHT_VECTOR_BYTES;
            size_t left = row_bytes - begin;
            memcpy(packed + weight_panel_vector(n, step, steps) * WEIGHT_VECTOR_BYTES,
                   from + n * row_bytes + begin,
                   left < WEIGHT_VECTOR_BYTES ? left : WEIGHT_VECTOR_BYTES);
        }
    }
}

enum kernels_status cuda_weight_pack(const struct weight_form *form,
                                     const struct weight_source *source, void *packed, char *err,
                                     size_t err_bytes) {
    enum kernels_status status = weight_check_form(form, err, err_bytes);
    if (status == KERNELS_OK) {
        status = reference_weight_check_source(form, source, err, err_bytes);
    }
    if (status != KERNELS_OK) {
        return status;
    }
    struct reference_weight_layout layout =
        reference_weight_layout_of(form, cuda_weight_values_bytes(form));
    memset(packed, 0, layout.scale);
    if (weight_is_rows(form)) {
        weight_pack_rows(form, source->values, static_cast<char *>(packed));
    } else {
        weight_pack_panels(form, source->values, static_cast<char *>(packed));
    }
    reference_weight_pack_sections(form, source, &layout, packed);
    return KERNELS_OK;
}

/* ---------------------------------------------------------------- plans */

struct weight_plan {
    uint32_t rows;
    struct cuda_blas_plan *product;
};

struct weight_plans {
    uint32_t count;
    struct weight_plan at[]; /* by ascending rows, each once */
};

static const struct weight_plan *weight_plan_find(const struct weight_plans *plans, uint32_t rows) {
    for (uint32_t i = 0; plans != NULL && i < plans->count; i++) {
        if (plans->at[i].rows == rows) {
            return &plans->at[i];
        }
    }
    return NULL;
}

const struct cuda_blas_plan *cuda_weight_plan(const struct weight *weight, uint32_t rows) {
    const struct weight_plan *plan =
        weight_plan_find(static_cast<const struct weight_plans *>(weight->plan), rows);
    return plan != NULL ? plan->product : NULL;
}

static enum kernels_status weight_open_plan(struct cuda_blas *blas, const struct weight *weight,
                                            uint32_t rows, char *err, size_t err_bytes) {
    struct weight_plans *plans = static_cast<struct weight_plans *>(weight->plan);
    struct weight_plan *plan = &plans->at[plans->count];
    enum kernels_status status = cuda_blas_plan_open(
        blas, weight->form.fast ? CUDA_BLAS_F16 : CUDA_BLAS_I8, weight_padded(weight->form.n),
        weight_padded(weight->form.k), rows, &plan->product, err, err_bytes);
    if (status == KERNELS_OK) {
        plan->rows = rows;
        plans->count++;
    }
    return status;
}

/* A shape that the card refuses has no plan, and a kernel of ours. */
static enum kernels_status weight_add_plan(struct cuda_blas *blas, const struct weight *weight,
                                           uint32_t rows, char *err, size_t err_bytes) {
    const struct weight_plans *plans = static_cast<const struct weight_plans *>(weight->plan);
    if (rows <= WEIGHT_FEW_ROWS || weight_plan_find(plans, rows) != NULL) {
        return KERNELS_OK;
    }
    enum kernels_status status = weight_open_plan(blas, weight, rows, err, err_bytes);
    return status == KERNELS_UNSUPPORTED ? KERNELS_OK : status;
}

/* What is refused here has no other kernel: who asked for it must hear why. */
static enum kernels_status weight_add_fast_plan(struct cuda_blas *blas, const struct weight *weight,
                                                char *err, size_t err_bytes) {
    char why[128] = "";
    enum kernels_status status = weight_open_plan(blas, weight, WEIGHT_FAST_ROWS, why, sizeof why);
    if (status != KERNELS_OK) {
        snprintf(err, err_bytes, "weight [%u, %u]: no fast product on this card: %s",
                 weight->form.n, weight->form.k, why);
    }
    return status;
}

/* The slices that a bucket is cut into: whole ones, and what is left. */
static enum kernels_status weight_add_bucket(struct cuda_blas *blas, const struct weight *weight,
                                             uint32_t bucket, char *err, size_t err_bytes) {
    enum kernels_status status = KERNELS_OK;
    if (bucket >= WEIGHT_SLICE_ROWS) {
        status = weight_add_plan(blas, weight, WEIGHT_SLICE_ROWS, err, err_bytes);
    }
    if (status == KERNELS_OK) {
        status = weight_add_plan(blas, weight, bucket % WEIGHT_SLICE_ROWS, err, err_bytes);
    }
    return status;
}

enum kernels_status cuda_weight_prepare(struct cuda_blas *blas, struct weight *weight,
                                        const uint32_t *row_buckets, uint32_t bucket_count,
                                        char *err, size_t err_bytes) {
    weight->plan = NULL;
    if (weight->packed == NULL) {
        snprintf(err, err_bytes, "weight [%u, %u] is not on the device", weight->form.n,
                 weight->form.k);
        return KERNELS_INVALID;
    }
    bool is_fast = weight->form.fast;
    if (!is_fast && (weight->form.type != ELEMENT_I8 || reference_groups(&weight->form) != 1)) {
        return KERNELS_OK; /* kernels of ours only */
    }
    size_t plans_max = is_fast ? 1u : static_cast<size_t>(bucket_count) * 2u;
    weight->plan = calloc(1, sizeof(struct weight_plans) + plans_max * sizeof(struct weight_plan));
    if (weight->plan == NULL) {
        snprintf(err, err_bytes, "out of memory");
        return KERNELS_NO_MEMORY;
    }
    enum kernels_status status =
        is_fast ? weight_add_fast_plan(blas, weight, err, err_bytes) : KERNELS_OK;
    for (uint32_t i = 0; i < bucket_count && !is_fast && status == KERNELS_OK; i++) {
        status = weight_add_bucket(blas, weight, row_buckets[i], err, err_bytes);
    }
    if (status != KERNELS_OK) {
        cuda_weight_release(blas, weight);
    }
    return status;
}

void cuda_weight_release(struct cuda_blas *blas, struct weight *weight) {
    struct weight_plans *plans = static_cast<struct weight_plans *>(weight->plan);
    for (uint32_t i = 0; plans != NULL && i < plans->count; i++) {
        cuda_blas_plan_close(blas, plans->at[i].product);
    }
    free(plans);
    weight->plan = NULL;
}
