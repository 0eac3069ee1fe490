/* Names of ops, and the check that a table has those that a model needs. */
#include <assert.h>
#include <stdio.h>

#include "kernels/ops.h"

const char *kernel_ops_name(enum kernel_op op) {
    static const char *const names[KERNEL_OP_COUNT] = {
#define KERNEL_OP_NAME(op, args) #op,
        KERNEL_OPS(KERNEL_OP_NAME)
#undef KERNEL_OP_NAME
    };
    assert((unsigned)op < KERNEL_OP_COUNT);
    return names[op];
}

static bool kernel_ops_has(const struct kernel_ops *table, enum kernel_op op) {
    switch (op) {
#define KERNEL_OP_CASE(op, args) \
    case KERNEL_OP_##op: return table->op != NULL;
        KERNEL_OPS(KERNEL_OP_CASE)
#undef KERNEL_OP_CASE
    case KERNEL_OP_COUNT: break;
    }
    return false;
}

enum kernels_status kernel_ops_require(const struct kernel_ops *table, const enum kernel_op *ops,
                                       size_t count, char *err, size_t err_bytes) {
    for (size_t i = 0; i < count; i++) {
        if (!kernel_ops_has(table, ops[i])) {
            snprintf(err, err_bytes, "the %s kernels lack the op %s", table->tier,
                     kernel_ops_name(ops[i]));
            return KERNELS_UNSUPPORTED;
        }
    }
    return KERNELS_OK;
}
