/* engine/sequence and engine/sampler. */
#include "engine/sequence.h"

#include <stdlib.h>
#include <string.h>

#include "engine/sampler.h"
#include "kernels/ops.h"
#include "tests/support/engine_run.h"
#include "tests/support/test.h"
#include "tests/support/tiny_vocabulary.h"

static struct tiny_vocabulary tiny;
static struct tokenizer *tokenizer;

static int open_tokenizer(void **state) {
    tiny_vocabulary_init(&tiny);
    tokenizer = tiny_vocabulary_open(&tiny);
    return 0;
}

static int close_tokenizer(void **state) {
    tokenizer_close(tokenizer);
    tiny_vocabulary_deinit(&tiny);
    return 0;
}

static int32_t id_of(char byte) {
    return TINY_FIRST_BYTE_ID + (unsigned char)byte;
}

/* A sequence with the prompt "abca". */
static struct sequence *open_sequence(struct job job, uint32_t answer_max) {
    uint32_t ids[] = {(uint32_t)id_of('a'), (uint32_t)id_of('b'), (uint32_t)id_of('c'),
                      (uint32_t)id_of('a')};
    struct token_buffer prompt = {.ids = ids, .count = 4, .capacity = 4};
    struct sequence *sequence = NULL;
    assert_int_equal(sequence_open(9, &job, tokenizer, &prompt, answer_max, &sequence), TEXT_OK);
    assert_string_equal(job.request_id, ""); /* moved */
    return sequence;
}

static struct job make_job(void) {
    return engine_run_job("sequence", "abca", 100);
}

/* Pushes bytes as tokens; all but the last must go on. */
static enum sequence_state push_text(struct sequence *sequence, const char *text,
                                     enum finish_reason *reason) {
    enum sequence_state last = SEQUENCE_GOES_ON;
    for (const char *at = text; *at != '\0'; at++) {
        assert_int_equal(last, SEQUENCE_GOES_ON);
        last = sequence_push(sequence, id_of(*at), reason);
    }
    return last;
}

static struct engine_event finish(struct sequence *sequence, enum finish_reason reason) {
    struct engine_event event;
    sequence_fill_finished(sequence, reason, &event);
    sequence_close(sequence);
    return event;
}

static void needs_pages_for_all_but_the_last_token(void **state) {
    assert_int_equal(sequence_page_need(1, 1), 1);
    assert_int_equal(sequence_page_need(16, 1), 1);
    assert_int_equal(sequence_page_need(16, 2), 2);
    assert_int_equal(sequence_page_need(1, 16), 1);
    assert_int_equal(sequence_page_need(1, 17), 2);
}

static void counts_an_end_token_but_leaves_it_out_of_the_text(void **state) {
    enum finish_reason reason = FINISH_ERROR;
    struct sequence *sequence = open_sequence(make_job(), 100);
    assert_int_equal(push_text(sequence, "hi", &reason), SEQUENCE_GOES_ON);
    assert_int_equal(sequence_push(sequence, TINY_END_ID, &reason), SEQUENCE_IS_FINISHED);
    assert_int_equal(reason, FINISH_STOP);
    struct engine_event event = finish(sequence, reason);
    int32_t ids[] = {id_of('h'), id_of('i'), TINY_END_ID};
    char sha256[SHA256_HEX_BYTES];
    assert_true(result_answer_sha256(ids, 3, "hi", FINISH_STOP, sha256));
    assert_string_equal(event.text, "hi");
    assert_int_equal(event.usage.completion_tokens, 3);
    assert_string_equal(event.answer_sha256, sha256);
    engine_event_deinit(&event);
}

static void stops_before_a_stop_string(void **state) {
    enum finish_reason reason = FINISH_ERROR;
    struct job job = make_job();
    job.params.stop[0] = strdup("END");
    job.params.stop_count = 1;
    struct sequence *sequence = open_sequence(job, 100);
    assert_int_equal(push_text(sequence, "theEND", &reason), SEQUENCE_IS_FINISHED);
    assert_int_equal(reason, FINISH_STOP);
    struct engine_event event = finish(sequence, reason);
    assert_string_equal(event.text, "the");
    engine_event_deinit(&event);
}

static void begins_its_text_as_the_builtin_prompt_did(void **state) {
    static const struct prompt_text prompt = {.version = "en-9", .opening = "## A\n"};
    enum finish_reason reason = FINISH_ERROR;
    struct sequence *sequence = open_sequence(make_job(), 100);
    sequence_set_prompt(sequence, &prompt);
    assert_int_equal(push_text(sequence, "hi", &reason), SEQUENCE_GOES_ON);
    struct engine_event event = finish(sequence, FINISH_STOP);
    int32_t ids[] = {id_of('h'), id_of('i')};
    char sha256[SHA256_HEX_BYTES];
    assert_string_equal(event.text, "## A\nhi");
    assert_string_equal(event.prompt_version, "en-9");
    assert_int_equal(event.usage.completion_tokens, 2);
    assert_true(result_answer_sha256(ids, 2, "## A\nhi", FINISH_STOP, sha256));
    assert_string_equal(event.answer_sha256, sha256);
    engine_event_deinit(&event);
}

static void refuses_a_stop_string_that_cannot_be_looked_for(void **state) {
    uint32_t id = 5;
    struct token_buffer prompt = {.ids = &id, .count = 1, .capacity = 1};
    struct sequence *sequence = NULL;
    struct job job = make_job();
    job.params.stop[0] = strdup("\xFF");
    job.params.stop_count = 1;
    assert_int_equal(sequence_open(9, &job, tokenizer, &prompt, 1, &sequence), TEXT_BAD);
    assert_null(sequence);
    assert_string_equal(job.prompt, "abca"); /* still the caller's */
    job_deinit(&job);
}

static void ends_with_its_last_token_by_length(void **state) {
    enum finish_reason reason = FINISH_ERROR;
    struct sequence *sequence = open_sequence(make_job(), 3);
    assert_int_equal(push_text(sequence, "abc", &reason), SEQUENCE_IS_FINISHED);
    assert_int_equal(reason, FINISH_LENGTH);
    struct engine_event event = finish(sequence, reason);
    assert_true(event.truncated);
    engine_event_deinit(&event);
}

static void grows_its_text_as_far_as_the_answer_goes(void **state) {
    enum { TOKENS = 5000 };
    enum finish_reason reason = FINISH_ERROR;
    enum sequence_state last = SEQUENCE_GOES_ON;
    struct sequence *sequence = open_sequence(make_job(), TOKENS);
    for (int i = 0; i < TOKENS; i++) {
        assert_int_equal(last, SEQUENCE_GOES_ON);
        last = sequence_push(sequence, id_of((char)('a' + i % 26)), &reason);
    }
    struct engine_event event = finish(sequence, reason);
    assert_int_equal(strlen(event.text), TOKENS);
    assert_memory_equal(event.text, "abcdefghijklmnopqrstuvwxyzab", 28);
    engine_event_deinit(&event);
}

static void writes_a_zero_byte_as_a_space(void **state) {
    enum finish_reason reason;
    struct sequence *sequence = open_sequence(make_job(), 100);
    assert_int_equal(push_text(sequence, "a", &reason), SEQUENCE_GOES_ON);
    assert_int_equal(sequence_push(sequence, TINY_FIRST_BYTE_ID, &reason), SEQUENCE_GOES_ON);
    assert_int_equal(push_text(sequence, "b", &reason), SEQUENCE_GOES_ON);
    struct engine_event event = finish(sequence, FINISH_CANCELLED);
    assert_string_equal(event.text, "a b");
    assert_false(event.truncated);
    engine_event_deinit(&event);
}

static void holds_an_unfinished_code_point_back_from_progress(void **state) {
    enum finish_reason reason;
    struct engine_event event;
    struct job job = make_job();
    job.progress = JOB_PROGRESS_TEXT;
    struct sequence *sequence = open_sequence(job, 100);
    assert_int_equal(push_text(sequence, "x\xE6\x80", &reason), SEQUENCE_GOES_ON);
    assert_true(sequence_fill_progress(sequence, &event));
    assert_string_equal(event.text, "x");
    engine_event_deinit(&event);
    event = finish(sequence, FINISH_CANCELLED);
    assert_string_equal(event.text, "x\xEF\xBF\xBD");
    engine_event_deinit(&event);
}

/* ---------------------------------------------------------------- sampling arrays */

static struct batch open_batch(void) {
    struct batch_limits limits = {.rows_max = 4,
                                  .slots_max = 2,
                                  .sampled_max = 2,
                                  .slot_pages_max = 4,
                                  .vocabulary = 300,
                                  .seen_max = 40};
    struct batch batch;
    const int32_t tokens[] = {1, 2};
    assert_true(batch_init(&batch, &limits));
    batch_clear(&batch);
    batch_add_segment(&batch, 0, 0, tokens, 2);
    return batch;
}

static void samples_with_the_jobs_parameters_at_the_next_position(void **state) {
    enum finish_reason reason;
    struct batch batch = open_batch();
    struct job job = make_job();
    job.params.temperature = 0.5f;
    job.params.top_k = 40;
    job.params.top_p = 0.5f;
    job.params.min_p = 0.25f;
    job.params.seed = 77;
    struct sequence *sequence = open_sequence(job, 100);
    assert_int_equal(push_text(sequence, "zz", &reason), SEQUENCE_GOES_ON);
    assert_int_equal(sampler_add(&batch, sequence, 1, 0), 0);
    assert_int_equal(batch.sampled_row[0], 1);
    assert_true(batch.temperature[0] == 0.5f);
    assert_int_equal(batch.top_k[0], 40);
    assert_int_equal(batch.top_p_q16[0], 32768);
    assert_int_equal(batch.min_p_q16[0], 16384);
    assert_int_equal(batch.seed[0], 77);
    assert_int_equal(batch.draw_position[0], 4 + 2);
    assert_int_equal(batch.seen_begin[1], 0); /* no penalty asks for it */
    sequence_close(sequence);
    batch_deinit(&batch);
}

static void tells_top_p_near_one_from_off(void **state) {
    static const struct {
        float top_p;
        uint32_t q16;
    } cases[] = {{1.0f, 65536}, {0.999999f, 65535}, {0.95f, 62259}, {0.000001f, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct batch batch = open_batch();
        struct job job = make_job();
        job.params.top_p = cases[i].top_p;
        struct sequence *sequence = open_sequence(job, 100);
        sampler_add(&batch, sequence, 0, 0);
        assert_int_equal(batch.top_p_q16[0], cases[i].q16);
        sequence_close(sequence);
        batch_deinit(&batch);
    }
}

static void assert_seen(const struct batch *batch, const int32_t *pairs, int32_t count) {
    assert_int_equal(batch->seen_begin[1], count);
    for (int32_t i = 0; i < count; i++) {
        assert_int_equal(batch->seen_id[i], pairs[2 * i]);
        assert_int_equal(batch->seen_count[i], pairs[2 * i + 1]);
    }
}

static void lists_prompt_and_answer_for_the_repetition_penalty(void **state) {
    enum finish_reason reason;
    struct batch batch = open_batch();
    struct job job = make_job();
    job.params.repetition_penalty = 1.5f;
    struct sequence *sequence = open_sequence(job, 100);
    assert_int_equal(push_text(sequence, "zbz", &reason), SEQUENCE_GOES_ON);
    sampler_add(&batch, sequence, 0, 0);
    const int32_t expected[] = {id_of('a'), 0, id_of('b'), 1, id_of('c'), 0, id_of('z'), 2};
    assert_seen(&batch, expected, 4);
    sequence_close(sequence);
    batch_deinit(&batch);
}

static void lists_the_answer_alone_for_the_other_penalties(void **state) {
    enum finish_reason reason;
    struct batch batch = open_batch();
    struct job job = make_job();
    job.params.frequency_penalty = 0.5f;
    struct sequence *sequence = open_sequence(job, 100);
    assert_int_equal(push_text(sequence, "zbz", &reason), SEQUENCE_GOES_ON);
    sampler_add(&batch, sequence, 0, 0);
    const int32_t expected[] = {id_of('b'), 1, id_of('z'), 2};
    assert_seen(&batch, expected, 2);
    sequence_close(sequence);
    batch_deinit(&batch);
}

TEST_MAIN_WITH(open_tokenizer, close_tokenizer,
               cmocka_unit_test(needs_pages_for_all_but_the_last_token),
               cmocka_unit_test(counts_an_end_token_but_leaves_it_out_of_the_text),
               cmocka_unit_test(stops_before_a_stop_string),
               cmocka_unit_test(begins_its_text_as_the_builtin_prompt_did),
               cmocka_unit_test(refuses_a_stop_string_that_cannot_be_looked_for),
               cmocka_unit_test(ends_with_its_last_token_by_length),
               cmocka_unit_test(grows_its_text_as_far_as_the_answer_goes),
               cmocka_unit_test(writes_a_zero_byte_as_a_space),
               cmocka_unit_test(holds_an_unfinished_code_point_back_from_progress),
               cmocka_unit_test(samples_with_the_jobs_parameters_at_the_next_position),
               cmocka_unit_test(tells_top_p_near_one_from_off),
               cmocka_unit_test(lists_prompt_and_answer_for_the_repetition_penalty),
               cmocka_unit_test(lists_the_answer_alone_for_the_other_penalties))
