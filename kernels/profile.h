/* A profile: what ops cost, counted by a watch's watcher.
 *
 * Plain memory of the caller, zeroed to begin with; the watched device's thread. Refuses to know
 * what the figures mean. */
#ifndef SOLFLEET_KERNELS_PROFILE_H
#define SOLFLEET_KERNELS_PROFILE_H

#include "kernels/op_watch.h"

#define PROFILE_LINES_MAX 48u

/* What calls of one op, with weights of one shape, cost together. */
struct profile_line {
    enum kernel_op op;
    enum element_type type; /* of the weight */
    char name[OP_WATCH_NAME_BYTES_MAX];
    uint32_t n, k; /* of the weight; 0 where the op has none */
    uint64_t calls, rows;
    uint64_t ns;
    uint64_t weight_bytes; /* packed bytes of the weights, each call's; an op may read fewer */
};

/* Lines in the order of their first call; what came when there was no room is in none. To count
 * from zero, zero it. */
struct profile {
    struct profile_line lines[PROFILE_LINES_MAX];
    size_t line_count;
};

/* Borrows `profile` until the watch is closed. */
struct op_watcher profile_watcher(struct profile *profile);

#endif
