/* The inputs of a pass: the arrays of a batch that the device reads, one behind another, in the
 * same places on the device and in every pinned copy.
 *
 * Plain addresses, owned by whoever reserved the region. One thread. Refuses to know devices. */
#ifndef SOLFLEET_ENGINE_FORWARD_INPUTS_H
#define SOLFLEET_ENGINE_FORWARD_INPUTS_H

#include "engine/forward.h"
#include "engine/forward_layout.h"

struct forward_pass;

/* Meanings in engine/batch.h. X(type, name, count, used): of `count` elements a pass reads the
 * first `used`. These have a size that is known; of the two penalty lists only what is used is
 * ever copied. */
#define FORWARD_INPUTS(X)                                                                \
    X(int32_t, token, limits->rows_max, pass->rows)                                      \
    X(int32_t, position, limits->rows_max, pass->rows)                                   \
    X(int32_t, slot, limits->rows_max, pass->rows)                                       \
    X(int32_t, segment_begin, (size_t)limits->slots_max + 2, (size_t)pass->segments + 1) \
    X(int32_t, page_table, ((size_t)limits->slots_max + 1) * limits->slot_pages_max,     \
      ((size_t)limits->slots_max + 1) * limits->slot_pages_max)                          \
    X(int32_t, sampled_row, limits->sampled_max, pass->sampled)                          \
    X(float, temperature, limits->sampled_max, pass->sampled)                            \
    X(uint32_t, top_k, limits->sampled_max, pass->sampled)                               \
    X(uint32_t, top_p_q16, limits->sampled_max, pass->sampled)                           \
    X(uint32_t, min_p_q16, limits->sampled_max, pass->sampled)                           \
    X(float, repetition, limits->sampled_max, pass->sampled)                             \
    X(float, presence, limits->sampled_max, pass->sampled)                               \
    X(float, frequency, limits->sampled_max, pass->sampled)                              \
    X(uint64_t, seed, limits->sampled_max, pass->sampled)                                \
    X(uint64_t, draw_position, limits->sampled_max, pass->sampled)                       \
    X(int32_t, seen_begin, (size_t)limits->sampled_max + 1, (size_t)pass->sampled + 1)
#define FORWARD_INPUTS_LISTS(X)                      \
    X(int32_t, seen_id, limits->seen_max, seen_used) \
    X(int32_t, seen_count, limits->seen_max, seen_used)

struct forward_inputs {
#define FORWARD_INPUTS_MEMBER(type, name, count, used) type *name;
    FORWARD_INPUTS(FORWARD_INPUTS_MEMBER)
    FORWARD_INPUTS_LISTS(FORWARD_INPUTS_MEMBER)
#undef FORWARD_INPUTS_MEMBER
};

#define FORWARD_INPUTS_COUNT_ONE(type, name, count, used) +1
enum {
    FORWARD_INPUTS_FIXED = 0 FORWARD_INPUTS(FORWARD_INPUTS_COUNT_ONE),
    FORWARD_INPUTS_PARTS = FORWARD_INPUTS_FIXED FORWARD_INPUTS_LISTS(FORWARD_INPUTS_COUNT_ONE)
};
#undef FORWARD_INPUTS_COUNT_ONE

/* What a pass reads of one array, as a place in the region. */
struct forward_inputs_part {
    size_t begin, bytes;
};

/* Places the arrays at the layout's end; the bytes of those of known size, which come first. */
size_t forward_inputs_place(struct forward_layout *layout, const struct batch_limits *limits,
                            struct forward_inputs *in);

/* Writes what a pass over the batch reads, padding included, to host memory. */
void forward_inputs_stage(const struct forward_inputs *in, const struct batch *batch,
                          const struct forward_pass *pass);

/* In ascending order. `in` begins the region. */
void forward_inputs_list(const struct forward_inputs *in, const struct batch *batch,
                         const struct forward_pass *pass,
                         struct forward_inputs_part parts[FORWARD_INPUTS_PARTS]);

#endif
