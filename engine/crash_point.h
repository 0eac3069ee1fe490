/* A crash point: a named place where a test may have the process killed, as if power had failed
 * just there. Exists only in builds with SOLFLEET_CRASH_POINTS (`make crash`); elsewhere the calls
 * are no code at all, and their arguments are not evaluated.
 *
 * The environment says where: SOLFLEET_CRASH_AT=NAME[:N] kills the process with SIGKILL when it
 * passes NAME for the N-th time (1 without N). SOLFLEET_CRASH_PROMPT=TEXT lets only jobs whose
 * prompt, statement or messages hold TEXT count at the points that have a job at hand, so that a
 * job can be poison wherever it runs.
 *
 * Any thread. Refuses to know what the names mean; the order of a job's life is: received, claimed,
 * batched, in_prefill, in_decode, sealed, published, status_written. */
#ifndef SOLFLEET_ENGINE_CRASH_POINT_H
#define SOLFLEET_ENGINE_CRASH_POINT_H

#include <stdbool.h>

#include "schemas/job.h"

#ifdef SOLFLEET_CRASH_POINTS

void crash_point(const char *name);
/* As crash_point, but a job that is not marked does not count. */
void crash_point_of(const char *name, bool is_marked);
/* Whether the job is meant: true for all without SOLFLEET_CRASH_PROMPT. */
bool crash_point_marks(const struct job *job);

#else

#define crash_point(name) ((void)0)
#define crash_point_of(name, is_marked) ((void)0)
#define crash_point_marks(job) false

#endif

#endif
