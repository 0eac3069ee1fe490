/* Jobs through an engine on the test's own thread: submit, step, collect.
 *
 * Every failure fails the running case. Not for threads: engines without engine_start only. */
#ifndef SOLFLEET_TESTS_SUPPORT_ENGINE_RUN_H
#define SOLFLEET_TESTS_SUPPORT_ENGINE_RUN_H

#include <stddef.h>
#include <stdint.h>

#include "engine/clock.h"
#include "engine/engine.h"

/* A job with a prompt of its own, as job_decode would give it. */
struct job engine_run_job(const char *request_id, const char *prompt, uint32_t max_tokens);

void engine_run_step(struct engine *engine, struct clock *clock, int64_t step_ns);

/* Steps (advancing the clock, unless NULL, by step_ns) until `count` events of any kind came. */
void engine_run_collect(struct engine *engine, struct clock *clock, int64_t step_ns,
                        struct engine_event *events, size_t count);
/* Steps until all of `count` tickets are finished; the FINISHED event of ticket t is at [t]. */
void engine_run_finish(struct engine *engine, struct clock *clock, struct engine_event *finished,
                       size_t count);
void engine_run_free(struct engine_event *events, size_t count);

#endif
