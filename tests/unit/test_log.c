/* engine/log and engine/clock. */
#include "engine/log.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "engine/clock.h"
#include "tests/support/test.h"

/* What one log_write puts out, at a fixed time. */
static const char *written(enum log_level level, const struct log_field *fields) {
    static char text[2 * LOG_LINE_BYTES_MAX];
    struct clock clock;
    struct log log;
    int ends[2];
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    clock_init_virtual(&clock, 0, 1700000000123);
    log_init(&log, ends[1], LOG_LEVEL_INFO, &clock);
    log_write(&log, level, "test.event", fields);
    ssize_t count = read(ends[0], text, sizeof text - 1);
    text[count > 0 ? count : 0] = '\0';
    close(ends[0]);
    close(ends[1]);
    return text;
}

static void writes_time_level_event_and_fields_on_one_line(void **state) {
    const char *line = written(
        LOG_LEVEL_WARN, LOG_FIELDS(log_int("n", -5), log_text("s", "plain"), log_real("r", 0.5)));
    assert_string_equal(line, "2023-11-14T22:13:20.123Z warn test.event n=-5 s=plain r=0.5\n");
}

static void quotes_values_that_would_break_the_line(void **state) {
    const char *line =
        written(LOG_LEVEL_INFO, LOG_FIELDS(log_text("a", "x y"), log_text("b", "l1\nl2\x01\"\\"),
                                           log_text("c", ""), log_text("d", NULL)));
    assert_non_null(strstr(line, " a=\"x y\" b=\"l1\\nl2\\x01\\\"\\\\\" c=\"\" d=-\n"));
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
}

static void leaves_out_levels_below_its_own(void **state) {
    assert_string_equal(written(LOG_LEVEL_DEBUG, NULL), "");
}

static void cuts_a_line_that_is_too_long_but_ends_it(void **state) {
    static char big[2 * LOG_LINE_BYTES_MAX];
    memset(big, 'x', sizeof big - 1);
    const char *line = written(LOG_LEVEL_ERROR, LOG_FIELDS(log_text("big", big)));
    assert_int_equal(strlen(line), LOG_LINE_BYTES_MAX);
    assert_int_equal(line[LOG_LINE_BYTES_MAX - 1], '\n');
}

static void parses_the_names_of_its_levels(void **state) {
    enum log_level level;
    assert_true(log_level_parse("debug", &level));
    assert_int_equal(level, LOG_LEVEL_DEBUG);
    assert_false(log_level_parse("loud", &level));
}

static void moves_a_virtual_clock_only_by_advance(void **state) {
    struct clock clock;
    clock_init_virtual(&clock, 5, 1000);
    assert_int_equal(clock_monotonic_ns(&clock), 5);
    clock_advance(&clock, 3 * CLOCK_NS_PER_MS);
    assert_int_equal(clock_monotonic_ns(&clock), 5 + 3 * CLOCK_NS_PER_MS);
    assert_int_equal(clock_unix_ms(&clock), 1003);
}

static void tells_real_time_for_no_clock_at_all(void **state) {
    struct clock clock;
    clock_init(&clock);
    int64_t first_ns = clock_monotonic_ns(NULL);
    assert_true(clock_monotonic_ns(&clock) >= first_ns);
    assert_true(clock_unix_ms(NULL) > 1700000000000);
}

TEST_MAIN(cmocka_unit_test(writes_time_level_event_and_fields_on_one_line),
          cmocka_unit_test(quotes_values_that_would_break_the_line),
          cmocka_unit_test(leaves_out_levels_below_its_own),
          cmocka_unit_test(cuts_a_line_that_is_too_long_but_ends_it),
          cmocka_unit_test(parses_the_names_of_its_levels),
          cmocka_unit_test(moves_a_virtual_clock_only_by_advance),
          cmocka_unit_test(tells_real_time_for_no_clock_at_all))
