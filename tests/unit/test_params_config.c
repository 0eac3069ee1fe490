#include "consumer/params_config.h"

#include <string.h>

#include "consumer/config.h"
#include "schemas/job.h"
#include "schemas/job_params.h"
#include "tests/support/test.h"

static struct config config;
static char err[512];

static void read_words(int argc, char **argv) {
    static const struct config_spec spec = {
        .name = "worker", .command = CONFIG_WORKER, .usage = "", .summary = ""};
    config_deinit(&config);
    if (config_read(&config, &spec, argc, argv, NULL, err, sizeof err) != CONFIG_OK) {
        fail_msg("%s", err);
    }
}

#define READ(...) \
    read_words((int)(sizeof((char *[]){__VA_ARGS__}) / sizeof(char *)), (char *[]){__VA_ARGS__})

static void gives_the_contracts_defaults_unless_told_otherwise(void **state) {
    struct job_params params, expected;
    READ("worker");
    assert_true(params_config_read(&config, &params, err, sizeof err));
    job_params_init(&expected);
    assert_memory_equal(&params, &expected, sizeof params);
}

static void takes_every_default_from_its_option(void **state) {
    struct job_params params;
    READ("worker", "--default-max-tokens=7", "--default-temperature=0.3", "--default-top-p=0.5",
         "--default-top-k=0", "--default-min-p=0.1", "--default-repetition-penalty=1.1",
         "--default-presence-penalty=-0.5", "--default-frequency-penalty=0.25",
         "--default-stop-token-ids=2,32000");
    assert_true(params_config_read(&config, &params, err, sizeof err));
    assert_int_equal(params.max_tokens, 7);
    assert_true(params.temperature == 0.3f);
    assert_true(params.top_p == 0.5f);
    assert_int_equal(params.top_k, 0);
    assert_true(params.min_p == 0.1f);
    assert_true(params.repetition_penalty == 1.1f);
    assert_true(params.presence_penalty == -0.5f);
    assert_true(params.frequency_penalty == 0.25f);
    assert_int_equal(params.stop_token_count, 2);
    assert_int_equal(params.stop_token_ids[0], 2);
    assert_int_equal(params.stop_token_ids[1], 32000);
}

static void refuses_what_is_no_list_of_token_ids(void **state) {
    static const char *const bad[] = {"x", "-1", "1, 2", "1,,2", ",", "2147483648", "1.5", "+1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct job_params params;
        READ("worker", "--default-stop-token-ids", (char *)bad[i]);
        if (params_config_read(&config, &params, err, sizeof err)) {
            fail_msg("'%s' was taken", bad[i]);
        }
        assert_non_null(strstr(err, "--default-stop-token-ids"));
    }
    config_deinit(&config);
}

TEST_MAIN(cmocka_unit_test(gives_the_contracts_defaults_unless_told_otherwise),
          cmocka_unit_test(takes_every_default_from_its_option),
          cmocka_unit_test(refuses_what_is_no_list_of_token_ids))
