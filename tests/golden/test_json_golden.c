/* Our reading of JSON against Python's, over documents that readers disagree on: the table is made
 * by tests/golden/make_json.py, which describes it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/json.h"
#include "schemas/json_writer.h"
#include "tests/support/test.h"
#include "tests/support/test_file.h"

#define VERDICTS "tests/golden/json/verdicts.tsv"

/* Turns \xNN into bytes in place; returns how many bytes there are. */
static size_t unescape(char *text) {
    char *out = text;
    for (const char *in = text; *in != '\0'; out++) {
        if (in[0] == '\\') {
            const char digits[3] = {in[2], in[3], '\0'};
            *out = (char)strtoul(digits, NULL, 16);
            in += 4;
        } else {
            *out = *in++;
        }
    }
    *out = '\0';
    return (size_t)(out - text);
}

static char *written(const struct json *json) {
    struct json_writer writer;
    json_writer_init(&writer, 0);
    json_writer_node(&writer, json->nodes);
    return json_writer_finish(&writer, NULL);
}

/* Returns 1 if the reading differs from the line's, and says how. */
static int compare(const char *verdict, char *document, char *reading) {
    const struct json_limits limits = {.bytes_max = 4096, .depth_max = 32};
    struct json json;
    struct job_error error;
    char shown[512];
    snprintf(shown, sizeof shown, "%s", document);
    const size_t size = unescape(document);
    (void)unescape(reading);
    const enum error_code code = json_parse(&json, document, size, &limits, &error);
    const char *ours = code == ERROR_NONE ? "ok" : error_code_name(code);
    char *text = code == ERROR_NONE ? written(&json) : strdup("");
    const int differs = strcmp(ours, verdict) != 0 || strcmp(text, reading) != 0;
    if (differs) {
        print_error("%s: %s '%s', expected %s '%s'; %s %s\n", shown, ours, text, verdict, reading,
                    error.field, error.message);
    }
    free(text);
    json_deinit(&json);
    return differs;
}

static void reads_and_refuses_what_python_does(void **state) {
    size_t size;
    char *table = (char *)test_file_read(VERDICTS, &size);
    int lines = 0, differences = 0;
    for (char *line = table, *end; (end = strchr(line, '\n')) != NULL; line = end + 1, lines++) {
        *end = '\0';
        char *document = strchr(line, '\t');
        assert_non_null(document);
        *document++ = '\0';
        char *reading = strchr(document, '\t');
        assert_non_null(reading);
        *reading++ = '\0';
        differences += compare(line, document, reading);
    }
    free(table);
    assert_in_range(lines, 700, 10000);
    assert_int_equal(differences, 0);
}

TEST_MAIN(cmocka_unit_test(reads_and_refuses_what_python_does))
