#include "engine/block_format.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "checkpoints are read as they lie");

enum {
    BLOCK_FORMAT_ELEMENTS = 32, /* of both block formats below */
    BLOCK_FORMAT_Q8_0_BYTES = 2 + BLOCK_FORMAT_ELEMENTS,
    BLOCK_FORMAT_Q4_1_BYTES = 2 + 2 + BLOCK_FORMAT_ELEMENTS / 2,
};

/* IEEE half precision, widened exactly. */
static float block_format_read_f16(const uint8_t *bytes) {
    uint16_t half;
    memcpy(&half, bytes, sizeof half);
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = (half >> 10) & 0x1Fu;
    uint32_t fraction = half & 0x3FFu;
    if (exponent == 0) { /* zero and subnormals: fraction units of 2^-24, exact in f32 */
        float magnitude = (float)fraction * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    uint32_t widened = exponent == 0x1Fu ? 0xFFu : exponent + 112u;
    uint32_t bits = sign | widened << 23 | fraction << 13;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void block_format_read_f32_run(const uint8_t *blocks, size_t block_count, float *out) {
    memcpy(out, blocks, block_count * sizeof *out);
}

static void block_format_read_f16_run(const uint8_t *blocks, size_t block_count, float *out) {
    for (size_t i = 0; i < block_count; i++) {
        out[i] = block_format_read_f16(blocks + 2 * i);
    }
}

/* f16 scale, then 32 signed bytes: x = q * scale. */
static void block_format_read_q8_0(const uint8_t *blocks, size_t block_count, float *out) {
    for (size_t b = 0; b < block_count; b++, blocks += BLOCK_FORMAT_Q8_0_BYTES) {
        float scale = block_format_read_f16(blocks);
        for (size_t i = 0; i < BLOCK_FORMAT_ELEMENTS; i++) {
            *out++ = (float)(int8_t)blocks[2 + i] * scale;
        }
    }
}

/* f16 scale, f16 minimum, then 16 bytes of two nibbles each: x = q * scale + minimum. The low
 * nibbles are elements 0..15, the high ones 16..31. */
static void block_format_read_q4_1(const uint8_t *blocks, size_t block_count, float *out) {
    const size_t half = BLOCK_FORMAT_ELEMENTS / 2;
    for (size_t b = 0; b < block_count; b++, blocks += BLOCK_FORMAT_Q4_1_BYTES) {
        float scale = block_format_read_f16(blocks);
        float minimum = block_format_read_f16(blocks + 2);
        for (size_t i = 0; i < half; i++) {
            float low = (float)(blocks[4 + i] & 0x0F) * scale;
            float high = (float)(blocks[4 + i] >> 4) * scale;
            out[i] = low + minimum;
            out[half + i] = high + minimum;
        }
        out += BLOCK_FORMAT_ELEMENTS;
    }
}

/* Sizes are known for every format that files may hold, so that a file with an unsupported one is
 * still checked as a whole and refused by name. */
static const struct block_format block_format_table[] = {
    {BLOCK_FORMAT_F32, "F32", 1, 4, block_format_read_f32_run},
    {BLOCK_FORMAT_F16, "F16", 1, 2, block_format_read_f16_run},
    {2, "Q4_0", 32, 18, NULL},
    {BLOCK_FORMAT_Q4_1, "Q4_1", 32, BLOCK_FORMAT_Q4_1_BYTES, block_format_read_q4_1},
    {6, "Q5_0", 32, 22, NULL},
    {7, "Q5_1", 32, 24, NULL},
    {BLOCK_FORMAT_Q8_0, "Q8_0", 32, BLOCK_FORMAT_Q8_0_BYTES, block_format_read_q8_0},
    {9, "Q8_1", 32, 36, NULL},
    {10, "Q2_K", 256, 84, NULL},
    {11, "Q3_K", 256, 110, NULL},
    {12, "Q4_K", 256, 144, NULL},
    {13, "Q5_K", 256, 176, NULL},
    {14, "Q6_K", 256, 210, NULL},
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
    {30, "BF16", 1, 2, NULL},
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
