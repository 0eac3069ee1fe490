/* A bed for one op: a device with the arrays that the op reads and writes, made from the same
 * random numbers on any device, and what the op gave, back on the host, for a comparison of bits.
 *
 * Through device.h and the table alone, so that a device and `reference` are treated alike. Every
 * failure fails the running case. One thread. */
#ifndef SOLFLEET_TESTS_SUPPORT_OP_BED_H
#define SOLFLEET_TESTS_SUPPORT_OP_BED_H

#include "kernels/device.h"
#include "kernels/ops.h"

enum { OP_BED_ROWS = 9, OP_BED_DIM = 48, OP_BED_OUTPUTS = 33, OP_BED_VOCABULARY = 70 };
enum { OP_BED_HEADS = 4, OP_BED_KV_HEADS = 2, OP_BED_HEAD_DIM = 8, OP_BED_PAGES = 3 };

struct op_bed {
    struct device *device;
    const struct kernel_ops *ops;
    uint64_t random; /* state: a seed at first */
    void *arrays[64];
    struct weight weights[2];
    size_t array_count, weight_count, out_bytes;
    unsigned char out[1 << 15]; /* what was taken, one after another */
};

/* `bed` is zeroed. */
void op_bed_open(struct op_bed *bed, const char *spec);
void op_bed_close(struct op_bed *bed);
/* Frees all arrays and weights; what was taken stays. */
void op_bed_clear(struct op_bed *bed);

/* Device memory, zeroed. */
void *op_bed_room(struct op_bed *bed, size_t bytes);
void *op_bed_put(struct op_bed *bed, const void *host, size_t bytes);
float *op_bed_floats(struct op_bed *bed, size_t count);
/* i32 first, first + step … */
void *op_bed_words(struct op_bed *bed, size_t count, int32_t first, int32_t step);
/* Appends to `out`. */
void op_bed_take(struct op_bed *bed, const void *from, size_t bytes);

struct kernels_workspace op_bed_workspace(struct op_bed *bed, enum kernel_op op);
/* F32 [n, DIM], and INT8 [OUTPUTS, DIM] with bias. */
const struct weight *op_bed_weight_f32(struct op_bed *bed, uint32_t n);
const struct weight *op_bed_weight_i8(struct op_bed *bed);

#endif
