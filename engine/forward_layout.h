/* A layout: arrays placed one behind another in a region, each aligned as kernels want it.
 *
 * The same calls serve a plan (base NULL: only counts) and the addresses. One thread. */
#ifndef SOLFLEET_ENGINE_FORWARD_LAYOUT_H
#define SOLFLEET_ENGINE_FORWARD_LAYOUT_H

#include <stddef.h>

#include "kernels/ops.h"

struct forward_layout {
    unsigned char *base;
    size_t bytes;
};

static inline void *forward_layout_place(struct forward_layout *layout, size_t count,
                                         size_t item_bytes) {
    size_t at = layout->bytes;
    layout->bytes = at + kernels_aligned(count * item_bytes);
    return layout->base == NULL ? NULL : layout->base + at;
}

#endif
