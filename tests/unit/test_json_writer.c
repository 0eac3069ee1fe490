#include "schemas/json_writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

static void writes_nested_values_with_their_commas(void **state) {
    struct json_writer writer;
    size_t size = 0;
    json_writer_init(&writer, 0);
    json_writer_begin_object(&writer);
    json_writer_key(&writer, "a");
    json_writer_begin_array(&writer);
    json_writer_int(&writer, -1);
    json_writer_uint(&writer, 2);
    json_writer_begin_array(&writer);
    json_writer_end_array(&writer);
    json_writer_begin_object(&writer);
    json_writer_end_object(&writer);
    json_writer_end_array(&writer);
    json_writer_key(&writer, "b");
    json_writer_begin_object(&writer);
    json_writer_key(&writer, "c");
    json_writer_bool(&writer, true);
    json_writer_key(&writer, "d");
    json_writer_null(&writer);
    json_writer_end_object(&writer);
    json_writer_key(&writer, "e");
    json_writer_raw(&writer, "{\"x\":1}");
    json_writer_key(&writer, "f");
    json_writer_string(&writer, NULL);
    json_writer_end_object(&writer);
    char *text = json_writer_finish(&writer, &size);
    assert_string_equal(text, "{\"a\":[-1,2,[],{}],\"b\":{\"c\":true,\"d\":null},\"e\":{\"x\":1},"
                              "\"f\":null}");
    assert_int_equal(size, strlen(text));
    free(text);
}

static char *written_string(const char *text) {
    struct json_writer writer;
    json_writer_init(&writer, 0);
    json_writer_string(&writer, text);
    return json_writer_finish(&writer, NULL);
}

static void escapes_only_what_json_demands(void **state) {
    char all[0x80];
    for (int c = 1; c < 0x80; c++) {
        all[c - 1] = (char)c;
    }
    all[0x7F] = '\0';
    char *text = written_string(all);
    struct json json;
    struct job_error error;
    const struct json_limits limits = {.bytes_max = 4096, .depth_max = 1};
    assert_int_equal(json_parse(&json, text, strlen(text), &limits, &error), ERROR_NONE);
    assert_string_equal(json.nodes->text, all);
    json_deinit(&json);
    free(text);
    text = written_string("a\"\\/\n\t\x01\x1F\x7F\xE9\xA2\x98\xE2\x80\xA8");
    assert_string_equal(text, "\"a\\\"\\\\/\\n\\t\\u0001\\u001f\x7F\xE9\xA2\x98\xE2\x80\xA8\"");
    free(text);
}

static void grows_for_texts_of_any_length(void **state) {
    for (size_t length = 0; length < 3000; length += 37) {
        char *text = malloc(length + 1);
        memset(text, '\x02', length);
        text[length] = '\0';
        char *written = written_string(text);
        assert_int_equal(strlen(written), 2 + 6 * length);
        free(written);
        free(text);
    }
}

static void assert_float_written(float value, const char *expected) {
    struct json_writer writer;
    json_writer_init(&writer, 0);
    json_writer_float(&writer, value);
    char *text = json_writer_finish(&writer, NULL);
    if (expected != NULL) {
        assert_string_equal(text, expected);
    }
    assert_true(strtof(text, NULL) == value);
    assert_true((float)strtod(text, NULL) == value);
    free(text);
}

static void writes_floats_as_short_as_they_read_back(void **state) {
    static const struct {
        float value;
        const char *text;
    } cases[] = {
        {0.0f, "0"},           {1.0f, "1"},         {-1.0f, "-1"},     {0.7f, "0.7"},
        {0.95f, "0.95"},       {1.1f, "1.1"},       {-2.0f, "-2"},     {-0.05f, "-0.05"},
        {0.0001f, "0.0001"},   {1e-5f, "1e-05"},    {0.333f, "0.333"}, {123.456f, "123.456"},
        {1e10f, "1e+10"},      {0.1f + 0.2f, NULL}, {1.0f / 3, NULL},  {16777216.0f, NULL},
        {3.4028235e38f, NULL}, {1e-45f, NULL},      {999.9999f, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_float_written(cases[i].value, cases[i].text);
    }
    uint64_t random = test_seed();
    for (int i = 0; i < 20000; i++) {
        assert_float_written((float)(test_random(&random) % 40001) / 10000.0f - 2.0f, NULL);
        const uint32_t bits = (uint32_t)test_random(&random);
        float value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value)) {
            assert_float_written(value, NULL);
        }
    }
}

/* Every decimal of up to four places that a person may give comes back as it was typed. */
static void gives_back_the_decimals_that_were_given(void **state) {
    for (int i = 0; i <= 20000; i++) {
        char given[16];
        snprintf(given, sizeof given, "%.4f", i / 10000.0);
        char *end = given + strlen(given) - 1;
        while (*end == '0') {
            *end-- = '\0';
        }
        if (*end == '.') {
            *end = '\0';
        }
        assert_float_written(strtof(given, NULL), given);
    }
}

static void writes_integers_and_doubles_exactly(void **state) {
    struct json_writer writer;
    json_writer_init(&writer, 0);
    json_writer_begin_array(&writer);
    json_writer_int(&writer, INT64_MIN);
    json_writer_int(&writer, INT64_MAX);
    json_writer_uint(&writer, UINT64_MAX);
    json_writer_int(&writer, 0);
    json_writer_double(&writer, 0.1);
    json_writer_double(&writer, 1.0 / 3);
    json_writer_double(&writer, 12);
    json_writer_double(&writer, (double)INFINITY);
    json_writer_float(&writer, NAN);
    json_writer_end_array(&writer);
    char *text = json_writer_finish(&writer, NULL);
    assert_string_equal(text, "[-9223372036854775808,9223372036854775807,18446744073709551615,0,"
                              "0.1,0.3333333333333333,12,null,null]");
    free(text);
}

TEST_MAIN(cmocka_unit_test(writes_nested_values_with_their_commas),
          cmocka_unit_test(escapes_only_what_json_demands),
          cmocka_unit_test(grows_for_texts_of_any_length),
          cmocka_unit_test(writes_floats_as_short_as_they_read_back),
          cmocka_unit_test(gives_back_the_decimals_that_were_given),
          cmocka_unit_test(writes_integers_and_doubles_exactly))
