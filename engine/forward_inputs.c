#include "engine/forward_inputs.h"

#include <string.h>

#include "engine/forward_pass.h"

size_t forward_inputs_place(struct forward_layout *layout, const struct batch_limits *limits,
                            struct forward_inputs *in) {
    size_t begin = layout->bytes;
#define FORWARD_INPUTS_PLACE(type, name, count, used) \
    in->name = forward_layout_place(layout, (count), sizeof(type));
    FORWARD_INPUTS(FORWARD_INPUTS_PLACE)
    size_t fixed_bytes = layout->bytes - begin;
    FORWARD_INPUTS_LISTS(FORWARD_INPUTS_PLACE)
#undef FORWARD_INPUTS_PLACE
    return fixed_bytes;
}

static size_t forward_inputs_seen(const struct batch *batch) {
    return (size_t)batch->seen_begin[batch->sampled_count];
}

void forward_inputs_stage(const struct forward_inputs *in, const struct batch *batch,
                          const struct forward_pass *pass) {
    const struct batch_limits *limits = &batch->limits;
    size_t seen_used = forward_inputs_seen(batch);
#define FORWARD_INPUTS_STAGE(type, name, count, used) \
    memcpy(in->name, batch->name, (used) * sizeof(type));
    FORWARD_INPUTS(FORWARD_INPUTS_STAGE)
    FORWARD_INPUTS_LISTS(FORWARD_INPUTS_STAGE)
#undef FORWARD_INPUTS_STAGE
    forward_pass_pad(pass, batch, in);
}

static size_t forward_inputs_offset(const struct forward_inputs *in, const void *array) {
    return (size_t)((const unsigned char *)array - (const unsigned char *)in->token);
}

void forward_inputs_list(const struct forward_inputs *in, const struct batch *batch,
                         const struct forward_pass *pass,
                         struct forward_inputs_part parts[FORWARD_INPUTS_PARTS]) {
    const struct batch_limits *limits = &batch->limits;
    size_t seen_used = forward_inputs_seen(batch);
#define FORWARD_INPUTS_PART(type, name, count, used) \
    {forward_inputs_offset(in, in->name), (used) * sizeof(type)},
    const struct forward_inputs_part all[FORWARD_INPUTS_PARTS] = {
        FORWARD_INPUTS(FORWARD_INPUTS_PART) FORWARD_INPUTS_LISTS(FORWARD_INPUTS_PART)};
#undef FORWARD_INPUTS_PART
    memcpy(parts, all, sizeof all);
}
