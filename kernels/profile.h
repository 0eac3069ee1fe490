/* A profile: a device in front of another one that counts what each op costs.
 *
 * Calls go through to the device behind; each op is waited for, so that its time is its own.
 * Whoever wants no figures opens none, and pays nothing. Threads: as the device behind. Memory: one
 * block at profile_open. It has no graphs: what a graph launches has no ops to tell apart. Refuses
 * to know what the figures mean. */
#ifndef SOLFLEET_KERNELS_PROFILE_H
#define SOLFLEET_KERNELS_PROFILE_H

#include "kernels/ops.h"

#define PROFILE_LINES_MAX 48u

/* What calls of one op, with weights of one shape, cost together. */
struct profile_line {
    enum kernel_op op;
    enum element_type type; /* of the weight */
    uint32_t n, k;          /* of the weight; 0 where the op has none */
    uint64_t calls, rows;
    uint64_t ns;
    uint64_t weight_bytes; /* packed bytes of the weights, each call's; an op may read fewer */
};

/* Takes over `inner`, which device_close of *out closes, too; on failure it stays the caller's. */
enum kernels_status profile_open(struct device *inner, struct device **out, char *err,
                                 size_t err_bytes) KERNELS_CHECK_RESULT;

/* Lines in the order of their first call; at most PROFILE_LINES_MAX, what came later is in none.
 * Borrowed until the next op. `device` is one of profile_open. */
size_t profile_lines(const struct device *device, const struct profile_line **lines);
/* From here on everything counts from zero. */
void profile_reset(struct device *device);

#endif
