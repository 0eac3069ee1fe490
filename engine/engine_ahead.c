#include "engine/engine_ahead.h"

#include <assert.h>
#include <stdlib.h>

#include "engine/sampler.h"

bool engine_ahead_init(struct engine_real *real, const struct forward_options *forward) {
    if (!forward->sends_ahead) {
        return true;
    }
    real->foreseen = calloc(real->options.max_batch_size, sizeof *real->foreseen);
    return real->foreseen != NULL && batch_init(&real->guess, &forward->limits);
}

void engine_ahead_deinit(struct engine_real *real) {
    free(real->foreseen);
    batch_deinit(&real->guess);
}

/* Adds what a sequence will compute. `taken` counts the pages that those before it will take. */
static void engine_ahead_add(struct engine_real *real, const struct pick *pick, uint32_t *taken) {
    static const int32_t unknown = 0; /* the token that is being drawn */
    struct batch *guess = &real->guess;
    const struct sequence *sequence = real->sequences[pick->handle];
    uint32_t known = sequence->prompt_tokens + sequence->answer_tokens;
    bool is_drawn_now = pick->first_position == known;
    if (is_drawn_now && sequence->answer_tokens + 1 >= sequence->answer_max) {
        return; /* that token will be its last */
    }
    uint32_t pages = sequence->hold.page_count;
    if (pick->first_position == pages * KV_PAGE_TOKENS) {
        int32_t page = kv_pages_foresee(&real->cache.pages, (*taken)++);
        batch_set_page(guess, sequence->slot, pages,
                       page != KV_PAGES_NONE ? page : KV_PAGES_SCRATCH);
    }
    uint32_t first_row = batch_add_segment(
        guess, sequence->slot, pick->first_position,
        is_drawn_now ? &unknown : sequence->tokens + pick->first_position, pick->row_count);
    if (pick->is_sampled) {
        sampler_add(guess, sequence, first_row + pick->row_count - 1, is_drawn_now);
    }
}

enum forward_status engine_ahead_send(struct engine_real *real, char *err, size_t err_bytes) {
    if (real->foreseen == NULL) {
        return FORWARD_OK;
    }
    uint32_t count = scheduler_foresee(&real->scheduler, real->foreseen);
    uint32_t taken = 0;
    batch_clear(&real->guess);
    batch_copy_pages(&real->guess, &real->batch);
    for (uint32_t i = 0; i < count; i++) {
        engine_ahead_add(real, &real->foreseen[i], &taken);
    }
    return real->guess.row_count == 0
               ? FORWARD_OK
               : forward_send_ahead(real->forward, &real->guess, err, err_bytes);
}
