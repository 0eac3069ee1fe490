/* The layout inside a KV page of the CPU tiers. Private to kernels.
 *
 * A page holds 16 tokens of one layer: for each KV head its keys as [d, 16 tokens], then for each
 * KV head its values as [16 tokens, d]. So the score chains run over d with tokens side by side,
 * and the value chains over tokens with d side by side. */
#ifndef SOLFLEET_KERNELS_REFERENCE_KV_PAGE_H
#define SOLFLEET_KERNELS_REFERENCE_KV_PAGE_H

#include "kernels/canonical.h"
#include "kernels/ops.h"

static inline size_t kv_head_elements(const struct kv_form *form) {
    return (size_t)form->head_dim * KV_PAGE_TOKENS;
}

/* The page with `position` of `slot`. */
static inline void *kv_page(const struct kv_view *kv, uint32_t slot, uint32_t position) {
    size_t entry = (size_t)slot * kv->table_pages + position / KV_PAGE_TOKENS;
    return (char *)kv->base + (size_t)kv->page_table[entry] * kv->stride_bytes;
}

/* Index of key (d, token) and of value (token, d) of a KV head, in elements from the page. */
static inline size_t kv_key_index(const struct kv_form *form, uint32_t head, uint32_t d,
                                  uint32_t token) {
    return head * kv_head_elements(form) + (size_t)d * KV_PAGE_TOKENS + token;
}

static inline size_t kv_value_index(const struct kv_form *form, uint32_t head, uint32_t token,
                                    uint32_t d) {
    return (form->kv_heads + head) * kv_head_elements(form) + (size_t)token * form->head_dim + d;
}

static inline float kv_load(const void *page, enum element_type type, size_t index) {
    return type == ELEMENT_F32 ? ((const float *)page)[index]
                               : canonical_f16_to_f32(((const uint16_t *)page)[index]);
}

static inline void kv_store(void *page, enum element_type type, size_t index, float x) {
    if (type == ELEMENT_F32) {
        ((float *)page)[index] = x;
    } else {
        ((uint16_t *)page)[index] = canonical_f32_to_f16(x);
    }
}

#endif
