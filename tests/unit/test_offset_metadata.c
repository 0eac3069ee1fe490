#include "consumer/offset_metadata.h"

#include <string.h>

#include "tests/support/test.h"

static char text[OFFSET_METADATA_BYTES_MAX + 1];
static struct offset_range found[OFFSET_METADATA_RANGES_MAX];

static bool decode(int64_t mark, const char *given, size_t *count) {
    return offset_metadata_decode(mark, given, strlen(given), found, count);
}

static void is_as_it_is_written_down(void **state) {
    static const struct offset_range ranges[] = {{101, 104}, {136, 1160}};
    assert_int_equal(offset_metadata_encode(100, ranges, 2, text, 64), 11);
    assert_string_equal(text, "sf1:BDgBggB");
}

static void gives_back_the_ranges_that_were_written(void **state) {
    static const struct offset_range ranges[] = {
        {0, 1}, {2, 40}, {41, 5000000000}, {INT64_MAX - 1, INT64_MAX}};
    for (size_t i = 1; i <= 4; i++) {
        size_t count, size = offset_metadata_encode(0, ranges, i, text, sizeof text - 1);
        assert_int_equal(size, strlen(text));
        assert_true(decode(0, text, &count));
        assert_int_equal(count, i);
        assert_memory_equal(found, ranges, i * sizeof *ranges);
    }
}

static void says_nothing_when_nothing_is_settled(void **state) {
    size_t count = 1;
    assert_int_equal(offset_metadata_encode(7, NULL, 0, text, sizeof text - 1), 0);
    assert_string_equal(text, "");
    assert_true(decode(7, text, &count));
    assert_int_equal(count, 0);
}

static void is_cut_at_the_far_end(void **state) {
    static struct offset_range ranges[OFFSET_METADATA_RANGES_MAX + 100];
    size_t many = OFFSET_METADATA_RANGES_MAX + 100, count;
    for (size_t i = 0; i < many; i++) {
        ranges[i] = (struct offset_range){11 + 2 * (int64_t)i, 12 + 2 * (int64_t)i};
    }
    size_t size = offset_metadata_encode(10, ranges, many, text, OFFSET_METADATA_BYTES_MAX);
    assert_int_equal(size, OFFSET_METADATA_BYTES_MAX);
    assert_true(decode(10, text, &count));
    assert_int_equal(count, OFFSET_METADATA_RANGES_MAX);
    assert_memory_equal(found, ranges, count * sizeof *ranges);
    assert_int_equal(offset_metadata_encode(10, ranges, many, text, 9), 8);
    assert_int_equal(offset_metadata_encode(10, ranges, many, text, 5), 0);
}

static void refuses_what_is_not_ours_or_broken(void **state) {
    static const char *const bad[] = {"x",
                                      "sf1:",
                                      "sf2:BB",
                                      "sf1:B",
                                      "sf1:BA" /* a settled run of none */,
                                      "sf1:BBAB" /* two ranges that touch */,
                                      "sf1:B B",
                                      "sf1:B\xC3\xA4",
                                      "sf1:Bg",
                                      "sf1:B__________________",
                                      "sf1:____________HB" /* beyond 2^63 */,
                                      "sf1:____________PB",
                                      "sf1:____________GB____________GB"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        size_t count = 1;
        if (decode(5, bad[i], &count)) {
            fail_msg("'%s' was taken", bad[i]);
        }
        assert_int_equal(count, 0);
    }
    size_t count;
    assert_false(decode(-1, "sf1:BB", &count));
    assert_false(offset_metadata_decode(0, "sf1:B\0B", 7, found, &count));
    memset(text, 'B', sizeof text);
    memcpy(text, "sf1:", 4);
    assert_false(offset_metadata_decode(0, text, sizeof text, found, &count));
    assert_true(offset_metadata_decode(0, text, sizeof text - 1, found, &count));
}

TEST_MAIN(cmocka_unit_test(is_as_it_is_written_down),
          cmocka_unit_test(gives_back_the_ranges_that_were_written),
          cmocka_unit_test(says_nothing_when_nothing_is_settled),
          cmocka_unit_test(is_cut_at_the_far_end),
          cmocka_unit_test(refuses_what_is_not_ours_or_broken))
