#include "engine/forward_pass.h"

#include "kernels/ops.h"

static uint32_t forward_pass_next_power(uint32_t value, uint32_t max) {
    uint32_t power = 1;
    while (power < value) {
        power *= 2;
    }
    return power < max ? power : max;
}

static uint32_t forward_pass_context_end(const struct forward_options *options) {
    return options->limits.slot_pages_max * KV_PAGE_TOKENS;
}

/* Shorter contexts than a block of attention cost what a block costs. */
static uint32_t forward_pass_context(const struct forward_options *options, uint32_t context) {
    context = context > ATTENTION_BLOCK_TOKENS ? context : ATTENTION_BLOCK_TOKENS;
    return forward_pass_next_power(context, forward_pass_context_end(options));
}

struct forward_pass forward_pass_make(const struct forward_options *options,
                                      const struct batch *batch) {
    struct forward_pass pass = {.rows = batch->row_count,
                                .segments = batch->segment_count,
                                .sampled = batch->sampled_count,
                                .context_max = batch->context_max};
    if (options->row_bucket_count == 0) {
        return pass;
    }
    for (uint32_t i = options->row_bucket_count; i-- > 0;) {
        if (options->row_buckets[i] >= batch->row_count) {
            pass.rows = options->row_buckets[i];
        }
    }
    pass.segments = options->limits.slots_max + 1;
    pass.sampled =
        pass.sampled == 0 ? 0 : forward_pass_next_power(pass.sampled, options->limits.sampled_max);
    pass.context_max = forward_pass_context(options, pass.context_max);
    return pass;
}

void forward_pass_pad(const struct forward_pass *pass, const struct batch *batch,
                      const struct forward_inputs *in) {
    for (uint32_t i = batch->row_count; i < pass->rows; i++) {
        in->token[i] = 0;
        in->position[i] = 0;
        in->slot[i] = (int32_t)batch->limits.slots_max;
    }
    for (uint32_t i = batch->segment_count; i < pass->segments; i++) {
        in->segment_begin[i + 1] = (int32_t)batch->row_count;
    }
    for (uint32_t i = batch->sampled_count; i < pass->sampled; i++) {
        in->sampled_row[i] = 0;
        in->temperature[i] = 0.0f;
        in->repetition[i] = 1.0f;
        in->presence[i] = 0.0f;
        in->frequency[i] = 0.0f;
        in->seen_begin[i + 1] = in->seen_begin[batch->sampled_count];
    }
}

/* Contexts go round within rows. */
bool forward_pass_decode(const struct forward_options *options, uint32_t index,
                         struct forward_pass *out) {
    uint32_t sampled_max = options->limits.sampled_max;
    uint32_t context_end = forward_pass_context_end(options);
    for (uint32_t i = 0; i < options->row_bucket_count; i++) {
        uint32_t rows = options->row_buckets[i];
        if (i > 0 && options->row_buckets[i - 1] >= sampled_max) {
            return false;
        }
        for (uint32_t context = forward_pass_context(options, 1);; context *= 2) {
            context = context < context_end ? context : context_end;
            if (index-- == 0) {
                *out = (struct forward_pass){.rows = rows,
                                             .segments = options->limits.slots_max + 1,
                                             .sampled = rows < sampled_max ? rows : sampled_max,
                                             .context_max = context};
                return true;
            }
            if (context == context_end) {
                break;
            }
        }
    }
    return false;
}
