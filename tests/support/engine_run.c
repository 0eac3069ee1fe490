#include "tests/support/engine_run.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"

#define ENGINE_RUN_STEPS_MAX 100000

struct job engine_run_job(const char *request_id, const char *prompt, uint32_t max_tokens) {
    struct job job;
    job_init(&job);
    snprintf(job.request_id, sizeof job.request_id, "%s", request_id);
    job.kind = JOB_PROMPT;
    job.prompt = strdup(prompt);
    job.params.max_tokens = max_tokens;
    assert_true(job_default_seed(request_id, &job.params.seed));
    return job;
}

void engine_run_step(struct engine *engine, struct clock *clock, int64_t step_ns) {
    char err[256] = "";
    bool worked = false;
    if (engine_step(engine, &worked, err, sizeof err) != ENGINE_OK) {
        fail_msg("engine_step: %s", err);
    }
    if (clock != NULL) {
        clock_advance(clock, step_ns);
    }
}

void engine_run_collect(struct engine *engine, struct clock *clock, int64_t step_ns,
                        struct engine_event *events, size_t count) {
    size_t got = 0;
    for (size_t steps = 0; got < count; steps++) {
        assert_true(steps < ENGINE_RUN_STEPS_MAX);
        engine_run_step(engine, clock, step_ns);
        got += engine_take_events(engine, events + got, count - got);
    }
}

void engine_run_finish(struct engine *engine, struct clock *clock, struct engine_event *finished,
                       size_t count) {
    size_t ended = 0;
    memset(finished, 0, count * sizeof *finished);
    for (size_t steps = 0; ended < count; steps++) {
        struct engine_event event;
        assert_true(steps < ENGINE_RUN_STEPS_MAX);
        engine_run_step(engine, clock, CLOCK_NS_PER_MS);
        while (engine_take_events(engine, &event, 1) == 1) {
            if (event.kind != ENGINE_EVENT_FINISHED) {
                engine_event_deinit(&event);
                continue;
            }
            assert_true(event.ticket < count);
            assert_null(finished[event.ticket].text); /* only one end a ticket */
            finished[event.ticket] = event;
            ended++;
        }
    }
}

void engine_run_free(struct engine_event *events, size_t count) {
    for (size_t i = 0; i < count; i++) {
        engine_event_deinit(&events[i]);
    }
}
