#include "consumer/bench_engine.h"

#include <stdlib.h>
#include <string.h>

#include "consumer/bench_machine.h"
#include "consumer/command.h"
#include "tests/support/test.h"
#include "tests/support/tiny_llama.h"

static char *model_path;
static char err[512];

static int set_up(void **state) {
    model_path = tiny_llama_write(NULL);
    return 0;
}

static int tear_down(void **state) {
    free(model_path);
    return 0;
}

static struct bench_engine_options options_of(uint32_t batch) {
    return (struct bench_engine_options){.model_path = model_path,
                                         .device = "cpu",
                                         .cpu_tier = "reference",
                                         .policy = MODEL_POLICY_INT8,
                                         .threads = 1,
                                         .batch = batch,
                                         .prompt_tokens = 21,
                                         .completion_tokens = 5,
                                         .prefill_chunk_tokens = 16,
                                         .repetitions = 3};
}

static void measures_every_figure_of_a_batch(void **state) {
    struct bench_engine_options options = options_of(3);
    struct bench_engine_report report = {0};
    assert_int_equal(bench_engine_measure(&options, &report, err, sizeof err), COMMAND_EXIT_OK);
    assert_true(report.prefill_tokens_per_s > 0);
    assert_true(report.decode_tokens_per_s_min > 0);
    assert_true(report.decode_tokens_per_s >= report.decode_tokens_per_s_min);
    assert_true(report.decode_tokens_per_s <= report.decode_tokens_per_s_max);
    assert_true(report.first_token_ms_p50 > 0 && report.step_ms_p50 > 0);
    assert_true(report.peak_bytes > 1 << 20);
    assert_true(report.foreign_share >= 0 && report.foreign_share <= 1);
    assert_string_equal(report.device.tier, "reference");
    assert_int_equal(report.device.threads, 1);
}

/* Three prompts of 21 rows in chunks of 21: a first token after each of three steps. */
static void first_tokens_of_chunked_prompts_come_before_the_prefill_ends(void **state) {
    struct bench_engine_options options = options_of(3);
    struct bench_engine_report report = {0};
    options.prefill_chunk_tokens = 21;
    options.repetitions = 9;
    assert_int_equal(bench_engine_measure(&options, &report, err, sizeof err), COMMAND_EXIT_OK);
    double prefill_ms = 63 * 1e3 / report.prefill_tokens_per_s;
    assert_true(report.first_token_ms_p50 < prefill_ms);
    options.prefill_chunk_tokens = 63;
    assert_int_equal(bench_engine_measure(&options, &report, err, sizeof err), COMMAND_EXIT_OK);
    assert_true(report.first_token_ms_p50 > 0);
}

static void one_sequence_and_one_token_can_be_measured(void **state) {
    struct bench_engine_options options = options_of(1);
    struct bench_engine_report report = {0};
    options.prompt_tokens = 1;
    options.completion_tokens = 1;
    options.repetitions = 1;
    assert_int_equal(bench_engine_measure(&options, &report, err, sizeof err), COMMAND_EXIT_OK);
    assert_true(report.decode_tokens_per_s > 0);
}

static double shares_of(const struct step_profile *profile) {
    double sum = 0;
    for (size_t i = 0; i < profile->line_count; i++) {
        sum += profile->lines[i].share;
    }
    return sum;
}

static const struct step_profile_line *line_of(const struct step_profile *profile,
                                               const char *name) {
    for (size_t i = 0; i < profile->line_count; i++) {
        if (strcmp(profile->lines[i].name, name) == 0) {
            return &profile->lines[i];
        }
    }
    fail_msg("no line '%s'", name);
    return NULL;
}

/* 63 rows in chunks of 16: four steps; five tokens of an answer: five. */
static void a_profile_shares_a_steps_time_among_its_operations(void **state) {
    struct bench_engine_options options = options_of(3);
    struct bench_engine_report report = {0};
    options.profile = true;
    assert_int_equal(bench_engine_measure(&options, &report, err, sizeof err), COMMAND_EXIT_OK);
    assert_int_equal(report.prefill_profile.steps, 4);
    assert_int_equal(report.decode_profile.steps, 5);
    const struct step_profile *decode = &report.decode_profile;
    double sum = shares_of(decode);
    assert_true(sum > 0.999 && sum < 1.001);
    assert_true(decode->wall_ms_per_step > 0 && decode->weight_mb_per_step > 0);
    assert_true(line_of(decode, "attention")->share > 0);
    assert_true(line_of(decode, "the rest")->share >= 0);
    assert_true(line_of(decode, "embed")->calls_per_step == 1);
    for (size_t i = 2; i < decode->line_count; i++) {
        assert_true(decode->lines[i - 2].ms_per_step >= decode->lines[i - 1].ms_per_step);
    }
}

static void says_why_a_model_cannot_be_measured(void **state) {
    struct bench_engine_options options = options_of(1);
    struct bench_engine_report report = {0};
    options.model_path = "no/such/file.gguf";
    assert_int_equal(bench_engine_measure(&options, &report, err, sizeof err),
                     COMMAND_EXIT_BAD_MODEL);
    assert_non_null(strstr(err, "no/such/file.gguf"));
    options = options_of(1);
    options.prompt_tokens = 100000; /* beyond the model's context */
    assert_int_equal(bench_engine_measure(&options, &report, err, sizeof err), COMMAND_EXIT_USAGE);
    options = options_of(1);
    options.cpu_tier = "no such tier";
    assert_int_not_equal(bench_engine_measure(&options, &report, err, sizeof err), COMMAND_EXIT_OK);
}

static void peak_memory_does_not_fall(void **state) {
    size_t before = bench_machine_peak_bytes();
    size_t bytes = before + (16u << 20);
    char *memory = malloc(bytes);
    memset(memory, 1, bytes);
    assert_in_range(memory[bytes / 2], 1, 1);
    free(memory);
    assert_true(bench_machine_peak_bytes() >= before + (16u << 20));
}

TEST_MAIN_WITH(set_up, tear_down, cmocka_unit_test(measures_every_figure_of_a_batch),
               cmocka_unit_test(first_tokens_of_chunked_prompts_come_before_the_prefill_ends),
               cmocka_unit_test(one_sequence_and_one_token_can_be_measured),
               cmocka_unit_test(a_profile_shares_a_steps_time_among_its_operations),
               cmocka_unit_test(says_why_a_model_cannot_be_measured),
               cmocka_unit_test(peak_memory_does_not_fall))
