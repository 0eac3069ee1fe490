/* The codecs and the published examples: what the schemas refuse, the codecs refuse, and what a
 * later version adds, they pass over. The same files go through an independent validator in
 * tests/integration/test_schemas.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/job.h"
#include "schemas/json.h"
#include "schemas/json_writer.h"
#include "schemas/result.h"
#include "schemas/status.h"
#include "tests/support/example.h"
#include "tests/support/test.h"

static bool takes_job(const char *text) {
    struct job_limits limits = job_limits_default();
    struct job job;
    struct job_error error;
    if (job_decode(text, strlen(text), &limits, &job, &error) != ERROR_NONE) {
        return false;
    }
    job_deinit(&job);
    return true;
}

static bool takes_result(const char *text) {
    struct result result;
    struct job_error error;
    if (result_decode(text, strlen(text), &result, &error) != ERROR_NONE) {
        return false;
    }
    result_deinit(&result);
    return true;
}

static char *text_of(const struct json_node *node) {
    struct json_writer writer;
    if (node->type == JSON_STRING) {
        return strdup(node->text);
    }
    json_writer_init(&writer, 0);
    json_writer_node(&writer, node);
    return json_writer_finish(&writer, NULL);
}

/* As the fields of a hash, where every value is a string. */
static bool takes_status(const char *text) {
    const struct json_limits limits = {1u << 20, 16, false};
    struct json json;
    struct job_error error;
    struct status status;
    if (json_parse(&json, text, strlen(text), &limits, &error) != ERROR_NONE) {
        return false;
    }
    bool taken = true;
    status_init(&status, "x");
    for (const struct json_node *value = json_first(json.nodes); value != NULL && taken;
         value = json_next(json.nodes, value)) {
        const struct json_node *key = json_key(value);
        char *field = text_of(value);
        taken = status_set_field(&status, key->text, key->size, field, strlen(field));
        free(field);
    }
    status_deinit(&status);
    json_deinit(&json);
    return taken;
}

/* Runs the values of a file through `takes`; returns how many there were. */
static size_t refuses_each(const char *name, bool (*takes)(const char *text)) {
    const struct json_limits limits = {1u << 20, 16, false};
    char path[256], *line = NULL;
    size_t capacity = 0, count = 0;
    snprintf(path, sizeof path, "schemas/v1/examples/invalid/%s.jsonl", name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (ssize_t bytes; (bytes = getline(&line, &capacity, file)) > 0;) {
        struct json json;
        struct job_error error;
        assert_int_equal(json_parse(&json, line, (size_t)bytes, &limits, &error), ERROR_NONE);
        if (json_member(json.nodes, "only_for_schema") == NULL) {
            char *value = text_of(json_member(json.nodes, "value"));
            if (takes(value)) {
                fail_msg("%s: %s was taken", name, json_member(json.nodes, "why")->text);
            }
            free(value);
            count++;
        }
        json_deinit(&json);
    }
    free(line);
    fclose(file);
    return count;
}

static void refuses_every_invalid_job(void **state) {
    assert_true(refuses_each("job", takes_job) >= 50);
}

static void refuses_every_invalid_result(void **state) {
    assert_true(refuses_each("result", takes_result) >= 14);
}

static void refuses_every_invalid_status(void **state) {
    assert_true(refuses_each("status", takes_status) >= 4);
}

static void passes_over_what_a_later_version_adds(void **state) {
    static const struct {
        const char *name;
        bool (*takes)(const char *text);
    } later[] = {{"job_later.json", takes_job},
                 {"result_later.json", takes_result},
                 {"status_later.json", takes_status}};
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++) {
        char *text = example_read(later[i].name);
        assert_non_null(strstr(text, "of_a_later_version"));
        if (!later[i].takes(text)) {
            fail_msg("%s was refused", later[i].name);
        }
        free(text);
    }
}

/* Version 0 is the one before 1: a result of it is read, as N - 1 will be of every N. */
static void reads_results_of_the_version_before(void **state) {
    char *text = example_read("result_done.json");
    char *version = strstr(text, "\"version\":1");
    assert_non_null(version);
    version[10] = '0';
    assert_true(takes_result(text));
    version[10] = '2';
    assert_false(takes_result(text));
    free(text);
}

TEST_MAIN(cmocka_unit_test(refuses_every_invalid_job),
          cmocka_unit_test(refuses_every_invalid_result),
          cmocka_unit_test(refuses_every_invalid_status),
          cmocka_unit_test(passes_over_what_a_later_version_adds),
          cmocka_unit_test(reads_results_of_the_version_before))
