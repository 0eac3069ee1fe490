/* Where the time of steps goes: a profile's figures, by operation, for people.
 *
 * Pure; any thread. Refuses to know how steps are made and
 * how figures are printed. */
#ifndef SOLFLEET_ENGINE_STEP_PROFILE_H
#define SOLFLEET_ENGINE_STEP_PROFILE_H

#include "kernels/profile.h"

#define STEP_PROFILE_LINES_MAX (PROFILE_LINES_MAX + 1)

struct step_profile_line {
    char name[OP_WATCH_NAME_BYTES_MAX]; /* "linear_i8 [3072, 576]"; "the rest" is last */
    double ms_per_step, share;          /* share: of the steps' wall time */
    double calls_per_step;
    double weight_gb_per_s; /* packed bytes of weights by time; 0 without weights */
    double tera_ops_per_s;  /* of the weights' multiply-adds, two each; 0 without weights */
};

struct step_profile {
    struct step_profile_line lines[STEP_PROFILE_LINES_MAX]; /* dearest first */
    size_t line_count;
    uint32_t steps;
    double wall_ms_per_step;
    double weight_mb_per_step; /* packed bytes of weights that a step goes through */
};

/* Of what was counted over `steps` steps that took `wall_ns` in all. */
void step_profile_read(const struct profile *counted, uint32_t steps, uint64_t wall_ns,
                       struct step_profile *profile);

#endif
