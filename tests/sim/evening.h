/* An evening of a judge's contest: when jobs come, of whom, how urgent, how long, with what time.
 *
 * Pure and repeatable: the same seed gives the same jobs. Lengths are those of HumanEval
 * (lengths.tsv). Refuses to know how the jobs are served. */
#ifndef SOLFLEET_TESTS_SIM_EVENING_H
#define SOLFLEET_TESTS_SIM_EVENING_H

#include <stdbool.h>
#include <stdint.h>

enum evening_kind {
    EVENING_INTERACTIVE, /* somebody waits before a page: priority 1, 60 s */
    EVENING_CONTEST,     /* a contest's problem is asked for: priority 5, 5 minutes */
    EVENING_BULK,        /* an archive is worked off: priority 9, no deadline */
    EVENING_KINDS
};

struct evening_job {
    enum evening_kind kind;
    uint32_t priority, prompt_tokens, answer_tokens, answer_max;
    uint64_t tenant;
    int64_t arrival_ns, deadline_ns; /* 0 = none */
};

struct evening {
    struct evening_job *jobs; /* owned, by arrival */
    uint32_t count;
};

/* `load`: 1 = about what the device of the simulation can do in all. False: no such file, or no
 * memory. */
bool evening_make(struct evening *evening, const char *lengths_path, uint64_t seed, double load);
void evening_free(struct evening *evening);

#endif
