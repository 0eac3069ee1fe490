#include "tests/support/tiny_engine.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/test.h"
#include "tests/support/tiny_llama.h"

static char *tiny_engine_path;

int tiny_engine_write_model(void **state) {
    (void)state;
    tiny_engine_path = tiny_llama_write(NULL);
    return tiny_engine_path == NULL;
}

int tiny_engine_write_small_model(void **state) {
    const struct tiny_llama_options options = {.layers = 1};
    (void)state;
    tiny_engine_path = tiny_llama_write(&options);
    return tiny_engine_path == NULL;
}

int tiny_engine_free_model(void **state) {
    (void)state;
    free(tiny_engine_path);
    tiny_engine_path = NULL;
    return 0;
}

struct engine_options tiny_engine_options(void) {
    return (struct engine_options){.model_path = tiny_engine_path,
                                   .device = "cpu",
                                   .cpu_tier = "reference",
                                   .threads = 1,
                                   .max_queue_delay_ms = -1,
                                   .poison_pages = true};
}

struct engine *tiny_engine_open(const struct engine_options *options) {
    char err[512] = "";
    struct engine *engine = NULL;
    if (engine_open(options, &engine, err, sizeof err) != ENGINE_OK) {
        fail_msg("engine_open: %s", err);
    }
    return engine;
}

struct job tiny_engine_round_job(uint32_t i, uint32_t length, uint32_t tokens) {
    char id[32], prompt[128];
    assert_true(length < sizeof prompt);
    for (uint32_t at = 0; at < length; at++) {
        prompt[at] = (char)('a' + at % (5 + i) * 3 + i);
    }
    prompt[length] = '\0';
    snprintf(id, sizeof id, "round-%u", i);
    return engine_run_job(id, prompt, tokens);
}

void tiny_engine_run(struct engine *engine, struct job (*make)(uint32_t i), uint32_t count,
                     bool is_alone, struct engine_event *finished) {
    for (uint32_t i = 0; i < count; i++) {
        struct job_error rejected;
        struct job job = make(i);
        assert_int_equal(engine_submit(engine, is_alone ? 0 : i, &job, &rejected), ENGINE_OK);
        if (is_alone) {
            engine_run_finish(engine, NULL, &finished[i], 1);
        }
    }
    if (!is_alone) {
        engine_run_finish(engine, NULL, finished, count);
    }
}
