/* How running jobs are shown. */
#include "consumer/progress_view.h"

#include <stdlib.h>
#include <string.h>

#include "consumer/watch.h"
#include "tests/support/test.h"

enum { MANY = 60 };

static struct watch_entry entries[MANY];
static char *shown;
static size_t shown_bytes;

static struct watch_entry entry_of(const char *id, enum status_state state, int64_t tokens) {
    struct watch_entry entry = {.ended = status_state_is_terminal(state)};
    status_init(&entry.status, id);
    entry.status.state = state;
    entry.status.completion_tokens = tokens;
    return entry;
}

static struct progress_view opened(size_t count, bool drawing) {
    struct progress_view view;
    FILE *to = open_memstream(&shown, &shown_bytes);
    progress_view_init(&view, to, entries, count);
    assert_false(view.drawing); /* memory is no terminal */
    view.drawing = drawing;
    return view;
}

static void finish(struct progress_view *view) {
    fclose(view->to);
}

static size_t count_of(const char *needle) {
    size_t count = 0;
    for (const char *at = shown; (at = strstr(at, needle)); at += strlen(needle)) {
        count++;
    }
    return count;
}

static void tells_plainly_of_new_states_only(void **state) {
    entries[0] = entry_of("a", STATUS_RUNNING, 5);
    struct progress_view view = opened(1, false);
    progress_view_change(&view, 0, STATUS_QUEUED);
    progress_view_change(&view, 0, STATUS_RUNNING); /* only more tokens */
    finish(&view);
    assert_int_equal(count_of("running"), 1);
    assert_int_equal(count_of("5 tokens"), 1);
    assert_int_equal(count_of("\x1b"), 0);
    free(shown);
}

static void draws_the_table_over_itself_and_takes_it_away(void **state) {
    entries[0] = entry_of("a", STATUS_RUNNING, 5);
    entries[1] = entry_of("b", STATUS_QUEUED, -1);
    struct progress_view view = opened(2, true);
    progress_view_draw(&view);
    fflush(view.to);
    assert_int_equal(count_of("\x1b[4A"), 0);
    assert_int_equal(count_of("\n"), 4); /* head, two rows, sum */
    progress_view_draw(&view);
    fflush(view.to);
    assert_int_equal(count_of("\x1b[4A"), 1);
    progress_view_clear(&view);
    progress_view_clear(&view); /* nothing is left to take away */
    finish(&view);
    assert_int_equal(count_of("\x1b[4A"), 2);
    assert_int_equal(count_of("\x1b[J"), 1);
    assert_int_equal(count_of("0 done, 1 running, 1 queued; 5 tokens"), 2);
    free(shown);
}

static void shows_running_jobs_first_where_not_all_fit(void **state) {
    for (size_t i = 0; i < MANY; i++) {
        entries[i] = entry_of("done-job", STATUS_DONE, 9);
    }
    entries[MANY - 1] = entry_of("running-job", STATUS_RUNNING, 1);
    entries[MANY - 2] = entry_of("queued-job", STATUS_QUEUED, -1);
    struct progress_view view = opened(MANY, true);
    progress_view_draw(&view);
    finish(&view);
    assert_int_equal(count_of("\n"), 24 - 3 + 2);
    assert_int_equal(count_of("running-job"), 1);
    assert_int_equal(count_of("queued-job"), 1);
    assert_true(strstr(shown, "running-job") < strstr(shown, "queued-job"));
    assert_true(strstr(shown, "queued-job") < strstr(shown, "done-job"));
    free(shown);
}

static void prints_an_end_with_time_tokens_and_error(void **state) {
    struct watch_entry entry = entry_of("x", STATUS_FAILED, 7);
    entry.status.queued_at = 1000;
    entry.status.finished_at = 3500;
    entry.status.error_code = strdup("numeric");
    entry.status.error_message = strdup("not a number");
    FILE *to = open_memstream(&shown, &shown_bytes);
    progress_view_print_entry(to, &entry);
    fclose(to);
    assert_int_equal(count_of("failed"), 1);
    assert_int_equal(count_of("    7 tokens      2.5 s  numeric: not a number\n"), 1);
    free(shown);
    status_deinit(&entry.status);
}

static void calls_a_given_up_id_unknown(void **state) {
    struct watch_entry entry = entry_of("x", STATUS_UNKNOWN, -1);
    entry.given_up = true;
    FILE *to = open_memstream(&shown, &shown_bytes);
    progress_view_print_entry(to, &entry);
    fclose(to);
    assert_int_equal(count_of("unknown"), 1);
    free(shown);
}

static void sums_up_what_was_done(void **state) {
    entries[0] = entry_of("a", STATUS_DONE, 30);
    entries[1] = entry_of("b", STATUS_EXPIRED, 12);
    struct progress_view view = opened(2, false);
    view.started_ns -= 2000000000;
    progress_view_print_sum(&view);
    finish(&view);
    assert_int_equal(count_of("2 jobs: 1 done, 1 not in 2.0 s, 42 tokens, 21.0 tokens/s\n"), 1);
    free(shown);
}

TEST_MAIN(cmocka_unit_test(tells_plainly_of_new_states_only),
          cmocka_unit_test(draws_the_table_over_itself_and_takes_it_away),
          cmocka_unit_test(shows_running_jobs_first_where_not_all_fit),
          cmocka_unit_test(prints_an_end_with_time_tokens_and_error),
          cmocka_unit_test(calls_a_given_up_id_unknown), cmocka_unit_test(sums_up_what_was_done))
