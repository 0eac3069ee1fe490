#include "engine/bucket.h"

#include <assert.h>

static uint32_t bucket_next_edge(uint32_t edge) {
    return (edge * 6 + 4) / 5; /* rounds up; edges stay far below 2^32 / 6 */
}

uint32_t bucket_index(uint32_t prompt_tokens) {
    uint32_t index = 0;
    uint32_t edge = BUCKET_FIRST_EDGE;
    while (prompt_tokens > edge && index < BUCKET_COUNT_MAX - 1) {
        edge = bucket_next_edge(edge);
        index++;
    }
    return index;
}

uint32_t bucket_edge(uint32_t index) {
    assert(index < BUCKET_COUNT_MAX);
    if (index == BUCKET_COUNT_MAX - 1) {
        return UINT32_MAX;
    }
    uint32_t edge = BUCKET_FIRST_EDGE;
    for (uint32_t i = 0; i < index; i++) {
        edge = bucket_next_edge(edge);
    }
    return edge;
}
