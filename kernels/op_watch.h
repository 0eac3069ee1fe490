/* A watch: a device in front of another one that shows each op, once it is done, to a watcher.
 *
 * Calls go through to the device behind, which is borrowed until device_close; each op is waited
 * for. Whoever wants to see nothing opens none, and pays nothing. Threads: as the device behind.
 * Memory: one block at op_watch_open. It has no graphs: what a graph launches has no ops to tell
 * apart. Refuses to know what is made of what was seen. */
#ifndef SOLFLEET_KERNELS_OP_WATCH_H
#define SOLFLEET_KERNELS_OP_WATCH_H

#include "kernels/ops.h"

/* A call that is done. */
struct watched_op {
    enum kernel_op op;
    const void *args;            /* the op's argument struct of ops.h */
    const struct weight *weight; /* NULL: it has none that counts */
    uint32_t rows;
    uint64_t ns; /* from the call until it was done */
};

/* `see` is given the device behind, and may copy from and to its memory; what it returns is what
 * the op returns. An op that failed is not shown. */
struct op_watcher {
    void *context;
    enum kernels_status (*see)(void *context, struct device *device, const struct watched_op *seen);
};

enum kernels_status op_watch_open(struct device *inner, const struct op_watcher *watcher,
                                  struct device **out, char *err,
                                  size_t err_bytes) KERNELS_CHECK_RESULT;

#define OP_WATCH_NAME_BYTES_MAX 48

/* For people: "linear_i8 int8 [3072, 576]". */
void op_watch_name(const struct watched_op *seen, char *name, size_t bytes);

#endif
