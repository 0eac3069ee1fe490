#include "consumer/batch_progress.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

static void shows(const char *expected, int columns, size_t total, size_t ended, size_t failed,
                  size_t ended_here, double elapsed_s) {
    char text[256];
    batch_progress_format(text, sizeof text, columns, total, ended, failed, ended_here, elapsed_s);
    assert_string_equal(text, expected);
}

static void tells_share_count_rate_and_what_is_left(void **state) {
    shows("  0 %  0/12", 0, 12, 0, 0, 0, 0);
    shows(" 50 %  6/12, 1 failed, 2/s, 0:03 left", 0, 12, 6, 1, 6, 3);
    shows(" 50 %  6/12, 1/s, 0:06 left", 0, 12, 6, 0, 3, 3); /* three came from an earlier run */
    shows("  1 %  100/10000, 0.5/s, 5:30:00 left", 0, 10000, 100, 0, 50, 100);
    shows(" 30 %  6000/20000, 1235/s, 0:11 left", 0, 20000, 6000, 0, 6000, 4.86);
    shows("100 %  12/12, 4/s, 0:00 left", 0, 12, 12, 0, 12, 3);
}

static void says_100_percent_only_in_the_end(void **state) {
    shows(" 99 %  999/1000", 0, 1000, 999, 0, 0, 0);
    shows("100 %  1000/1000", 0, 1000, 1000, 0, 0, 0);
}

static void fits_a_bar_into_the_window(void **state) {
    shows("[#####.....]  50 %  6/12", 25, 12, 6, 0, 0, 0);
    shows(" 50 %  6/12", 24, 12, 6, 0, 0, 0);
    shows("[########################################] 100 %  12/12", 200, 12, 12, 0, 0, 0);
}

static void prints_plain_lines_into_a_file(void **state) {
    char *text = NULL;
    size_t bytes = 0;
    char *path = test_tmp_path("progress");
    FILE *to = fopen(path, "w+");
    struct batch_progress progress;
    assert_non_null(to);
    batch_progress_init(&progress, to, 4, 1);
    batch_progress_show(&progress, 1, 0, false); /* not yet time */
    batch_progress_show(&progress, 1, 0, true);
    batch_progress_clear(&progress);
    rewind(to);
    assert_int_equal(getline(&text, &bytes, to), 11);
    assert_string_equal(text, " 25 %  1/4\n");
    assert_int_equal(getline(&text, &bytes, to), -1);
    fclose(to);
    free(text);
    free(path);
}

TEST_MAIN(cmocka_unit_test(tells_share_count_rate_and_what_is_left),
          cmocka_unit_test(says_100_percent_only_in_the_end),
          cmocka_unit_test(fits_a_bar_into_the_window),
          cmocka_unit_test(prints_plain_lines_into_a_file))
