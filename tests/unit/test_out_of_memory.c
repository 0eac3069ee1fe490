/* Every allocation of the wire layer, of the text side of the engine and of engines fails once, one
 * at a time: the answer is always "out of memory", never a crash, and nothing leaks (the sanitizer
 * build looks). The linker sends the layers' allocations here; see the rule for this test in the
 * Makefile. Those of cJSON and libcrypto come by the hooks that both offer. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "engine/chat_template.h"
#include "engine/engine.h"
#include "engine/tokenizer.h"
#include "schemas/job.h"
#include "schemas/job_params.h"
#include "schemas/result.h"
#include "schemas/sha256.h"
#include "schemas/solution.h"
#include "schemas/status.h"
#include "tests/support/engine_run.h"
#include "tests/support/test.h"
#include "tests/support/tiny_llama.h"
#include "tests/support/tiny_vocabulary.h"

static long allocations_left = -1; /* the one after them fails; -1: none does */
static long allocations_seen;
static bool libcrypto_was_failed;

static bool allocation_fails(void) {
    allocations_seen++;
    const bool fails = allocations_left >= 0 && allocations_left-- == 0;
    if (fails) {
        errno = ENOMEM;
    }
    return fails;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t size);

void *__wrap_malloc(size_t size) {
    return allocation_fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
    return allocation_fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *block, size_t size) {
    return allocation_fails() ? NULL : __real_realloc(block, size);
}

char *__wrap_strdup(const char *text) {
    return allocation_fails() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t size) {
    return allocation_fails() ? NULL : __real_strndup(text, size);
}

static void *crypto_malloc(size_t size, const char *file, int line) {
    void *block = __wrap_malloc(size);
    libcrypto_was_failed |= block == NULL;
    return block;
}

static void *crypto_realloc(void *block, size_t size, const char *file, int line) {
    void *moved = __wrap_realloc(block, size);
    libcrypto_was_failed |= moved == NULL;
    return moved;
}

static void crypto_free(void *block, const char *file, int line) {
    free(block);
}

/* libcrypto sets itself up at its first hash, and once for all: that is let pass. */
static int hook_libraries(void **state) {
    cJSON_Hooks hooks = {__wrap_malloc, free};
    uint8_t digest[SHA256_BYTES];
    cJSON_InitHooks(&hooks);
    return CRYPTO_set_mem_functions(crypto_malloc, crypto_realloc, crypto_free) == 1 &&
                   sha256_of("", 0, digest)
               ? 0
               : -1;
}

/* Makes an encoded job outgrow the writer's first buffer. */
#define LONG                                                                               \
    "one one one one one one one one one one one one one one one one one one one one one " \
    "two two two two two two two two two two two two two two two two two two two two two " \
    "six six six six six six six six six six six six six six six six six six six six six "

static const char *const jobs[] = {
    "{\"request_id\":\"r\",\"problem\":{\"statement\":\"s\",\"title\":\"t\",\"examples\":[{\"input\":"
    "\"i\",\"output\":\"o\",\"explanation\":\"e\"},{\"input\":\"i\",\"output\":\"o\"}],"
    "\"constraints\":\"0123456789" LONG
    "\"},\"params\":{\"stop\":[\"a\",\"b\"]},\"tenant\":\"t\",\"reply_topic\":"
    "\"x\",\"metadata\":{\"a\":1}}",
    "{\"request_id\":\"r\",\"prompt\":\"p\",\"metadata\":{\"a\":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,"
    "15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40]}}",
    "{\"request_id\":\"r\",\"messages\":[{\"role\":\"user\",\"content\":\"c\"},{\"role\":\"user\","
    "\"content\":\"c\"}],\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,"
    "\"j\":1,\"k\":1,\"l\":1,\"m\":1,\"n\":1,\"o\":1,\"p\":1,\"q\":1}"};

/* Runs `attempt` with its first, second, third... allocation failing until one run needs fewer.
 * libcrypto may do without some of its own. */
static void fail_each_allocation(bool (*attempt)(const char *text), const char *text,
                                 long at_least) {
    for (long failing = 0;; failing++) {
        allocations_seen = 0;
        allocations_left = failing;
        libcrypto_was_failed = false;
        const bool worked = attempt(text);
        const bool failed_one = allocations_left < 0;
        allocations_left = -1;
        assert_true(worked == !failed_one || libcrypto_was_failed);
        if (!failed_one) {
            assert_in_range(allocations_seen, at_least, 1000);
            return;
        }
    }
}

static bool decode_job(const char *text) {
    static const struct job zero;
    const struct job_limits limits = job_limits_default();
    struct job job;
    struct job_error error;
    const enum error_code code = job_decode(text, strlen(text), &limits, &job, &error);
    if (code != ERROR_NONE) {
        assert_int_equal(code, ERROR_INTERNAL);
        assert_memory_equal(&job, &zero, sizeof job);
    }
    job_deinit(&job);
    return code == ERROR_NONE;
}

static void decoding_a_job_survives_each_failed_allocation(void **state) {
    static const long at_least[] = {16, 5, 6};
    for (size_t i = 0; i < 3; i++) {
        fail_each_allocation(decode_job, jobs[i], at_least[i]);
    }
}

static struct job whole_job;

static bool encode_job(const char *text) {
    char *encoded = job_encode(&whole_job);
    const bool worked = encoded != NULL;
    free(encoded);
    return worked;
}

static bool copy_params(const char *text) {
    struct job_params copy;
    const bool worked = job_params_copy(&whole_job.params, &copy);
    job_params_deinit(&copy);
    return worked;
}

static void encoding_and_copying_a_job_survive_each_failed_allocation(void **state) {
    const struct job_limits limits = job_limits_default();
    struct job_error error;
    assert_int_equal(job_decode(jobs[0], strlen(jobs[0]), &limits, &whole_job, &error), ERROR_NONE);
    fail_each_allocation(encode_job, NULL, 2);
    fail_each_allocation(copy_params, NULL, 2);
    job_deinit(&whole_job);
}

static bool decode_and_encode_result(const char *text) {
    struct result result;
    struct job_error error;
    const enum error_code code = result_decode(text, strlen(text), &result, &error);
    char *encoded = NULL;
    if (code == ERROR_NONE) {
        size_t size;
        encoded = result_encode(&result, &size);
    } else {
        assert_int_equal(code, ERROR_INTERNAL);
    }
    const bool worked = encoded != NULL;
    free(encoded);
    result_deinit(&result);
    return worked;
}

static void results_survive_each_failed_allocation(void **state) {
    const char *text =
        "{\"request_id\":\"r\",\"status\":\"done\",\"finish_reason\":\"stop\",\"text\":\"t\","
        "\"solution\":{\"analysis\":\"a\",\"time_complexity\":\"1\",\"space_complexity\":\"1\","
        "\"code\":\"c\",\"pitfalls\":\"p\"},\"params\":{\"stop\":[\"a\"]},\"metadata\":{\"a\":1}}";
    fail_each_allocation(decode_and_encode_result, text, 11);
}

static bool take_apart(const char *text) {
    static const struct result_solution zero;
    struct result_solution solution;
    const enum solution_status status = solution_parse(text, "c", false, &solution);
    if (status != SOLUTION_OK) {
        assert_int_equal(status, SOLUTION_NO_MEMORY);
        assert_memory_equal(&solution, &zero, sizeof solution);
    }
    solution_deinit(&solution);
    return status == SOLUTION_OK;
}

static void taking_an_answer_apart_survives_each_failed_allocation(void **state) {
    fail_each_allocation(take_apart,
                         "## Approach\n" LONG "\n" LONG "\n## Complexity\nTime: O(1)\nSpace: O(1)\n"
                         "## Code\n```c\nx\n```\n## Pitfalls\nnone\n",
                         6);
}

static bool fill_and_encode_status(const char *text) {
    struct status status;
    status_init(&status, "r");
    char *encoded = NULL;
    if (status_set_field(&status, "text", 4, text, strlen(text)) &&
        status_set_field(&status, "result", 6, "{\"a\":1}", 7)) {
        encoded = status_encode(&status);
    }
    const bool worked = encoded != NULL;
    free(encoded);
    status_deinit(&status);
    return worked;
}

static void statuses_survive_each_failed_allocation(void **state) {
    fail_each_allocation(fill_and_encode_status, "some text", 5);
}

static bool read_id(const char *text) {
    char id[JOB_ID_BYTES_MAX + 1];
    return job_read_request_id(text, strlen(text), JOB_VALUE_BYTES_MAX, id);
}

static void reading_an_id_survives_each_failed_allocation(void **state) {
    fail_each_allocation(read_id, jobs[2], 3);
}

static struct tiny_vocabulary tiny;

static enum text_status open_and_render(struct tokenizer **tokenizer, const char *jinja) {
    struct chat_template chat;
    const struct chat_message messages[] = {{{"user", 4}, {"two words", 9}, 0}};
    uint32_t ids[64];
    struct token_buffer out = {ids, 0, 64};
    char err[64];
    enum text_status status = tokenizer_open(&tiny.spec, tokenizer, err, sizeof err);
    if (status == TEXT_OK) {
        status = chat_template_init(&chat, *tokenizer, jinja, strlen(jinja), err, sizeof err);
    }
    if (status == TEXT_OK) {
        status = chat_template_render(&chat, messages, 1, true, &out, NULL, err, sizeof err);
        assert_int_equal(out.count == 0, status != TEXT_OK);
    }
    return status;
}

static bool make_prompt(const char *jinja) {
    struct tokenizer *tokenizer = NULL;
    const enum text_status status = open_and_render(&tokenizer, jinja);
    assert_true(status == TEXT_OK || status == TEXT_NO_MEMORY);
    tokenizer_close(tokenizer);
    return status == TEXT_OK;
}

static void making_a_prompt_survives_each_failed_allocation(void **state) {
    tiny_vocabulary_init(&tiny);
    tiny_vocabulary_merge(&tiny, "t", "w");
    fail_each_allocation(make_prompt,
                         "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
                         "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
                         "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
                         8);
    tiny_vocabulary_deinit(&tiny);
}

/* What a test prepares for an attempt is no part of it. */
static struct job prompt_job(void) {
    const long left = allocations_left;
    allocations_left = -1;
    struct job job = engine_run_job("memory", "Say a word.", 200);
    job.params.repetition_penalty = 1.1f;
    job.params.stop[0] = strdup("never in the answer");
    job.params.stop_count = 1;
    allocations_left = left;
    return job;
}

/* The answer's text outgrows its first buffer. */
static bool run_engine(struct engine *engine) {
    struct job job = prompt_job();
    struct job_error rejected;
    struct engine_event finished;
    const enum engine_status status = engine_submit(engine, 0, &job, &rejected);
    if (status != ENGINE_OK) {
        assert_int_equal(status, ENGINE_BUSY);
        assert_string_equal(job.request_id, "memory");
        job_deinit(&job);
        return false;
    }
    engine_run_finish(engine, NULL, &finished, 1);
    const bool worked = finished.error.code == ERROR_NONE;
    assert_true(worked || finished.error.code == ERROR_INTERNAL);
    assert_non_null(finished.text);
    engine_run_free(&finished, 1);
    return worked;
}

static bool open_and_run_engine(const char *path) {
    struct engine_options options = {.model_path = path,
                                     .device = "cpu",
                                     .threads = 1,
                                     .max_batch_size = 2,
                                     .max_queue_size = 2,
                                     .max_queue_delay_ms = -1,
                                     .max_model_len = 256};
    struct engine *engine = NULL;
    char err[256];
    const enum engine_status status = engine_open(&options, &engine, err, sizeof err);
    assert_int_equal(status == ENGINE_OK, engine != NULL);
    const bool worked = status == ENGINE_OK && run_engine(engine);
    engine_close(engine);
    return worked;
}

static void an_engine_survives_each_failed_allocation(void **state) {
    char *path = tiny_llama_write(NULL);
    fail_each_allocation(open_and_run_engine, path, 50);
    free(path);
}

static bool open_and_run_null(const char *text) {
    struct engine_null_options options = {.max_queue_size = 2};
    struct engine *engine = NULL;
    char err[256];
    const enum engine_status status = engine_null_open(&options, &engine, err, sizeof err);
    assert_int_equal(status == ENGINE_OK, engine != NULL);
    const bool worked = status == ENGINE_OK && run_engine(engine);
    engine_close(engine);
    return worked;
}

static void an_engine_without_a_model_survives_each_failed_allocation(void **state) {
    fail_each_allocation(open_and_run_null, NULL, 7);
}

TEST_MAIN_WITH(hook_libraries, NULL,
               cmocka_unit_test(decoding_a_job_survives_each_failed_allocation),
               cmocka_unit_test(encoding_and_copying_a_job_survive_each_failed_allocation),
               cmocka_unit_test(results_survive_each_failed_allocation),
               cmocka_unit_test(taking_an_answer_apart_survives_each_failed_allocation),
               cmocka_unit_test(statuses_survive_each_failed_allocation),
               cmocka_unit_test(reading_an_id_survives_each_failed_allocation),
               cmocka_unit_test(making_a_prompt_survives_each_failed_allocation),
               cmocka_unit_test(an_engine_survives_each_failed_allocation),
               cmocka_unit_test(an_engine_without_a_model_survives_each_failed_allocation))
