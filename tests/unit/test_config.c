#include "consumer/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/config_help.h"
#include "consumer/config_table.h"
#include "tests/support/test.h"

struct own_values {
    const char *prompt;
    double rate;
    bool loud;
};

static const struct config_option own_options[] = {
    {"prompt", CONFIG_TEXT, "hi", 0, 0, NULL, 0, offsetof(struct own_values, prompt), "the text"},
    {"rate", CONFIG_REAL, "1.5", 0, 10, NULL, 0, offsetof(struct own_values, rate), "a rate"},
    {"loud", CONFIG_BOOL, "false", 0, 0, NULL, 0, offsetof(struct own_values, loud), "shout"},
};

static struct own_values own;
static struct config config;
static char err[512];

static struct config_spec worker_spec(void) {
    return (struct config_spec){.name = "worker",
                                .command = CONFIG_WORKER,
                                .usage = "",
                                .summary = "Works.",
                                .own = own_options,
                                .own_count = sizeof own_options / sizeof own_options[0],
                                .own_values = &own,
                                .arguments_max = 2};
}

/* Reads the words after the command's name. */
static enum config_status read_words(const char *const *words, char **environment) {
    static char *argv[16];
    int argc = 0;
    argv[argc++] = (char *)"worker";
    for (; words != NULL && *words != NULL; words++) {
        argv[argc++] = (char *)*words;
    }
    config_deinit(&config);
    struct config_spec spec = worker_spec();
    err[0] = '\0';
    return config_read(&config, &spec, argc, argv, environment, err, sizeof err);
}

#define READ(...) read_words((const char *const[]){__VA_ARGS__, NULL}, NULL)
#define ENVIRONMENT(...) ((char *[]){__VA_ARGS__, NULL})

static void refuses(const char *message, enum config_status status) {
    assert_int_equal(status, CONFIG_WRONG);
    assert_string_equal(err, message);
}

static const char *file_of(const char *text) {
    static char path[512];
    char *made = test_tmp_path("config.json");
    snprintf(path, sizeof path, "%s", made);
    free(made);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    return path;
}

static void gives_every_option_its_default(void **state) {
    assert_int_equal(read_words(NULL, NULL), CONFIG_OK);
    assert_string_equal(config.brokers, "127.0.0.1:9092");
    assert_int_equal(config.max_batch_size, 32);
    assert_string_equal(config.policy, "int8");
    assert_false(config.bucket_strict);
    assert_string_equal(own.prompt, "hi");
    assert_true(own.rate == 1.5);
}

static void reads_flags_with_the_value_beside_or_behind_an_equals_sign(void **state) {
    assert_int_equal(READ("--max-batch-size", "8", "--max_queue_size=9", "--bucket-strict",
                          "--prompt", "--odd", "--rate=2"),
                     CONFIG_OK);
    assert_int_equal(config.max_batch_size, 8);
    assert_int_equal(config.max_queue_size, 9);
    assert_true(config.bucket_strict);
    assert_string_equal(own.prompt, "--odd");
    assert_true(own.rate == 2.0);
    assert_int_equal(READ("--bucket-strict", "--no-bucket-strict", "--loud"), CONFIG_OK);
    assert_false(config.bucket_strict);
    assert_true(own.loud);
}

static void prefers_flag_to_environment_to_file_to_default(void **state) {
    const char *path = file_of("{\"max_batch_size\": 3, \"max_queue_size\": 3, \"group\": \"file\","
                               " \"reply_topics\": [\"a\", \"b\"], \"bucket_strict\": true}");
    const char *words[] = {"--max-batch-size", "5", "--config", path, NULL};
    char **environment = ENVIRONMENT("SOLFLEET_MAX_BATCH_SIZE=4", "SOLFLEET_MAX_QUEUE_SIZE=4",
                                     "HOME=/", "SOLFLEET_REDIS_CLAIM_TIMEOUT_MS=7");
    assert_int_equal(read_words(words, environment), CONFIG_OK);
    assert_int_equal(config.max_batch_size, 5);
    assert_int_equal(config.max_queue_size, 4);
    assert_string_equal(config.group, "file");
    assert_string_equal(config.reply_topics, "a,b");
    assert_true(config.bucket_strict);
    assert_int_equal(config.redis_claim_timeout_ms, 7);
    assert_int_equal(config.max_batch_tokens, 4096);
}

static void finds_the_file_through_the_environment(void **state) {
    char variable[600];
    snprintf(variable, sizeof variable, "SOLFLEET_CONFIG=%s", file_of("{\"group\": \"g\"}"));
    assert_int_equal(read_words(NULL, ENVIRONMENT(variable)), CONFIG_OK);
    assert_string_equal(config.group, "g");
}

static void lets_a_profile_change_defaults_only(void **state) {
    assert_int_equal(READ("--profile", "low-concurrency", "--max-queue-delay-ms", "1"), CONFIG_OK);
    assert_int_equal(config.max_batch_size, 8);
    assert_int_equal(config.max_queue_delay_ms, 1);
    assert_int_equal(read_words(NULL, ENVIRONMENT("SOLFLEET_PROFILE=latency")), CONFIG_OK);
    assert_true(config.bucket_strict);
    assert_string_equal(config.policy, "latency");
}

static void passes_kafka_properties_through(void **state) {
    assert_int_equal(
        READ("--kafka.session.timeout.ms", "6000", "--kafka.client.id=me", "--kafka.client.id=you"),
        CONFIG_OK);
    assert_int_equal(config.kafka_count, 2);
    assert_string_equal(config.kafka[0].name, "session.timeout.ms");
    assert_string_equal(config.kafka[0].value, "6000");
    assert_string_equal(config.kafka[1].value, "you");
    char **environment = ENVIRONMENT("SOLFLEET_KAFKA_SESSION_TIMEOUT_MS=7000");
    assert_int_equal(read_words(NULL, environment), CONFIG_OK);
    assert_string_equal(config.kafka[0].name, "session.timeout.ms");
    const char *words[] = {"--config", file_of("{\"kafka.session.timeout.ms\": 8000}"), NULL};
    assert_int_equal(read_words(words, environment), CONFIG_OK);
    assert_int_equal(config.kafka_count, 1);
    assert_string_equal(config.kafka[0].value, "7000");
}

static void names_the_nearest_option_when_one_is_unknown(void **state) {
    refuses("unknown option --max-batchsize: did you mean --max-batch-size?",
            READ("--max-batchsize", "8"));
    refuses("unknown option --promt: did you mean --prompt?", READ("--promt=8"));
    refuses("unknown option --zzzzzzzzzz: see `solfleet worker --help`", READ("--zzzzzzzzzz"));
    refuses("unknown option -x: see `solfleet worker --help`", READ("-x"));
    const char *path = file_of("{\"max_batch\": 8}");
    char message[1024];
    snprintf(message, sizeof message, "unknown option %.90s: max_batch: did you mean", path);
    assert_int_equal(READ("--config", path), CONFIG_WRONG);
    assert_memory_equal(err, message, strlen(message));
}

static void warns_of_a_variable_that_is_nearly_an_option(void **state) {
    assert_int_equal(read_words(NULL, ENVIRONMENT("SOLFLEET_MAX_BATCHSIZE=8")), CONFIG_OK);
    assert_int_equal(config.warning_count, 1);
    assert_string_equal(config.warnings[0],
                        "SOLFLEET_MAX_BATCHSIZE is unknown and ignored: did you "
                        "mean SOLFLEET_MAX_BATCH_SIZE?");
    assert_int_equal(read_words(NULL, ENVIRONMENT("SOLFLEET_SERVICE_PORT_HTTPS=1")), CONFIG_OK);
    assert_int_equal(config.warning_count, 0);
}

static void says_what_names_of_other_servers_are_called_here(void **state) {
    assert_int_equal(read_words(NULL, ENVIRONMENT("SOLFLEET_TEMPERATURE=1", "TOP_P=1",
                                                  "SOLFLEET_STOP_TOKEN_ID=9")),
                     CONFIG_OK);
    assert_int_equal(config.warning_count, 2); /* TOP_P may be anybody's */
    assert_non_null(strstr(config.warnings[0], "here it is SOLFLEET_DEFAULT_TEMPERATURE"));
    assert_non_null(strstr(config.warnings[1], "here it is SOLFLEET_DEFAULT_STOP_TOKEN_IDS"));
    assert_true(config.default_temperature == 0.7);
    refuses("unknown option --stop-token-id: did you mean --default-stop-token-ids?",
            READ("--stop-token-id", "9"));
    refuses("unknown option --max-num-seqs: did you mean --max-batch-size?",
            READ("--max-num-seqs=9"));
}

static void reads_an_env_file_between_environment_and_json_file(void **state) {
    char *made = test_tmp_path(".env");
    char text[1024];
    snprintf(text, sizeof text,
             "SOLFLEET_CONFIG='%s'\nSOLFLEET_MAX_BATCH_SIZE=4\nSOLFLEET_MAX_QUEUE_SIZE=\"4\"\n"
             "export SOLFLEET_MAX_BATCH_TOKENS=44 # few\nMAX_MODEL_LEN=9\nHOME=x\n"
             "SOLFLEET_KAFKA_SESSION_TIMEOUT_MS=7000\n",
             file_of("{\"max_batch_size\": 3, \"group\": \"file\"}"));
    FILE *file = fopen(made, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    const char *words[] = {"--max-batch-tokens", "55", "--env-file", made, NULL};
    assert_int_equal(read_words(words, ENVIRONMENT("SOLFLEET_MAX_QUEUE_SIZE=5")), CONFIG_OK);
    assert_int_equal(config.max_batch_size, 4);
    assert_int_equal(config.max_queue_size, 5);
    assert_int_equal(config.max_batch_tokens, 55);
    assert_string_equal(config.group, "file");
    assert_int_equal(config.max_model_len, 0);
    assert_string_equal(config.kafka[0].value, "7000");
    assert_int_equal(config.warning_count, 1);
    assert_non_null(strstr(config.warnings[0], ":5: MAX_MODEL_LEN is ignored: here it is "
                                               "SOLFLEET_MAX_MODEL_LEN"));
    free(made);
}

static void names_the_line_of_an_env_file_that_is_wrong(void **state) {
    const char *path = file_of("\nSOLFLEET_MAX_BATCH_SIZE=x\n");
    char message[1024];
    snprintf(message, sizeof message,
             "%.90s:2: SOLFLEET_MAX_BATCH_SIZE: 'x' is not a whole number in 1..1024", path);
    refuses(message, READ("--env-file", path));
    assert_int_equal(READ("--env-file", "/nowhere/at/all"), CONFIG_WRONG);
    assert_int_equal(READ("--env-file", ""), CONFIG_OK);
}

static void refuses_values_out_of_range_naming_where_they_came_from(void **state) {
    refuses("--max-batch-size: '0' is not a whole number in 1..1024", READ("--max-batch-size=0"));
    refuses("--max-batch-size: '8x' is not a whole number in 1..1024", READ("--max-batch-size=8x"));
    refuses("--max-batch-size: '' is not a whole number in 1..1024", READ("--max-batch-size="));
    refuses("--engine: 'nul' is not one of real|null: did you mean null?", READ("--engine", "nul"));
    refuses("--engine: 'zzzz' is not one of real|null", READ("--engine", "zzzz"));
    refuses("--engine: '' is not one of real|null", READ("--engine="));
    refuses("--bucket-strict: 'maybe' is not true or false", READ("--bucket-strict=maybe"));
    refuses("--rate: 'nan' is not a number in 0..10", READ("--rate", "nan"));
    refuses("--max-batch-size needs a value", READ("--max-batch-size"));
    refuses("--no-bucket-strict takes no value", READ("--no-bucket-strict=true"));
    refuses("SOLFLEET_MAX_BATCH_SIZE: 'x' is not a whole number in 1..1024",
            read_words(NULL, ENVIRONMENT("SOLFLEET_MAX_BATCH_SIZE=x")));
}

static void refuses_a_file_that_is_not_one_object_of_options(void **state) {
    static const char *const bad[] = {"",
                                      "[]",
                                      "{\"group\": \"a\", \"group\": \"b\"}",
                                      "{\"group\": {}}",
                                      "{\"reply_topics\": [1]}",
                                      "{\"max_batch_size\": \"x\"}",
                                      "{\"group\": null}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(READ("--config", file_of(bad[i])), CONFIG_WRONG);
        assert_string_not_equal(err, "");
    }
    refuses("/nowhere/at/all: No such file or directory", READ("--config", "/nowhere/at/all"));
}

static void gathers_arguments_and_counts_them(void **state) {
    assert_int_equal(READ("a", "--loud", "-"), CONFIG_OK);
    assert_int_equal(config.argument_count, 2);
    assert_string_equal(config.arguments[1], "-");
    assert_int_equal(READ("--", "--loud"), CONFIG_OK);
    assert_string_equal(config.arguments[0], "--loud");
    assert_false(own.loud);
    assert_int_equal(READ("a", "b", "c"), CONFIG_WRONG);
}

static void finds_names_in_a_list(void **state) {
    assert_true(config_list_has("a,bc", "a"));
    assert_true(config_list_has("a,bc", "bc"));
    assert_false(config_list_has("a,bc", "b"));
    assert_false(config_list_has("a,bc", "c"));
    assert_false(config_list_has("", ""));
}

static void documents_every_option(void **state) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    config_help_markdown(out);
    fclose(out);
    for (size_t i = 0; i < config_table_option_count; i++) {
        char row[96];
        snprintf(row, sizeof row, "| `%s` | ", config_table_options[i].name);
        assert_non_null(strstr(text, row));
    }
    free(text);
}

static int forget(void **state) {
    config_deinit(&config);
    return 0;
}

TEST_MAIN_WITH(NULL, forget, cmocka_unit_test(gives_every_option_its_default),
               cmocka_unit_test(reads_flags_with_the_value_beside_or_behind_an_equals_sign),
               cmocka_unit_test(prefers_flag_to_environment_to_file_to_default),
               cmocka_unit_test(finds_the_file_through_the_environment),
               cmocka_unit_test(lets_a_profile_change_defaults_only),
               cmocka_unit_test(passes_kafka_properties_through),
               cmocka_unit_test(names_the_nearest_option_when_one_is_unknown),
               cmocka_unit_test(warns_of_a_variable_that_is_nearly_an_option),
               cmocka_unit_test(says_what_names_of_other_servers_are_called_here),
               cmocka_unit_test(reads_an_env_file_between_environment_and_json_file),
               cmocka_unit_test(names_the_line_of_an_env_file_that_is_wrong),
               cmocka_unit_test(refuses_values_out_of_range_naming_where_they_came_from),
               cmocka_unit_test(refuses_a_file_that_is_not_one_object_of_options),
               cmocka_unit_test(gathers_arguments_and_counts_them),
               cmocka_unit_test(finds_names_in_a_list), cmocka_unit_test(documents_every_option))
