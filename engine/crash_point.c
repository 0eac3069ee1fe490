#include "engine/crash_point.h"

#ifdef SOLFLEET_CRASH_POINTS

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* The one piece of mutable state outside a struct: it must reach every thread, and dies with the
 * process that it is there to end. */
static atomic_ullong crash_point_passes;

static bool crash_point_is_chosen(const char *name, unsigned long long *wanted) {
    const char *chosen = getenv("SOLFLEET_CRASH_AT");
    size_t bytes = strlen(name);
    if (chosen == NULL || strncmp(chosen, name, bytes) != 0) {
        return false;
    }
    *wanted = chosen[bytes] == ':' ? strtoull(chosen + bytes + 1, NULL, 10) : 1;
    return chosen[bytes] == ':' || chosen[bytes] == '\0';
}

void crash_point(const char *name) {
    unsigned long long wanted;
    if (crash_point_is_chosen(name, &wanted) &&
        atomic_fetch_add(&crash_point_passes, 1) + 1 == wanted) {
        raise(SIGKILL);
    }
}

void crash_point_of(const char *name, bool is_marked) {
    if (is_marked) {
        crash_point(name);
    }
}

bool crash_point_marks(const struct job *job) {
    const char *mark = getenv("SOLFLEET_CRASH_PROMPT");
    if (mark == NULL) {
        return true;
    }
    switch (job->kind) {
    case JOB_PROBLEM: return strstr(job->problem.statement, mark) != NULL;
    case JOB_PROMPT: return strstr(job->prompt, mark) != NULL;
    case JOB_MESSAGES:
        for (uint32_t i = 0; i < job->message_count; i++) {
            if (strstr(job->messages[i].content, mark) != NULL) {
                return true;
            }
        }
        return false;
    }
    return false;
}

#endif
