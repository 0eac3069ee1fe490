/* The built-in prompt: the messages that ask a model to solve a programming problem.
 *
 * Pure functions of a problem; any thread. Everything a model is told by us stands in prompt.c and
 * nowhere else, under one version: a change of a single byte needs a new version, for results say
 * by which prompt they were made. Refuses to know templates and tokens. */
#ifndef SOLFLEET_ENGINE_PROMPT_H
#define SOLFLEET_ENGINE_PROMPT_H

#include <stdbool.h>
#include <stddef.h>

#include "schemas/job.h"

const char *prompt_version(void);

/* What the system message says; the same for every job and tenant. Static storage. */
const char *prompt_system(void);

/* The user's message for a problem: text owned by the caller (free()), its length in *bytes; NULL
 * when memory ran out. */
char *prompt_build(const struct job_problem *problem, size_t *bytes)
    __attribute__((warn_unused_result));

#endif
