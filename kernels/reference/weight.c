#include "kernels/reference/weight.h"

#include <stdio.h>

#include "kernels/reference/reference.h"

/* ---------------------------------------------------------------- forms */

static const char *reference_form_complaint(const struct weight_form *form) {
    if (form->n == 0 || form->k == 0 || form->k > KERNELS_K_MAX) {
        return "a linear needs 1 or more outputs and 1 to 65536 inputs";
    }
    bool int8 = form->type == ELEMENT_I8;
    if (!int8 && form->type != ELEMENT_F16 && form->type != ELEMENT_F32) {
        return "unknown element type";
    }
    if (int8 == (form->activation == ACTIVATION_F32)) {
        return int8 ? "INT8 weights need INT8 activations" : "INT8 activations need INT8 weights";
    }
    if (!int8 &&
        (form->group_size != 0 || form->weight_zero_point || form->activation_zero_point)) {
        return "16- and 32-bit weights have no groups and no zero points";
    }
    if (form->fast) {
        return "only a CUDA device has fast products";
    }
    if ((form->weight_zero_point || form->activation_zero_point) && form->k > KERNELS_K_MAX / 2) {
        return "zero points with more than 32768 inputs: INT32 sums could overflow";
    }
    if (form->weight_zero_point && form->group_size != 0) {
        return "INT8 weights with zero points in groups";
    }
    return NULL;
}

enum kernels_status reference_weight_check_form(const struct weight_form *form, char *err,
                                                size_t err_bytes) {
    const char *complaint = reference_form_complaint(form);
    if (complaint != NULL) {
        snprintf(err, err_bytes, "weight [%u, %u]: %s", form->n, form->k, complaint);
        return KERNELS_UNSUPPORTED;
    }
    return KERNELS_OK;
}

enum kernels_status reference_weight_check_source(const struct weight_form *form,
                                                  const struct weight_source *source, char *err,
                                                  size_t err_bytes) {
    bool int8 = form->type == ELEMENT_I8;
    if (source->values == NULL || (int8 && source->scale == NULL) ||
        (form->weight_zero_point && source->zero_point == NULL) ||
        (form->bias && source->bias == NULL)) {
        snprintf(err, err_bytes, "weight [%u, %u]: values, scale, zero point or bias is missing",
                 form->n, form->k);
        return KERNELS_INVALID;
    }
    if (form->activation == ACTIVATION_STATIC &&
        !(source->activation_scale > 0.0f && isfinite(source->activation_scale))) {
        snprintf(err, err_bytes, "weight [%u, %u]: the static activation scale is %g", form->n,
                 form->k, (double)source->activation_scale);
        return KERNELS_INVALID;
    }
    uint32_t groups = reference_groups(form);
    for (size_t i = 0; int8 && i < (size_t)form->n * groups; i++) {
        if ((canonical_bits(source->scale[i]) & 0x7FFFFFFFu) >= CANONICAL_INF_BITS) {
            snprintf(err, err_bytes, "weight [%u, %u]: the scale of output %zu is not finite",
                     form->n, form->k, i / groups);
            return KERNELS_INVALID;
        }
        int32_t zero_point = form->weight_zero_point ? source->zero_point[i] : 0;
        if (zero_point < -128 || zero_point > 127) {
            snprintf(err, err_bytes, "weight [%u, %u]: the zero point of output %zu is %d", form->n,
                     form->k, i / groups, zero_point);
            return KERNELS_INVALID;
        }
    }
    return KERNELS_OK;
}

/* ---------------------------------------------------------------- layout */

size_t reference_weight_values_bytes(const struct weight_form *form) {
    size_t rows =
        form->type == ELEMENT_I8 ? form->n : (size_t)reference_panels(form->n) * REFERENCE_PANEL;
    return rows * form->k * element_bytes(form->type);
}

struct reference_weight_layout reference_weight_layout_of(const struct weight_form *form,
                                                          size_t values_bytes) {
    size_t padded = (size_t)reference_panels(form->n) * REFERENCE_PANEL;
    size_t words = kernels_aligned(padded * reference_groups(form) * sizeof(float));
    bool int8 = form->type == ELEMENT_I8;
    struct reference_weight_layout layout;
    layout.scale = kernels_aligned(values_bytes);
    layout.zero_point = layout.scale + (int8 ? words : 0);
    layout.row_sum = layout.zero_point + (form->weight_zero_point ? words : 0);
    layout.bias = layout.row_sum + (form->activation_zero_point ? words : 0);
    layout.bytes = layout.bias + (form->bias ? kernels_aligned(padded * sizeof(float)) : 0);
    return layout;
}

struct reference_weight_view reference_weight_view_of(const struct weight *weight,
                                                      size_t values_bytes) {
    const struct weight_form *form = &weight->form;
    struct reference_weight_layout layout = reference_weight_layout_of(form, values_bytes);
    const char *packed = weight->packed;
    struct reference_weight_view view = {.values = packed, .groups = reference_groups(form)};
    view.scale = form->type == ELEMENT_I8 ? (const void *)(packed + layout.scale) : NULL;
    view.zero_point = form->weight_zero_point ? (const void *)(packed + layout.zero_point) : NULL;
    view.row_sum = form->activation_zero_point ? (const void *)(packed + layout.row_sum) : NULL;
    view.bias = form->bias ? (const void *)(packed + layout.bias) : NULL;
    return view;
}

/* ---------------------------------------------------------------- packing */

static void reference_pack_row_sums(const struct weight_form *form,
                                    const struct weight_source *source, int32_t *row_sum) {
    uint32_t groups = reference_groups(form);
    uint32_t size = form->group_size != 0 ? form->group_size : form->k;
    const int8_t *values = source->values;
    for (uint32_t n = 0; n < form->n; n++) {
        for (uint32_t k = 0; k < form->k; k++) {
            row_sum[(size_t)n * groups + k / size] += values[(size_t)n * form->k + k];
        }
    }
}

void reference_weight_pack_sections(const struct weight_form *form,
                                    const struct weight_source *source,
                                    const struct reference_weight_layout *layout, void *packed) {
    char *base = packed;
    size_t count = (size_t)form->n * reference_groups(form);
    memset(base + layout->scale, 0, layout->bytes - layout->scale);
    if (form->type == ELEMENT_I8) {
        memcpy(base + layout->scale, source->scale, count * sizeof(float));
    }
    if (form->weight_zero_point) {
        memcpy(base + layout->zero_point, source->zero_point, count * sizeof(int32_t));
    }
    if (form->activation_zero_point) {
        reference_pack_row_sums(form, source, (int32_t *)(void *)(base + layout->row_sum));
    }
    if (form->bias) {
        memcpy(base + layout->bias, source->bias, form->n * sizeof(float));
    }
}

/* Panels of 16 outputs from rows; outputs past N are zero. */
static void reference_pack_panels(const struct weight_form *form, const void *values,
                                  void *packed) {
    for (uint32_t n = 0; n < reference_panels(form->n) * REFERENCE_PANEL; n++) {
        for (uint32_t k = 0; k < form->k; k++) {
            size_t to = reference_panel_index(n, k, form->k), from = (size_t)n * form->k + k;
            if (form->type == ELEMENT_F16) {
                ((uint16_t *)packed)[to] =
                    n < form->n ? ((const uint16_t *)values)[from] : (uint16_t)0;
            } else {
                ((float *)packed)[to] = n < form->n ? ((const float *)values)[from] : 0.0f;
            }
        }
    }
}

enum kernels_status reference_weight_packed_bytes(const struct weight_form *form, size_t *bytes,
                                                  char *err, size_t err_bytes) {
    enum kernels_status status = reference_weight_check_form(form, err, err_bytes);
    if (status == KERNELS_OK) {
        *bytes = reference_weight_layout_of(form, reference_weight_values_bytes(form)).bytes;
    }
    return status;
}

enum kernels_status reference_weight_pack(const struct weight_form *form,
                                          const struct weight_source *source, void *packed,
                                          char *err, size_t err_bytes) {
    enum kernels_status status = reference_weight_check_form(form, err, err_bytes);
    if (status == KERNELS_OK) {
        status = reference_weight_check_source(form, source, err, err_bytes);
    }
    if (status != KERNELS_OK) {
        return status;
    }
    size_t values_bytes = reference_weight_values_bytes(form);
    struct reference_weight_layout layout = reference_weight_layout_of(form, values_bytes);
    memset((char *)packed + values_bytes, 0, layout.scale - values_bytes);
    if (form->type == ELEMENT_I8) {
        memcpy(packed, source->values, values_bytes);
    } else {
        reference_pack_panels(form, source->values, packed);
    }
    reference_weight_pack_sections(form, source, &layout, packed);
    return KERNELS_OK;
}

enum kernels_status reference_weight_prepare(struct device *device, struct weight *weight,
                                             const uint32_t *row_buckets, uint32_t bucket_count,
                                             char *err, size_t err_bytes) {
    (void)device, (void)row_buckets, (void)bucket_count;
    if (weight->packed == NULL) {
        snprintf(err, err_bytes, "weight [%u, %u] is not on the device", weight->form.n,
                 weight->form.k);
        return KERNELS_INVALID;
    }
    weight->plan = NULL; /* every row count runs the same code */
    return KERNELS_OK;
}

void reference_weight_release(struct device *device, struct weight *weight) {
    (void)device;
    weight->plan = NULL;
}
