/* engine/forward_pass: the counts that kernels are told, and which of them are those of decode
 * steps. */
#include "engine/forward_pass.h"

#include <string.h>

#include "kernels/ops.h"
#include "tests/support/test.h"

enum { ROWS_MAX = 96, SAMPLED_MAX = 24, SLOTS = 24, SLOT_PAGES = 100 };

static const uint32_t buckets[] = {1, 2, 4, 8, 16, 32, 64, ROWS_MAX};

static struct forward_options options_with(uint32_t bucket_count) {
    return (struct forward_options){.limits = {.rows_max = ROWS_MAX,
                                               .slots_max = SLOTS,
                                               .sampled_max = SAMPLED_MAX,
                                               .slot_pages_max = SLOT_PAGES},
                                    .row_buckets = bucket_count > 0 ? buckets : NULL,
                                    .row_bucket_count = bucket_count};
}

static struct batch batch_of(uint32_t rows, uint32_t sampled, uint32_t context) {
    return (struct batch){.row_count = rows,
                          .segment_count = sampled < SLOTS ? sampled : SLOTS,
                          .sampled_count = sampled,
                          .context_max = context};
}

static bool is_same(const struct forward_pass *a, const struct forward_pass *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

static void tells_counts_as_they_are_without_buckets(void **state) {
    const struct forward_options options = options_with(0);
    const struct batch batch = batch_of(21, 3, 77);
    const struct forward_pass pass = forward_pass_make(&options, &batch);
    const struct forward_pass wanted = {.rows = 21, .segments = 3, .sampled = 3, .context_max = 77};
    assert_true(is_same(&pass, &wanted));
    struct forward_pass none;
    assert_false(forward_pass_decode(&options, 0, &none));
}

static void rounds_every_count_up_to_its_bucket(void **state) {
    const struct {
        uint32_t rows, sampled, context;
        struct forward_pass wanted;
    } cases[] = {
        {1, 1, 1, {1, SLOTS + 1, 1, ATTENTION_BLOCK_TOKENS}},
        {3, 3, ATTENTION_BLOCK_TOKENS, {4, SLOTS + 1, 4, ATTENTION_BLOCK_TOKENS}},
        {33, 0, ATTENTION_BLOCK_TOKENS + 1, {64, SLOTS + 1, 0, 2 * ATTENTION_BLOCK_TOKENS}},
        {65, 17, 1025, {ROWS_MAX, SLOTS + 1, SAMPLED_MAX, SLOT_PAGES * KV_PAGE_TOKENS}},
        {ROWS_MAX, 24, 1600, {ROWS_MAX, SLOTS + 1, SAMPLED_MAX, SLOT_PAGES * KV_PAGE_TOKENS}},
    };
    const struct forward_options options = options_with(8);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct batch batch = batch_of(cases[i].rows, cases[i].sampled, cases[i].context);
        const struct forward_pass pass = forward_pass_make(&options, &batch);
        assert_true(is_same(&pass, &cases[i].wanted));
    }
}

static uint32_t times_listed(const struct forward_options *options,
                             const struct forward_pass *wanted) {
    struct forward_pass pass;
    uint32_t times = 0;
    for (uint32_t i = 0; forward_pass_decode(options, i, &pass); i++) {
        times += is_same(&pass, wanted);
    }
    return times;
}

static void lists_the_pass_of_every_decode_step_once(void **state) {
    const struct forward_options options = options_with(8);
    struct forward_pass pass;
    uint32_t count = 0;
    while (forward_pass_decode(&options, count, &pass)) {
        count++;
    }
    assert_int_equal(count, 6 * 4); /* rows 1 .. 32; contexts 256, 512, 1024, 1600 */
    for (uint32_t rows = 1; rows <= SAMPLED_MAX; rows++) {
        for (uint32_t context = 1; context <= SLOT_PAGES * KV_PAGE_TOKENS; context += 37) {
            const struct batch batch = batch_of(rows, rows, context);
            pass = forward_pass_make(&options, &batch);
            assert_int_equal(times_listed(&options, &pass), 1);
        }
    }
}

static void pads_with_rows_of_the_scratch_page(void **state) {
    const struct forward_options options = options_with(8);
    struct batch batch = batch_of(5, 2, 9);
    struct forward_pass pass = forward_pass_make(&options, &batch);
    int32_t token[8], position[8], slot[8], segment_begin[SLOTS + 2] = {0, 3, 5};
    int32_t sampled_row[4], seen_begin[5] = {0, 2, 7};
    float temperature[4], repetition[4], presence[4], frequency[4];
    struct forward_inputs in = {.token = token,
                                .position = position,
                                .slot = slot,
                                .segment_begin = segment_begin,
                                .sampled_row = sampled_row,
                                .temperature = temperature,
                                .repetition = repetition,
                                .presence = presence,
                                .frequency = frequency,
                                .seen_begin = seen_begin};
    batch.limits = options.limits;
    pass.sampled = 4;
    forward_pass_pad(&pass, &batch, &in);
    for (uint32_t t = 5; t < 8; t++) {
        assert_true(token[t] == 0 && position[t] == 0 && slot[t] == SLOTS);
    }
    for (uint32_t s = 3; s <= SLOTS + 1; s++) {
        assert_int_equal(segment_begin[s], 5); /* empty */
    }
    for (uint32_t i = 2; i < 4; i++) {
        assert_true(sampled_row[i] == 0 && temperature[i] == 0 && repetition[i] == 1);
        assert_true(presence[i] == 0 && frequency[i] == 0 && seen_begin[i + 1] == 7);
    }
}

TEST_MAIN(cmocka_unit_test(tells_counts_as_they_are_without_buckets),
          cmocka_unit_test(rounds_every_count_up_to_its_bucket),
          cmocka_unit_test(lists_the_pass_of_every_decode_step_once),
          cmocka_unit_test(pads_with_rows_of_the_scratch_page))
