#include "kernels/profile.h"

/* A step makes hundreds of calls: none is given its name to be found. */
static bool profile_is_of(const struct profile_line *line, const struct watched_op *seen) {
    const struct weight *weight = seen->weight;
    return line->op == seen->op && line->n == (weight != NULL ? weight->form.n : 0) &&
           line->k == (weight != NULL ? weight->form.k : 0) &&
           (weight == NULL || line->type == weight->form.type);
}

/* NULL when there is no room for another. */
static struct profile_line *profile_line_of(struct profile *profile,
                                            const struct watched_op *seen) {
    for (size_t i = 0; i < profile->line_count; i++) {
        if (profile_is_of(&profile->lines[i], seen)) {
            return &profile->lines[i];
        }
    }
    if (profile->line_count == PROFILE_LINES_MAX) {
        return NULL;
    }
    struct profile_line *line = &profile->lines[profile->line_count++];
    *line = (struct profile_line){.op = seen->op};
    op_watch_name(seen, line->name, sizeof line->name);
    if (seen->weight != NULL) {
        line->type = seen->weight->form.type;
        line->n = seen->weight->form.n;
        line->k = seen->weight->form.k;
    }
    return line;
}

static uint64_t profile_weight_bytes(const struct device *device, const struct weight *weight) {
    char err[64];
    size_t bytes = 0;
    enum kernels_status status =
        device_ops(device)->weight_packed_bytes(&weight->form, &bytes, err, sizeof err);
    return status == KERNELS_OK ? bytes : 0;
}

static enum kernels_status profile_see(void *context, struct device *device,
                                       const struct watched_op *seen) {
    struct profile_line *line = profile_line_of(context, seen);
    if (line != NULL) {
        line->calls++;
        line->rows += seen->rows;
        line->ns += seen->ns;
        line->weight_bytes += seen->weight != NULL ? profile_weight_bytes(device, seen->weight) : 0;
    }
    return KERNELS_OK;
}

struct op_watcher profile_watcher(struct profile *profile) {
    return (struct op_watcher){.context = profile, .see = profile_see};
}
