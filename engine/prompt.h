/* The built-in prompt: the messages that ask a model to solve a programming problem.
 *
 * Two messages: the system's says in which form to answer, the user's holds the problem and nothing
 * of ours but the names of its parts; the answer is begun with its first heading. Pure functions of
 * a problem; any thread. What is said stands in prompt_text.h. Refuses to know templates and
 * tokens. */
#ifndef SOLFLEET_ENGINE_PROMPT_H
#define SOLFLEET_ENGINE_PROMPT_H

#include <stddef.h>

#include "engine/prompt_text.h"
#include "schemas/job.h"

/* The version of jobs that bring their own messages. */
#define PROMPT_VERSION_NONE "none"

/* By the language that the answer is to have; JOB_ANSWER_AUTO is Chinese where at least a tenth of
 * the letters of title and statement are Chinese characters, and English otherwise. */
const struct prompt_text *prompt_choose(const struct job_problem *problem);

/* A message: text owned by the caller (free()), its length in *bytes; NULL when memory ran out. The
 * system's begins with text->system, which is the same for every job. */
char *prompt_build_system(const struct prompt_text *text, const struct job_problem *problem,
                          size_t *bytes) __attribute__((warn_unused_result));
char *prompt_build_problem(const struct prompt_text *text, const struct job_problem *problem,
                           size_t *bytes) __attribute__((warn_unused_result));

#endif
