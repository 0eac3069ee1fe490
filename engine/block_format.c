#include "engine/block_format.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "kernels/canonical.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "checkpoints are read as they lie");

enum {
    BLOCK_FORMAT_SMALL = 32,                       /* elements of the plain block formats */
    BLOCK_FORMAT_SUPER = 256,                      /* elements of a K block, cut into groups */
    BLOCK_FORMAT_GROUPS = BLOCK_FORMAT_SUPER / 32, /* of Q4_K and Q5_K */
    BLOCK_FORMAT_SCALE_BYTES = 12,                 /* of their groups: 8 scales, 8 minima, 6 bits */
    BLOCK_FORMAT_Q6_GROUP = 16,                    /* elements of a group of Q6_K */

    BLOCK_FORMAT_Q4_0_BYTES = 2 + BLOCK_FORMAT_SMALL / 2,
    BLOCK_FORMAT_Q4_1_BYTES = 2 + 2 + BLOCK_FORMAT_SMALL / 2,
    BLOCK_FORMAT_Q5_0_BYTES = 2 + BLOCK_FORMAT_SMALL / 8 + BLOCK_FORMAT_SMALL / 2,
    BLOCK_FORMAT_Q5_1_BYTES = 2 + 2 + BLOCK_FORMAT_SMALL / 8 + BLOCK_FORMAT_SMALL / 2,
    BLOCK_FORMAT_Q8_0_BYTES = 2 + BLOCK_FORMAT_SMALL,
    BLOCK_FORMAT_Q4_K_BYTES = 2 + 2 + BLOCK_FORMAT_SCALE_BYTES + BLOCK_FORMAT_SUPER / 2,
    BLOCK_FORMAT_Q5_K_BYTES = BLOCK_FORMAT_Q4_K_BYTES + BLOCK_FORMAT_SUPER / 8,
    BLOCK_FORMAT_Q6_K_BYTES = BLOCK_FORMAT_SUPER / 2 + BLOCK_FORMAT_SUPER / 4 +
                              BLOCK_FORMAT_SUPER / BLOCK_FORMAT_Q6_GROUP + 2,
};

/* ---------------------------------------------------------------- pieces */

static float block_format_read_half(const uint8_t *bytes) {
    uint16_t half;
    memcpy(&half, bytes, sizeof half);
    return canonical_f16_to_f32(half);
}

/* Two nibbles a byte: the low ones are elements 0..count-1, the high ones count..2*count-1. */
static void block_format_unpack(const uint8_t *pairs, size_t count, uint8_t *q) {
    for (size_t i = 0; i < count; i++) {
        q[i] = pairs[i] & 0x0F;
        q[count + i] = pairs[i] >> 4;
    }
}

/* The fifth bits of 32 elements, element i's in bit i of a little-endian word. */
static void block_format_add_fifth(const uint8_t *bits, uint8_t *q) {
    for (size_t i = 0; i < BLOCK_FORMAT_SMALL; i++) {
        q[i] |= (uint8_t)((bits[i / 8] >> (i % 8) & 1) << 4);
    }
}

/* x = (q - zero) * scale */
static void block_format_scale(const uint8_t *q, size_t count, int zero, float scale, float *out) {
    for (size_t i = 0; i < count; i++) {
        out[i] = (float)(q[i] - zero) * scale;
    }
}

/* x = q * scale + minimum */
static void block_format_shift(const uint8_t *q, size_t count, float scale, float minimum,
                               float *out) {
    for (size_t i = 0; i < count; i++) {
        float product = (float)q[i] * scale;
        out[i] = product + minimum;
    }
}

/* ---------------------------------------------------------------- single values */

static void block_format_read_f32(const uint8_t *blocks, size_t block_count, float *out) {
    memcpy(out, blocks, block_count * sizeof *out);
}

static void block_format_read_f16(const uint8_t *blocks, size_t block_count, float *out) {
    for (size_t i = 0; i < block_count; i++) {
        out[i] = block_format_read_half(blocks + 2 * i);
    }
}

/* The upper half of a f32. */
static void block_format_read_bf16(const uint8_t *blocks, size_t block_count, float *out) {
    for (size_t i = 0; i < block_count; i++) {
        uint16_t upper;
        memcpy(&upper, blocks + 2 * i, sizeof upper);
        uint32_t bits = (uint32_t)upper << 16;
        memcpy(&out[i], &bits, sizeof bits);
    }
}

/* ---------------------------------------------------------------- blocks of 32 */

/* f16 scale, nibbles; zero is 8. */
static void block_format_read_q4_0(const uint8_t *blocks, size_t block_count, float *out) {
    uint8_t q[BLOCK_FORMAT_SMALL];
    for (size_t b = 0; b < block_count; b++, blocks += BLOCK_FORMAT_Q4_0_BYTES) {
        block_format_unpack(blocks + 2, BLOCK_FORMAT_SMALL / 2, q);
        block_format_scale(q, BLOCK_FORMAT_SMALL, 8, block_format_read_half(blocks), out);
        out += BLOCK_FORMAT_SMALL;
    }
}

/* f16 scale, f16 minimum, nibbles. */
static void block_format_read_q4_1(const uint8_t *blocks, size_t block_count, float *out) {
    uint8_t q[BLOCK_FORMAT_SMALL];
    for (size_t b = 0; b < block_count; b++, blocks += BLOCK_FORMAT_Q4_1_BYTES) {
        block_format_unpack(blocks + 4, BLOCK_FORMAT_SMALL / 2, q);
        block_format_shift(q, BLOCK_FORMAT_SMALL, block_format_read_half(blocks),
                           block_format_read_half(blocks + 2), out);
        out += BLOCK_FORMAT_SMALL;
    }
}

/* f16 scale, fifth bits, nibbles; zero is 16. */
static void block_format_read_q5_0(const uint8_t *blocks, size_t block_count, float *out) {
    uint8_t q[BLOCK_FORMAT_SMALL];
    for (size_t b = 0; b < block_count; b++, blocks += BLOCK_FORMAT_Q5_0_BYTES) {
        block_format_unpack(blocks + 6, BLOCK_FORMAT_SMALL / 2, q);
        block_format_add_fifth(blocks + 2, q);
        block_format_scale(q, BLOCK_FORMAT_SMALL, 16, block_format_read_half(blocks), out);
        out += BLOCK_FORMAT_SMALL;
    }
}

/* f16 scale, f16 minimum, fifth bits, nibbles. */
static void block_format_read_q5_1(const uint8_t *blocks, size_t block_count, float *out) {
    uint8_t q[BLOCK_FORMAT_SMALL];
    for (size_t b = 0; b < block_count; b++, blocks += BLOCK_FORMAT_Q5_1_BYTES) {
        block_format_unpack(blocks + 8, BLOCK_FORMAT_SMALL / 2, q);
        block_format_add_fifth(blocks + 4, q);
        block_format_shift(q, BLOCK_FORMAT_SMALL, block_format_read_half(blocks),
                           block_format_read_half(blocks + 2), out);
        out += BLOCK_FORMAT_SMALL;
    }
}

/* f16 scale, then 32 signed bytes: x = q * scale. */
static void block_format_read_q8_0(const uint8_t *blocks, size_t block_count, float *out) {
    for (size_t b = 0; b < block_count; b++, blocks += BLOCK_FORMAT_Q8_0_BYTES) {
        float scale = block_format_read_half(blocks);
        for (size_t i = 0; i < BLOCK_FORMAT_SMALL; i++) {
            *out++ = (float)(int8_t)blocks[2 + i] * scale;
        }
    }
}

/* ---------------------------------------------------------------- blocks of 256 */

/* 6-bit scales and minima of 8 groups in 12 bytes. The low 6 bits of bytes 0..3 are scales 0..3,
 * those of bytes 4..7 minima 0..3. Bytes 8..11 hold the low nibbles of the others, scales below,
 * minima above; their upper two bits are the upper two of bytes 0..3 and 4..7. */
static void block_format_unpack_groups(const uint8_t *bytes, uint8_t *scale, uint8_t *minimum) {
    const size_t half = BLOCK_FORMAT_GROUPS / 2;
    for (size_t i = 0; i < half; i++) {
        uint8_t with_scale = bytes[i], with_minimum = bytes[half + i], rest = bytes[2 * half + i];
        scale[i] = with_scale & 0x3F;
        minimum[i] = with_minimum & 0x3F;
        scale[half + i] = (uint8_t)((rest & 0x0F) | with_scale >> 6 << 4);
        minimum[half + i] = (uint8_t)(rest >> 4 | with_minimum >> 6 << 4);
    }
}

/* The head that Q4_K and Q5_K share: f16 scale of scales, f16 scale of minima, the groups' own.
 * For each group: x = q * (scale * its scale) - (minimum * its minimum). */
static void block_format_shift_groups(const uint8_t *block, const uint8_t *q, float *out) {
    uint8_t scales[BLOCK_FORMAT_GROUPS], minima[BLOCK_FORMAT_GROUPS];
    float scale = block_format_read_half(block), minimum = block_format_read_half(block + 2);
    block_format_unpack_groups(block + 4, scales, minima);
    for (size_t g = 0; g < BLOCK_FORMAT_GROUPS; g++) {
        float group_scale = scale * (float)scales[g], group_minimum = minimum * (float)minima[g];
        block_format_shift(q + 32 * g, 32, group_scale, -group_minimum, out + 32 * g);
    }
}

/* The head, then nibbles: 32 bytes for each 64 elements. */
static void block_format_read_q4_k(const uint8_t *blocks, size_t block_count, float *out) {
    uint8_t q[BLOCK_FORMAT_SUPER];
    for (size_t b = 0; b < block_count; b++, blocks += BLOCK_FORMAT_Q4_K_BYTES) {
        const uint8_t *pairs = blocks + 4 + BLOCK_FORMAT_SCALE_BYTES;
        for (size_t i = 0; i < BLOCK_FORMAT_SUPER; i += 64) {
            block_format_unpack(pairs + i / 2, 32, q + i);
        }
        block_format_shift_groups(blocks, q, out);
        out += BLOCK_FORMAT_SUPER;
    }
}

/* The head, 32 bytes of fifth bits (element i of group g has bit g of byte i), nibbles as above. */
static void block_format_read_q5_k(const uint8_t *blocks, size_t block_count, float *out) {
    uint8_t q[BLOCK_FORMAT_SUPER];
    for (size_t b = 0; b < block_count; b++, blocks += BLOCK_FORMAT_Q5_K_BYTES) {
        const uint8_t *fifth = blocks + 4 + BLOCK_FORMAT_SCALE_BYTES, *pairs = fifth + 32;
        for (size_t i = 0; i < BLOCK_FORMAT_SUPER; i += 64) {
            block_format_unpack(pairs + i / 2, 32, q + i);
        }
        for (size_t i = 0; i < BLOCK_FORMAT_SUPER; i++) {
            q[i] |= (uint8_t)((fifth[i % 32] >> (i / 32) & 1) << 4);
        }
        block_format_shift_groups(blocks, q, out);
        out += BLOCK_FORMAT_SUPER;
    }
}

/* Nibbles, 64 bytes for each 128 elements; the upper two bits, four elements 32 apart a byte; a
 * signed scale for each 16 elements; f16 scale of scales. Zero is 32. */
static void block_format_read_q6_k(const uint8_t *blocks, size_t block_count, float *out) {
    uint8_t q[BLOCK_FORMAT_SUPER];
    for (size_t b = 0; b < block_count; b++, blocks += BLOCK_FORMAT_Q6_K_BYTES) {
        const uint8_t *upper = blocks + BLOCK_FORMAT_SUPER / 2;
        const uint8_t *scales = upper + BLOCK_FORMAT_SUPER / 4;
        float scale = block_format_read_half(blocks + BLOCK_FORMAT_Q6_K_BYTES - 2);
        for (size_t i = 0; i < BLOCK_FORMAT_SUPER; i += 128) {
            block_format_unpack(blocks + i / 2, 64, q + i);
        }
        for (size_t i = 0; i < BLOCK_FORMAT_SUPER; i++) {
            uint8_t four = upper[i / 128 * 32 + i % 32];
            q[i] |= (uint8_t)((four >> (i % 128 / 32 * 2) & 3) << 4);
        }
        for (size_t i = 0; i < BLOCK_FORMAT_SUPER; i += BLOCK_FORMAT_Q6_GROUP) {
            float group_scale = scale * (float)(int8_t)scales[i / BLOCK_FORMAT_Q6_GROUP];
            block_format_scale(q + i, BLOCK_FORMAT_Q6_GROUP, 32, group_scale, out + i);
        }
        out += BLOCK_FORMAT_SUPER;
    }
}

/* ---------------------------------------------------------------- the table */

/* Sizes are known for every format that files may hold, so that a file with an unsupported one is
 * still checked as a whole and refused by name. */
static const struct block_format block_format_table[] = {
    {BLOCK_FORMAT_F32, "F32", 1, 4, block_format_read_f32},
    {BLOCK_FORMAT_F16, "F16", 1, 2, block_format_read_f16},
    {BLOCK_FORMAT_Q4_0, "Q4_0", 32, BLOCK_FORMAT_Q4_0_BYTES, block_format_read_q4_0},
    {BLOCK_FORMAT_Q4_1, "Q4_1", 32, BLOCK_FORMAT_Q4_1_BYTES, block_format_read_q4_1},
    {BLOCK_FORMAT_Q5_0, "Q5_0", 32, BLOCK_FORMAT_Q5_0_BYTES, block_format_read_q5_0},
    {BLOCK_FORMAT_Q5_1, "Q5_1", 32, BLOCK_FORMAT_Q5_1_BYTES, block_format_read_q5_1},
    {BLOCK_FORMAT_Q8_0, "Q8_0", 32, BLOCK_FORMAT_Q8_0_BYTES, block_format_read_q8_0},
    {9, "Q8_1", 32, 36, NULL},
    {10, "Q2_K", 256, 84, NULL},
    {11, "Q3_K", 256, 110, NULL},
    {BLOCK_FORMAT_Q4_K, "Q4_K", 256, BLOCK_FORMAT_Q4_K_BYTES, block_format_read_q4_k},
    {BLOCK_FORMAT_Q5_K, "Q5_K", 256, BLOCK_FORMAT_Q5_K_BYTES, block_format_read_q5_k},
    {BLOCK_FORMAT_Q6_K, "Q6_K", 256, BLOCK_FORMAT_Q6_K_BYTES, block_format_read_q6_k},
    {15, "Q8_K", 256, 292, NULL},
    {16, "IQ2_XXS", 256, 66, NULL},
    {17, "IQ2_XS", 256, 74, NULL},
    {18, "IQ3_XXS", 256, 98, NULL},
    {19, "IQ1_S", 256, 50, NULL},
    {20, "IQ4_NL", 32, 18, NULL},
    {21, "IQ3_S", 256, 110, NULL},
    {22, "IQ2_S", 256, 82, NULL},
    {23, "IQ4_XS", 256, 136, NULL},
    {24, "I8", 1, 1, NULL},
    {25, "I16", 1, 2, NULL},
    {26, "I32", 1, 4, NULL},
    {27, "I64", 1, 8, NULL},
    {28, "F64", 1, 8, NULL},
    {29, "IQ1_M", 256, 56, NULL},
    {BLOCK_FORMAT_BF16, "BF16", 1, 2, block_format_read_bf16},
    {34, "TQ1_0", 256, 54, NULL},
    {35, "TQ2_0", 256, 66, NULL},
    {39, "MXFP4", 32, 17, NULL},
};

enum { BLOCK_FORMAT_COUNT = sizeof block_format_table / sizeof block_format_table[0] };

const struct block_format *block_format_find(uint32_t number) {
    for (size_t i = 0; i < BLOCK_FORMAT_COUNT; i++) {
        if (block_format_table[i].number == number) {
            return &block_format_table[i];
        }
    }
    return NULL;
}

void block_format_list_supported(char *out, size_t out_bytes) {
    size_t used = 0;
    assert(out_bytes > 0);
    out[0] = '\0';
    for (size_t i = 0; i < BLOCK_FORMAT_COUNT && used < out_bytes; i++) {
        if (block_format_table[i].read != NULL) {
            used += (size_t)snprintf(out + used, out_bytes - used, "%s%s", used > 0 ? ", " : "",
                                     block_format_table[i].name);
        }
    }
}

void block_format_read_row(const struct block_format *format, const uint8_t *row, size_t elements,
                           float *out) {
    assert(format->read != NULL && elements % format->elements == 0);
    format->read(row, elements / format->elements, out);
}
