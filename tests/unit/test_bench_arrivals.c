#include "consumer/bench_arrivals.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

enum { JOBS = 20000 };

static struct bench_arrival *make(const struct bench_arrivals_options *options) {
    struct bench_arrival *arrivals = calloc(JOBS, sizeof *arrivals);
    bench_arrivals_make(options, arrivals, JOBS);
    return arrivals;
}

static void without_a_rate_all_jobs_are_due_at_once(void **state) {
    struct bench_arrival *arrivals = make(
        &(struct bench_arrivals_options){.prompt_tokens = {64, 64}, .max_tokens = 7, .seed = 1});
    for (int i = 0; i < JOBS; i++) {
        assert_int_equal(arrivals[i].offset_ns, 0);
        assert_int_equal(arrivals[i].prompt_tokens, 64);
        assert_int_equal(arrivals[i].max_tokens, 7);
    }
    free(arrivals);
}

static void an_interval_gives_equal_gaps_without_drift(void **state) {
    struct bench_arrival *arrivals = make(&(struct bench_arrivals_options){
        .interval_ms = 0.3, .prompt_tokens = {1, 1}, .max_tokens = 1});
    for (int i = 0; i < JOBS; i++) {
        assert_in_range(arrivals[i].offset_ns + 1, 300000ll * i, 300000ll * i + 2);
    }
    free(arrivals);
}

/* Exponential gaps: their mean and their deviation are both 1 / rate. */
static void a_rate_gives_a_poisson_process_of_that_mean(void **state) {
    struct bench_arrival *arrivals = make(&(struct bench_arrivals_options){
        .rate_per_s = 200, .prompt_tokens = {1, 1}, .max_tokens = 1, .seed = test_seed()});
    double sum = 0, squares = 0;
    int64_t before = 0;
    for (int i = 0; i < JOBS; i++) {
        double gap_ms = (double)(arrivals[i].offset_ns - before) / 1e6;
        assert_true(gap_ms >= 0);
        before = arrivals[i].offset_ns;
        sum += gap_ms;
        squares += gap_ms * gap_ms;
    }
    double mean = sum / JOBS, deviation = sqrt(squares / JOBS - mean * mean);
    assert_true(fabs(mean - 5) < 0.3); /* eight deviations of the mean of so many */
    assert_true(fabs(deviation - 5) < 0.5);
    free(arrivals);
}

static void lengths_lie_evenly_over_their_logarithm_within_both_ends(void **state) {
    struct bench_arrival *arrivals = make(&(struct bench_arrivals_options){
        .prompt_tokens = {32, 2048}, .max_tokens = 1, .seed = test_seed()});
    int below[3] = {0};
    for (int i = 0; i < JOBS; i++) {
        uint32_t tokens = arrivals[i].prompt_tokens;
        assert_in_range(tokens, 32, 2048);
        below[0] += tokens < 128;
        below[1] += tokens < 512;
        below[2] += tokens <= 40;
    }
    assert_in_range(below[0], JOBS * 30 / 100, JOBS * 37 / 100);
    assert_in_range(below[1], JOBS * 63 / 100, JOBS * 70 / 100);
    assert_true(below[2] > 0);
    free(arrivals);
}

static void another_rate_sends_the_same_jobs(void **state) {
    struct bench_arrivals_options options = {
        .rate_per_s = 10, .prompt_tokens = {1, 1000}, .max_tokens = 1, .seed = 5};
    struct bench_arrival *slow = make(&options);
    options.rate_per_s = 1000;
    struct bench_arrival *fast = make(&options);
    options.seed = 6;
    struct bench_arrival *other = make(&options);
    int differing = 0;
    for (int i = 0; i < JOBS; i++) {
        assert_int_equal(slow[i].prompt_tokens, fast[i].prompt_tokens);
        differing += fast[i].prompt_tokens != other[i].prompt_tokens;
    }
    assert_true(differing > JOBS / 2);
    free(slow);
    free(fast);
    free(other);
}

static void reads_a_length_and_a_range_of_lengths(void **state) {
    struct bench_arrivals_range range;
    assert_true(bench_arrivals_parse_range("128", 2048, &range));
    assert_true(range.min == 128 && range.max == 128);
    assert_true(bench_arrivals_parse_range("32..2048", 2048, &range));
    assert_true(range.min == 32 && range.max == 2048);
    assert_true(bench_arrivals_parse_range("7..7", 7, &range));
}

static void refuses_what_is_no_range(void **state) {
    const char *const wrong[] = {"",
                                 "0",
                                 "0..4",
                                 "9..8",
                                 "1..2049",
                                 "2049",
                                 "-1",
                                 "1..",
                                 "..1",
                                 "1.5",
                                 "1...2",
                                 "1..2 ",
                                 " 1",
                                 "1-2",
                                 "0x10",
                                 "1..2..3",
                                 "99999999999999999999"};
    struct bench_arrivals_range range;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (bench_arrivals_parse_range(wrong[i], 2048, &range)) {
            fail_msg("'%s' was taken for a range", wrong[i]);
        }
    }
}

static void reads_a_trace_with_comments_blanks_and_commas(void **state) {
    struct bench_arrival *jobs = NULL;
    size_t count = 0;
    char err[128] = "";
    bool read = bench_arrivals_parse_trace("# offset prompt max\n"
                                           "0 32 16\n"
                                           "\n"
                                           "  1.5,\t64 , 128 # later\r\n"
                                           "1.5 1 2048",
                                           &jobs, &count, err, sizeof err);
    assert_string_equal(err, "");
    assert_true(read);
    assert_int_equal(count, 3);
    assert_int_equal(jobs[1].offset_ns, 1500000);
    assert_int_equal(jobs[1].prompt_tokens, 64);
    assert_int_equal(jobs[1].max_tokens, 128);
    assert_int_equal(jobs[2].offset_ns, 1500000);
    assert_int_equal(jobs[2].max_tokens, 2048);
    free(jobs);
}

static void names_the_line_of_a_trace_that_is_wrong(void **state) {
    static const struct {
        const char *trace, *message;
    } cases[] = {
        {"", "line 1: there is no job in it"},
        {"# nothing\n", "line 2: there is no job in it"},
        {"0 1 1\nx 1 1", "line 2: the offset in milliseconds is no number, or beyond 1e9"},
        {"-1 1 1", "line 1: the offset in milliseconds is no number, or beyond 1e9"},
        {"1e3 1 1", "line 1: the offset in milliseconds is no number, or beyond 1e9"},
        {"1.2.3 1 1", "line 1: the offset in milliseconds is no number, or beyond 1e9"},
        {"2000000000 1 1", "line 1: the offset in milliseconds is no number, or beyond 1e9"},
        {"5 1 1\n\n4 1 1", "line 3: offsets may not fall: sort the trace by time"},
        {"0 0 1", "line 1: prompt tokens must be 1..131072"},
        {"0\n1 1", "line 1: prompt tokens must be 1..131072"},
        {"0 1", "line 1: max tokens must be 1..2048"},
        {"0 1 2049", "line 1: max tokens must be 1..2048"},
        {"0 1 1 1", "line 1: there is more than three numbers"},
        {"0 1 1x", "line 1: there is more than three numbers"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bench_arrival *jobs = NULL;
        size_t count = 9;
        char err[128] = "";
        assert_false(bench_arrivals_parse_trace(cases[i].trace, &jobs, &count, err, sizeof err));
        assert_string_equal(err, cases[i].message);
        assert_null(jobs);
        assert_int_equal(count, 0);
    }
}

TEST_MAIN(cmocka_unit_test(without_a_rate_all_jobs_are_due_at_once),
          cmocka_unit_test(an_interval_gives_equal_gaps_without_drift),
          cmocka_unit_test(a_rate_gives_a_poisson_process_of_that_mean),
          cmocka_unit_test(lengths_lie_evenly_over_their_logarithm_within_both_ends),
          cmocka_unit_test(another_rate_sends_the_same_jobs),
          cmocka_unit_test(reads_a_length_and_a_range_of_lengths),
          cmocka_unit_test(refuses_what_is_no_range),
          cmocka_unit_test(reads_a_trace_with_comments_blanks_and_commas),
          cmocka_unit_test(names_the_line_of_a_trace_that_is_wrong))
