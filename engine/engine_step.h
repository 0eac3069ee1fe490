/* The engine's step: the table of contents of what happens between two looks at the commands.
 * Private to engine/; one thread, the engine's. */
#ifndef SOLFLEET_ENGINE_ENGINE_STEP_H
#define SOLFLEET_ENGINE_ENGINE_STEP_H

#include "engine/engine_real.h"

/* The books of the sequences' pages, for the scheduler; real is borrowed for as long as it
 * lives. */
struct scheduler_pages engine_step_pages(struct engine_real *real);

/* As engine_methods.step. */
enum engine_status engine_step_run(struct engine_real *real, bool *worked, int64_t *wake_ns,
                                   char *err, size_t err_bytes) __attribute__((warn_unused_result));

#endif
