#include "engine/step_profile.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int step_profile_dearer(const void *a, const void *b) {
    const struct step_profile_line *left = a, *right = b;
    return (left->ms_per_step < right->ms_per_step) - (left->ms_per_step > right->ms_per_step);
}

void step_profile_read(const struct profile *counted, uint32_t steps, uint64_t wall_ns,
                       struct step_profile *profile) {
    assert(steps >= 1 && wall_ns >= 1);
    size_t count = counted->line_count;
    double rest_ns = (double)wall_ns;
    *profile = (struct step_profile){.steps = steps, .line_count = count + 1};
    profile->wall_ms_per_step = (double)wall_ns / 1e6 / steps;
    for (size_t i = 0; i < count; i++) {
        const struct profile_line *from = &counted->lines[i];
        struct step_profile_line *line = &profile->lines[i];
        double ns = from->ns > 0 ? (double)from->ns : 1.0;
        memcpy(line->name, from->name, sizeof line->name);
        line->ms_per_step = ns / 1e6 / steps;
        line->share = ns / (double)wall_ns;
        line->calls_per_step = (double)from->calls / steps;
        line->weight_gb_per_s = (double)from->weight_bytes / ns;
        line->tera_ops_per_s = 2e-3 * from->n * from->k * (double)from->rows / ns;
        profile->weight_mb_per_step += (double)from->weight_bytes / 1e6 / steps;
        rest_ns -= (double)from->ns;
    }
    qsort(profile->lines, count, sizeof profile->lines[0], step_profile_dearer);
    struct step_profile_line *rest = &profile->lines[count];
    snprintf(rest->name, sizeof rest->name, "the rest");
    rest->ms_per_step = rest_ns / 1e6 / steps;
    rest->share = rest_ns / (double)wall_ns;
}
