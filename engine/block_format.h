/* A block format: how a checkpoint stores runs of weights in few bits, and how to read them back.
 *
 * Pure functions over the caller's memory; any thread. Refuses to know files, names and policies.
 *
 * A block of `elements` weights takes `bytes` bytes; a row is a whole number of blocks. Reading
 * back is done in f32 with every operation rounded by itself, so that the values are, bit for bit,
 * those that the format's reference implementation gives without fused operations. */
#ifndef SOLFLEET_ENGINE_BLOCK_FORMAT_H
#define SOLFLEET_ENGINE_BLOCK_FORMAT_H

#include <stddef.h>
#include <stdint.h>

/* As GGUF numbers them. Only those that code mentions have a name here. */
enum block_format_number {
    BLOCK_FORMAT_F32 = 0,
    BLOCK_FORMAT_F16 = 1,
    BLOCK_FORMAT_Q4_0 = 2,
    BLOCK_FORMAT_Q4_1 = 3,
    BLOCK_FORMAT_Q5_0 = 6,
    BLOCK_FORMAT_Q5_1 = 7,
    BLOCK_FORMAT_Q8_0 = 8,
    BLOCK_FORMAT_Q4_K = 12,
    BLOCK_FORMAT_Q5_K = 13,
    BLOCK_FORMAT_Q6_K = 14,
    BLOCK_FORMAT_BF16 = 30,
};

/* Bytes of the longest list that block_format_list_supported writes, and to spare. */
enum { BLOCK_FORMAT_LIST_BYTES_MAX = 128 };

struct block_format {
    uint32_t number;
    const char *name;
    uint32_t elements; /* of a block */
    uint32_t bytes;    /* of a block */
    /* Reads block_count blocks into elements * block_count floats; NULL: not supported yet. The
     * source needs no alignment. */
    void (*read)(const uint8_t *blocks, size_t block_count, float *out);
};

/* NULL for a number that no version of the format defines. */
const struct block_format *block_format_find(uint32_t number);

/* The names of the formats that can be read, as in "F32, F16, Q4_0", in the order of numbers. */
void block_format_list_supported(char *out, size_t out_bytes);

/* Reads one row of `elements` weights, a multiple of format->elements; format->read is not NULL. */
void block_format_read_row(const struct block_format *format, const uint8_t *row, size_t elements,
                           float *out);

#endif
