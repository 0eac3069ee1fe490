#include "engine/batch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/kv_pages.h"
#include "kernels/ops.h"

/* Every array with its length in elements, once. */
#define BATCH_ARRAYS(X)                                                     \
    X(token, limits->rows_max)                                              \
    X(position, limits->rows_max)                                           \
    X(slot, limits->rows_max)                                               \
    X(segment_begin, limits->slots_max + 2)                                 \
    X(page_table, ((size_t)limits->slots_max + 1) * limits->slot_pages_max) \
    X(sampled_row, limits->sampled_max)                                     \
    X(temperature, limits->sampled_max)                                     \
    X(top_k, limits->sampled_max)                                           \
    X(top_p_q16, limits->sampled_max)                                       \
    X(min_p_q16, limits->sampled_max)                                       \
    X(repetition, limits->sampled_max)                                      \
    X(presence, limits->sampled_max)                                        \
    X(frequency, limits->sampled_max)                                       \
    X(seed, limits->sampled_max)                                            \
    X(draw_position, limits->sampled_max)                                   \
    X(seen_begin, limits->sampled_max + 1)                                  \
    X(seen_id, limits->seen_max)                                            \
    X(seen_count, limits->seen_max)                                         \
    X(sampled_token, limits->sampled_max)                                   \
    X(sampled_bad, limits->sampled_max)                                     \
    X(row_bad, limits->rows_max)

bool batch_init(struct batch *batch, const struct batch_limits *limits) {
    assert(limits->rows_max > 0 && limits->slots_max > 0 && limits->sampled_max > 0);
    assert(limits->slot_pages_max > 0 && limits->seen_max > 0);
    memset(batch, 0, sizeof *batch);
    batch->limits = *limits;
    bool is_whole = true;
#define BATCH_RESERVE(array, count)                       \
    batch->array = calloc((count), sizeof *batch->array); \
    is_whole = is_whole && batch->array != NULL;
    BATCH_ARRAYS(BATCH_RESERVE)
#undef BATCH_RESERVE
    if (!is_whole) {
        batch_deinit(batch);
    }
    return is_whole;
}

void batch_deinit(struct batch *batch) {
#define BATCH_FREE(array, count) free(batch->array);
    BATCH_ARRAYS(BATCH_FREE)
#undef BATCH_FREE
    memset(batch, 0, sizeof *batch);
}

void batch_clear(struct batch *batch) {
    batch->row_count = 0;
    batch->segment_count = 0;
    batch->segment_begin[0] = 0;
    batch->context_max = 0;
    batch->sampled_count = 0;
    batch->seen_begin[0] = 0;
}

void batch_set_pages(struct batch *batch, uint32_t slot, const int32_t *pages, uint32_t count) {
    assert(slot < batch->limits.slots_max && count <= batch->limits.slot_pages_max);
    int32_t *entries = batch->page_table + (size_t)slot * batch->limits.slot_pages_max;
    for (uint32_t i = 0; i < batch->limits.slot_pages_max; i++) {
        entries[i] = i < count ? pages[i] : KV_PAGES_SCRATCH;
    }
}

void batch_copy_pages(struct batch *batch, const struct batch *from) {
    const struct batch_limits *limits = &batch->limits;
    size_t count = ((size_t)limits->slots_max + 1) * limits->slot_pages_max;
    memcpy(batch->page_table, from->page_table, count * sizeof *batch->page_table);
}

void batch_set_page(struct batch *batch, uint32_t slot, uint32_t index, int32_t page) {
    assert(slot < batch->limits.slots_max && index < batch->limits.slot_pages_max);
    batch->page_table[(size_t)slot * batch->limits.slot_pages_max + index] = page;
}

uint32_t batch_add_segment(struct batch *batch, uint32_t slot, uint32_t first_position,
                           const int32_t *tokens, uint32_t count) {
    const struct batch_limits *limits = &batch->limits;
    uint32_t first_row = batch->row_count;
    uint32_t end = first_position + count;
    assert(count >= 1 && count <= limits->rows_max - first_row);
    assert(slot < limits->slots_max && batch->segment_count < limits->slots_max);
    assert(end <= limits->slot_pages_max * KV_PAGE_TOKENS);
    for (uint32_t i = 0; i < count; i++) {
        batch->token[first_row + i] = tokens[i];
        batch->position[first_row + i] = (int32_t)(first_position + i);
        batch->slot[first_row + i] = (int32_t)slot;
    }
    batch->row_count += count;
    batch->segment_begin[++batch->segment_count] = (int32_t)batch->row_count;
    batch->context_max = end > batch->context_max ? end : batch->context_max;
    return first_row;
}

uint32_t batch_add_sampled(struct batch *batch, uint32_t row) {
    assert(batch->sampled_count < batch->limits.sampled_max && row < batch->row_count);
    uint32_t index = batch->sampled_count++;
    batch->sampled_row[index] = (int32_t)row;
    batch->temperature[index] = 0.0f;
    batch->top_k[index] = 0;
    batch->top_p_q16[index] = 65536;
    batch->min_p_q16[index] = 0;
    batch->repetition[index] = 1.0f;
    batch->presence[index] = 0.0f;
    batch->frequency[index] = 0.0f;
    batch->seed[index] = 0;
    batch->draw_position[index] = 0;
    batch->seen_begin[index + 1] = batch->seen_begin[index];
    return index;
}

void batch_add_seen(struct batch *batch, int32_t id, int32_t count) {
    int32_t *end = &batch->seen_begin[batch->sampled_count];
    assert(batch->sampled_count > 0 && (uint32_t)*end < batch->limits.seen_max);
    assert(*end == end[-1] || batch->seen_id[*end - 1] < id);
    batch->seen_id[*end] = id;
    batch->seen_count[*end] = count;
    (*end)++;
}
