#include "schemas/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/json_writer.h"
#include "tests/support/test.h"

static const struct json_limits limits = {.bytes_max = 1 << 20, .depth_max = 32};

static struct json parsed(const char *text) {
    struct json json;
    struct job_error error = {0};
    if (json_parse(&json, text, strlen(text), &limits, &error) != ERROR_NONE) {
        fail_msg("%s: %s %s", text, error.field, error.message);
    }
    return json;
}

/* Parses and writes back what was understood. */
static void assert_reads_as(const char *text, const char *compact) {
    struct json json = parsed(text);
    struct json_writer writer;
    json_writer_init(&writer, 0);
    json_writer_node(&writer, json.nodes);
    char *written = json_writer_finish(&writer, NULL);
    assert_string_equal(written, compact);
    free(written);
    json_deinit(&json);
}

static void assert_refused(const char *bytes, size_t size, enum error_code code, const char *field,
                           const char *in_message) {
    struct json json;
    struct job_error error = {0};
    const enum error_code got = json_parse(&json, bytes, size, &limits, &error);
    if (got != code || strcmp(error.field, field) != 0 ||
        strstr(error.message, in_message) == NULL) {
        fail_msg("%.60s: %s, field '%s', message '%s'", bytes, error_code_name(got), error.field,
                 error.message);
    }
    static const struct json zero;
    assert_memory_equal(&json, &zero, sizeof json);
}

static void reads_every_form_of_the_grammar(void **state) {
    static const char *const same[] = {"null",
                                       "true",
                                       "false",
                                       "0",
                                       "-0",
                                       "12",
                                       "-1.5",
                                       "1e5",
                                       "1E+5",
                                       "0.1e-5",
                                       "\"\"",
                                       "\"a\"",
                                       "[]",
                                       "{}",
                                       "[1,2]",
                                       "[[],{}]",
                                       "{\"\":1}",
                                       "{\"a\":{\"b\":[null,true,{\"c\":\"d\"}]}}",
                                       "12345678901234567890.123456789e400",
                                       "\"\xE9\xA2\x98\xF0\x9F\x98\x80\"",
                                       "\"\x7F\""};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        assert_reads_as(same[i], same[i]);
    }
    assert_reads_as(" \t\r\n[ 1 , { \"a\" : \"b\" } ]\n ", "[1,{\"a\":\"b\"}]");
}

static void unescapes_strings_of_any_length(void **state) {
    assert_reads_as("\"\\u0041\\u00e9\\u9898\\ud83d\\ude00\\/\"",
                    "\"A\xC3\xA9\xE9\xA2\x98\xF0\x9F\x98\x80/\"");
    assert_reads_as("\"\\b\\f\\n\\r\\t\\\"\\\\\\u001f\\u0008\"",
                    "\"\\b\\f\\n\\r\\t\\\"\\\\\\u001f\\b\"");
    assert_reads_as("\"\\uD834\\udd1E\"", "\"\xF0\x9D\x84\x9E\"");
    /* An escape at every place of the eight bytes that are looked at together. */
    for (size_t before = 0; before < 20; before++) {
        for (size_t after = 0; after < 20; after++) {
            char text[64];
            snprintf(text, sizeof text, "\"%.*s\\n%.*s\"", (int)before, "abcdefghijklmnopqrst",
                     (int)after, "ABCDEFGHIJKLMNOPQRST");
            assert_reads_as(text, text);
        }
    }
}

static void refuses_what_is_not_json_and_says_where(void **state) {
    static const struct {
        const char *text;
        int offset;
    } cases[] = {
        {"", 0},
        {"  ", 2},
        {"nul", 0},
        {"nulL", 0},
        {"True", 0},
        {"NaN", 0},
        {"Infinity", 0},
        {"-Infinity", 0},
        {"[1", 2},
        {"[1,", 3},
        {"[1,]", 3},
        {"[,1]", 1},
        {"[1 2]", 3},
        {"]", 0},
        {"[1}", 2},
        {"{", 1},
        {"{]", 2}, /* where a key is missing cJSON points behind the place */
        {"{\"a\"", 4},
        {"{\"a\" 1}", 5},
        {"{\"a\":}", 5},
        {"{\"a\":1,}", 8},
        {"{a:1}", 2},
        {"{'a':1}", 1},
        {"{1:2}", 2},
        {"{\"a\":1 \"b\":2}", 7},
        {"{\"a\":1", 6},
        {"{\"a\":1]", 6},
        {"01", 1},
        {"-01", 2},
        {"[1-2]", 2},
        {"1.5.5", 3},
        {"1e5e5", 3},
        {"nullnull", 4},
        {"[truefalse]", 5},
        {"-", 0},
        {"-a", 0},
        {"+1", 0},
        {".5", 0},
        {"1.", 0},
        {"1.e5", 0},
        {"1e", 0},
        {"1e+", 0},
        {"0x10", 1},
        {"1_000", 1},
        {"1 2", 2},
        {"[1]]", 3},
        {"{}{}", 2},
        {"[] x", 3},
        {"\"a", 2},
        {"\"a\nb\"", 2},
        {"\"\x01\"", 1},
        {"\"\\x41\"", 1},
        {"\"\\", 1},
        {"\"\\u12\"", 1},
        {"\"\\u12G4\"", 1},
        {"\"\\uZZZZ\"", 1},
        {"\"a\tb\"", 2},
        {"\"\\uD83D\\u00\"", 7},
        {"[1,2/* no */]", 4},
        {"// no\n1", 0},
        {"\xEF\xBB\xBF{}", 0},
        {"[\xE9\xA2\x98]", 1},
        {"\x0B[]", 0},
        {"[\x0C]", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char where[32];
        snprintf(where, sizeof where, " at byte %d", cases[i].offset);
        assert_refused(cases[i].text, strlen(cases[i].text), ERROR_INVALID_JSON, "", where);
    }
    assert_refused("[1]\0", 4, ERROR_INVALID_JSON, "", " at byte 3");
    assert_refused("[\0001]", 4, ERROR_INVALID_JSON, "", " at byte 1");
    assert_refused("\"\0\"", 3, ERROR_INVALID_JSON, "", "control character");
}

static void refuses_bad_utf8_and_says_where(void **state) {
    static const struct {
        const char *text;
        const char *where;
    } cases[] = {{"\"\xFF\"", "byte 1"},
                 {"\"ab\xC3\"", "byte 3"},
                 {"\"\xC0\x80\"", "byte 1"},
                 {"\"\xED\xA0\x80\"", "byte 1"},
                 {"\"\xF4\x90\x80\x80\"", "byte 1"},
                 {"[\x80", "byte 1"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_refused(cases[i].text, strlen(cases[i].text), ERROR_INVALID_UTF8, "",
                       cases[i].where);
    }
}

static void looks_at_the_size_before_anything_else(void **state) {
    char *bytes = malloc(limits.bytes_max + 1);
    memset(bytes, 0xFF, limits.bytes_max + 1);
    assert_refused(bytes, limits.bytes_max + 1, ERROR_TOO_LARGE, "", "1048577 bytes");
    assert_refused(bytes, limits.bytes_max, ERROR_INVALID_UTF8, "", "byte 0");
    memset(bytes, ' ', limits.bytes_max);
    bytes[0] = '1';
    struct json json;
    struct job_error error;
    assert_int_equal(json_parse(&json, bytes, limits.bytes_max, &limits, &error), ERROR_NONE);
    json_deinit(&json);
    free(bytes);
}

static void bounds_the_length_of_a_number(void **state) {
    char text[80];
    memset(text, '1', sizeof text);
    strcpy(text + 63, " ");
    struct json json = parsed(text);
    assert_int_equal(json.nodes->size, 63);
    assert_true(json.nodes->number > 1e62 && json.nodes->number < 1.2e62);
    json_deinit(&json);
    strcpy(text + 63, "1");
    assert_refused(text, 64, ERROR_INVALID_JSON, "", "more than 63 bytes at byte 0");
}

static void bounds_nesting_before_it_recurses(void **state) {
    const size_t levels = 400000;
    char *deep = malloc(levels);
    memset(deep, '[', levels);
    assert_refused(deep, levels, ERROR_INVALID_JSON, "", "32 levels deep at byte 32");
    memset(deep + 32, ']', 32);
    struct json json;
    struct job_error error;
    assert_int_equal(json_parse(&json, deep, 64, &limits, &error), ERROR_NONE);
    assert_int_equal(json.node_count, 32);
    json_deinit(&json);
    for (size_t i = 0; i + 5 <= levels; i += 5) {
        memcpy(deep + i, "{\"a\":", 5);
    }
    assert_refused(deep, levels, ERROR_INVALID_JSON, "", "32 levels deep at byte 160");
    free(deep);
}

static void refuses_a_key_that_stands_twice_naming_it(void **state) {
    static const char *const cases[][2] = {
        {"{\"a\":1,\"a\":1}", "a"},
        {"{\"a\":1,\"b\":[{\"x\":0},{\"c\":1,\"d\":2,\"c\":3}]}", "b[1].c"},
        {"{\"a\":1,\"\\u0061\":2}", "a"},
        {"{\"\":1,\"\":2}", ""},
        {"[[0,{\"k\":{},\"k\":{}}]]", "[0][1].k"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_refused(cases[i][0], strlen(cases[i][0]), ERROR_INVALID_FIELD, cases[i][1],
                       "stands twice");
    }
    assert_reads_as("{\"a\":1,\"A\":2,\"aa\":3}", "{\"a\":1,\"A\":2,\"aa\":3}");
}

/* 60,000 keys compared pair by pair would take a minute. */
static void finds_a_double_key_among_very_many(void **state) {
    enum { KEYS = 60000 };
    char *text = malloc(KEYS * 16 + 64);
    for (int twin = 0; twin < 2; twin++) {
        size_t size = (size_t)sprintf(text, "{");
        for (int i = 0; i < KEYS; i++) {
            size += (size_t)sprintf(text + size, "%s\"k%06d\":%d", i ? "," : "", i, i % 10);
        }
        size += (size_t)sprintf(text + size, twin ? ",\"k031415\":0}" : "}");
        if (twin) {
            assert_refused(text, size, ERROR_INVALID_FIELD, "k031415", "stands twice");
        } else {
            struct json json = parsed(text);
            assert_int_equal(json.nodes->size, KEYS);
            assert_string_equal(json_key(json_member(json.nodes, "k059999"))->text, "k059999");
            json_deinit(&json);
        }
    }
    free(text);
}

static void refuses_nul_and_lone_surrogates_naming_the_field(void **state) {
    static const char *const cases[][3] = {
        {"{\"a\":{\"b\":[\"x\",\"y\\u0000\"]}}", "a.b[1]", "U+0000"},
        {"{\"a\\u0000b\":1}",
         "a\xEF\xBF\xBD"
         "b",
         "U+0000"},
        {"[\"\\ud800\"]", "[0]", "surrogate"},
        {"[\"\\udc00\\ud800\"]", "[0]", "surrogate"},
        {"{\"m\":\"\\ud800x\"}", "m", "surrogate"},
        {"{\"m\":\"\\ud83d\\ud83d\\ude00\"}", "m", "surrogate"},
        {"{\"m\":\"\\udfff\"}", "m", "surrogate"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_refused(cases[i][0], strlen(cases[i][0]), ERROR_INVALID_FIELD, cases[i][1],
                       cases[i][2]);
    }
    assert_refused("[\"\\u0000\"", 9, ERROR_INVALID_JSON, "", "at byte 9"); /* form comes first */
}

static void a_tolerant_reading_keeps_what_it_can(void **state) {
    const struct json_limits tolerant = {.bytes_max = 100, .depth_max = 4, .tolerant = true};
    const char *text = "{\"a\":1,\"a\":2,\"b\":\"x\\u0000\\ud800\"}";
    struct json json;
    struct job_error error;
    assert_int_equal(json_parse(&json, text, strlen(text), &tolerant, &error), ERROR_NONE);
    assert_int_equal(json_get_int(json.nodes, "a", 0, 9, 0, &error), 1);
    const struct json_node *b = json_member(json.nodes, "b");
    assert_string_equal(b->text, "x\xEF\xBF\xBD\xEF\xBF\xBD");
    json_deinit(&json);
}

static void walks_arrays_and_objects_in_order(void **state) {
    struct json json = parsed("{\"a\":[10,[20],{},30],\"b\":{\"x\":1,\"y\":[2,3]},\"c\":null}");
    const struct json_node *root = json.nodes;
    const char *keys = "abc";
    uint32_t count = 0;
    for (const struct json_node *v = json_first(root); v != NULL; v = json_next(root, v)) {
        assert_int_equal(json_key(v)->text[0], keys[count++]);
    }
    assert_int_equal(count, 3);
    assert_int_equal(root->size, 3);
    const struct json_node *a = json_member(root, "a");
    assert_int_equal(a->size, 4);
    const struct json_node *last = json_first(a);
    for (int i = 0; i < 3; i++) {
        last = json_next(a, last);
    }
    struct job_error error = {0};
    assert_int_equal(json_to_int(last, 0, 100, &error), 30);
    assert_null(json_next(a, last));
    assert_null(json_member(root, "c"));
    assert_null(json_member(root, "d"));
    assert_null(json_member(a, "a"));
    assert_null(json_member(NULL, "a"));
    assert_null(json_first(json_next(a, json_next(a, json_first(a)))));
    json_deinit(&json);
}

static void reads_integers_only_where_they_are_integral_and_in_range(void **state) {
    struct json json =
        parsed("{\"a\":[5,5.0,50e-1,0.5e1,-0,9007199254740991,9007199254740991.0],"
               "\"b\":[5.5,1e400,-1e400,\"5\",true,null,[],{},123456789012345678901,"
               "9007199254740993.0,-6,9007199254740992],\"max\":9223372036854775807}");
    static const int64_t values[] = {5, 5, 5, 5, 0, 9007199254740991, 9007199254740991};
    const struct json_node *a = json_member(json.nodes, "a");
    const struct json_node *b = json_member(json.nodes, "b");
    struct job_error error = {0};
    size_t i = 0;
    for (const struct json_node *v = json_first(a); v != NULL; v = json_next(a, v)) {
        assert_true(json_to_int(v, -5, 9007199254740991, &error) == values[i++]);
        assert_int_equal(error.code, ERROR_NONE);
    }
    i = 0;
    for (const struct json_node *v = json_first(b); v != NULL; v = json_next(b, v)) {
        char field[16];
        error = (struct job_error){0};
        (void)json_to_int(v, -5, 9007199254740991, &error);
        assert_int_equal(error.code, ERROR_INVALID_FIELD);
        snprintf(field, sizeof field, "b[%zu]", i++);
        assert_string_equal(error.field, field);
        assert_string_equal(error.message, "must be an integer from -5 to 9007199254740991");
    }
    json_deinit(&json);
}

static void reads_numbers_within_bounds(void **state) {
    struct json json = parsed("{\"a\":0.7,\"z\":-0.0,\"big\":1e400,\"text\":\"0.7\",\"yes\":true,"
                              "\"edge\":2,\"over\":2.0000000000000004}");
    struct job_error error = {0};
    assert_true(json_get_double(json.nodes, "a", 0, 2, 9, &error) == 0.7);
    assert_true(1 / json_get_double(json.nodes, "z", 0, 2, 9, &error) > 0); /* -0 became +0 */
    assert_true(json_get_double(json.nodes, "edge", 0, 2, 9, &error) == 2);
    assert_true(json_get_double(json.nodes, "none", 0, 2, 9, &error) == 9);
    assert_int_equal(error.code, ERROR_NONE);
    static const char *const bad[] = {"big", "text", "yes", "over"};
    for (size_t i = 0; i < 4; i++) {
        error = (struct job_error){0};
        (void)json_get_double(json.nodes, bad[i], 0, 2, 9, &error);
        assert_string_equal(error.field, bad[i]);
        assert_string_equal(error.message, "must be a number from 0 to 2");
    }
    json_deinit(&json);
}

static void the_first_error_stays_and_silences_later_getters(void **state) {
    struct json json = parsed("{\"a\":\"x\",\"b\":{\"c\":\"y\"},\"d\":3,\"n\":null}");
    const struct json_node *root = json.nodes;
    struct job_error error = {0};
    char name[4] = "ab";
    assert_int_equal(json_get_int(root, "a", 0, 9, 4, &error), 0);
    assert_string_equal(error.field, "a");
    assert_int_equal(json_get_int(root, "d", 0, 9, 4, &error), 4);
    assert_null(json_get_text(root, "a", 9, &error));
    assert_null(json_get_object(root, "b", &error));
    assert_null(json_get_array(root, "b", 9, &error));
    assert_false(json_get_bool(root, "d", false, &error));
    json_get_name(root, "a", name, sizeof name, &error);
    assert_string_equal(name, "ab");
    json_require(root, "zzz", &error);
    json_fail(&error, ERROR_INTERNAL, root, NULL, "later");
    assert_string_equal(error.field, "a");
    assert_int_equal(error.code, ERROR_INVALID_FIELD);
    json_deinit(&json);
}

static void names_missing_and_misshapen_members_by_path(void **state) {
    static const char *const choices[] = {"on", "off"};
    struct json json = parsed("{\"b\":{\"c\":\"yes\",\"list\":[1,2,3],\"n\":null}}");
    const struct json_node *b = json_member(json.nodes, "b");
    struct job_error error = {0};
    json_require(b, "n", &error);
    assert_string_equal(error.field, "b.n");
    assert_string_equal(error.message, "is required");
    error = (struct job_error){0};
    assert_int_equal(json_get_choice(b, "c", choices, 2, 1, &error), 1);
    assert_string_equal(error.field, "b.c");
    assert_string_equal(error.message, "must be one of: on, off");
    error = (struct job_error){0};
    assert_null(json_get_array(b, "list", 2, &error));
    assert_string_equal(error.message, "must have at most 2 elements, not 3");
    error = (struct job_error){0};
    assert_null(json_get_text(b, "c", 2, &error));
    assert_string_equal(error.message, "must be at most 2 bytes long, not 3");
    error = (struct job_error){0};
    assert_null(json_get_object(b, "list", &error));
    assert_string_equal(error.message, "must be an object");
    error = (struct job_error){0};
    json_fail(&error, ERROR_EMPTY_PROMPT, json_first(json_member(b, "list")), NULL, "odd");
    assert_string_equal(error.field, "b.list[0]");
    json_deinit(&json);
}

static void reports_a_path_longer_than_the_field_cut_at_a_code_point(void **state) {
    char text[1024] = "{\"", *at = text + 2;
    for (int i = 0; i < 100; i++, at += 3) {
        memcpy(at, "\xE9\xA2\x98", 3);
    }
    strcpy(at, "\":{\"x\":1,\"x\":2}}");
    struct json json;
    struct job_error error = {0};
    assert_int_equal(json_parse(&json, text, strlen(text), &limits, &error), ERROR_INVALID_FIELD);
    assert_int_equal(strlen(error.field), (ERROR_FIELD_BYTES_MAX - 1) / 3 * 3);
}

TEST_MAIN(cmocka_unit_test(reads_every_form_of_the_grammar),
          cmocka_unit_test(unescapes_strings_of_any_length),
          cmocka_unit_test(refuses_what_is_not_json_and_says_where),
          cmocka_unit_test(refuses_bad_utf8_and_says_where),
          cmocka_unit_test(looks_at_the_size_before_anything_else),
          cmocka_unit_test(bounds_the_length_of_a_number),
          cmocka_unit_test(bounds_nesting_before_it_recurses),
          cmocka_unit_test(refuses_a_key_that_stands_twice_naming_it),
          cmocka_unit_test(finds_a_double_key_among_very_many),
          cmocka_unit_test(refuses_nul_and_lone_surrogates_naming_the_field),
          cmocka_unit_test(a_tolerant_reading_keeps_what_it_can),
          cmocka_unit_test(walks_arrays_and_objects_in_order),
          cmocka_unit_test(reads_integers_only_where_they_are_integral_and_in_range),
          cmocka_unit_test(reads_numbers_within_bounds),
          cmocka_unit_test(the_first_error_stays_and_silences_later_getters),
          cmocka_unit_test(names_missing_and_misshapen_members_by_path),
          cmocka_unit_test(reports_a_path_longer_than_the_field_cut_at_a_code_point))
