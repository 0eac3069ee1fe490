/* `solfleet generate`, from command line to exit code, on a tiny model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/command.h"
#include "schemas/json.h"
#include "schemas/sha256.h"
#include "tests/support/run_command.h"
#include "tests/support/test.h"
#include "tests/support/tiny_llama.h"

static char *model;
static struct run_command run;

#define RUN(...) \
    run_command_finish(run_command_start((const char *const[]){__VA_ARGS__, NULL}), &run)

static int write_model(void **state) {
    model = tiny_llama_write(NULL);
    return model == NULL;
}

static int free_model(void **state) {
    free(model);
    return 0;
}

/* A member of the one JSON object printed, as text. */
static void read_member(const char *name, char *into, size_t into_bytes) {
    const struct json_limits limits = {sizeof run.out, 8, false};
    struct json json;
    struct job_error error;
    assert_int_equal(json_parse(&json, run.out, strlen(run.out), &limits, &error), ERROR_NONE);
    const struct json_node *value = json_member(&json.nodes[0], name);
    assert_non_null(value);
    snprintf(into, into_bytes, "%.*s", (int)value->size, value->text);
    json_deinit(&json);
}

static void continues_a_prompt_and_tells_the_speed_on_stderr(void **state) {
    assert_int_equal(RUN("generate", "--model", model, "--prompt", "abc", "--max-tokens", "5"),
                     COMMAND_EXIT_OK);
    assert_true(strlen(run.out) > 1);
    run_command_assert_said(&run, "5 tokens at ");
    run_command_assert_said(&run, "finish reason length");
}

static void gives_the_same_answer_for_the_same_seed(void **state) {
    char first[SHA256_HEX_BYTES], again[SHA256_HEX_BYTES], other[SHA256_HEX_BYTES], tokens[16];
    assert_int_equal(RUN("generate", "--model", model, "--prompt", "abc", "--max-tokens", "20",
                         "--temperature", "2", "--seed", "7", "--threads", "1", "--json"),
                     COMMAND_EXIT_OK);
    read_member("answer_sha256", first, sizeof first);
    assert_non_null(strstr(run.out, "\"solution\":null")); /* a prompt sets no problem */
    read_member("completion_tokens", tokens, sizeof tokens);
    assert_string_equal(tokens, "20");
    assert_int_equal(RUN("generate", "--model", model, "--prompt", "abc", "--max-tokens", "20",
                         "--temperature", "2", "--seed", "7", "--threads", "2", "--json"),
                     COMMAND_EXIT_OK);
    read_member("answer_sha256", again, sizeof again);
    assert_string_equal(first, again);
    assert_int_equal(RUN("generate", "--model", model, "--prompt", "abc", "--max-tokens", "20",
                         "--temperature", "2", "--seed", "8", "--json"),
                     COMMAND_EXIT_OK);
    read_member("answer_sha256", other, sizeof other);
    assert_string_not_equal(first, other);
}

static void solves_a_problem_from_a_file(void **state) {
    char *path = test_tmp_path("problem.md");
    FILE *file = fopen(path, "w");
    fputs("# Sum\n\nAdd two numbers.\n", file);
    fclose(file);
    assert_int_equal(RUN("generate", "--model", model, "--problem", path, "--max-tokens", "3",
                         "--max-model-len", "1024", "--json"),
                     COMMAND_EXIT_OK);
    char tokens[16];
    read_member("prompt_tokens", tokens, sizeof tokens);
    assert_true(atoi(tokens) > 20); /* the template stands around it */
    assert_non_null(strstr(run.out, "\"solution\":{\"analysis\":"));
    assert_non_null(strstr(run.out, "\"complete\":false")); /* cut by --max-tokens */
    assert_non_null(strstr(run.out, "\"text\":\"## Approach\\n"));
    assert_non_null(strstr(run.out, "\"prompt_version\":\"en-1\""));
    free(path);
}

static void says_what_is_wrong_by_its_exit_code(void **state) {
    assert_int_equal(RUN("generate", "--model", model), COMMAND_EXIT_USAGE);
    run_command_assert_said(&run, "--prompt");
    assert_int_equal(RUN("generate", "--prompt", "x"), COMMAND_EXIT_USAGE);
    run_command_assert_said(&run, "--model");
    assert_int_equal(RUN("generate", "--model", model, "--prompt", ""), COMMAND_EXIT_USAGE);
    assert_int_equal(RUN("generate", "--model", "/dev/null", "--prompt", "x"),
                     COMMAND_EXIT_BAD_MODEL);
    assert_int_equal(RUN("generate", "--model", model, "--prompt", "x", "--policy", "int3"),
                     COMMAND_EXIT_USAGE);
    assert_int_equal(RUN("generate", "--model", model, "--prompt", "x", "--device", "cuda:0"),
                     COMMAND_EXIT_NO_DEVICE);
    assert_int_equal(
        RUN("generate", "--model", model, "--prompt", "x", "--policy", "fast", "--device", "cpu"),
        COMMAND_EXIT_NO_DEVICE);
    run_command_assert_said(&run, "policy fast needs a CUDA device: its 16-bit products are ");
    assert_int_equal(RUN("generate", "--model", model, "--prompt", "x", "--max-model-len", "16",
                         "--max-tokens", "2048"),
                     COMMAND_EXIT_OK);
    assert_int_equal(RUN("generate", "--model", model, "--prompt",
                         "a prompt that is longer than sixteen tokens of one byte each",
                         "--max-model-len", "16"),
                     COMMAND_EXIT_USAGE);
    run_command_assert_said(&run, "prompt_too_long");
}

TEST_MAIN_WITH(write_model, free_model,
               cmocka_unit_test(continues_a_prompt_and_tells_the_speed_on_stderr),
               cmocka_unit_test(gives_the_same_answer_for_the_same_seed),
               cmocka_unit_test(solves_a_problem_from_a_file),
               cmocka_unit_test(says_what_is_wrong_by_its_exit_code))
