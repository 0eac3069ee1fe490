#include "tests/support/block_writer.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/canonical.h"

enum { BLOCK_WRITER_BYTES_MAX = 256 }; /* of a block */

static float block_writer_half(uint8_t *out, float value) {
    uint16_t half = canonical_f32_to_f16(value);
    memcpy(out, &half, sizeof half);
    return canonical_f16_to_f32(half); /* what a reader will see */
}

static float block_writer_largest(const float *x, int count) {
    float largest = 0;
    for (int i = 0; i < count; i++) {
        largest = fmaxf(largest, fabsf(x[i]));
    }
    return largest;
}

/* The nearest code of x = (q - zero) * scale + offset, in [0, top]. */
static uint8_t block_writer_code(float x, float offset, float scale, int zero, int top) {
    float q = scale != 0 ? rintf((x - offset) / scale) + (float)zero : (float)zero;
    return (uint8_t)fminf(fmaxf(q, 0), (float)top);
}

/* ---------------------------------------------------------------- single values */

static void block_writer_f32(const float *x, uint8_t *out) {
    memcpy(out, x, sizeof *x);
}

static void block_writer_f16(const float *x, uint8_t *out) {
    (void)block_writer_half(out, *x);
}

/* Rounded to the nearest, ties away from zero: finite values only. */
static void block_writer_bf16(const float *x, uint8_t *out) {
    uint16_t upper = (uint16_t)((canonical_bits(*x) + 0x8000u) >> 16);
    memcpy(out, &upper, sizeof upper);
}

/* ---------------------------------------------------------------- blocks of 32 */

/* Elements 0..15 and 16..31 share bytes; `fifth` takes bit 4 of each, NULL where there is none. */
static void block_writer_pack(const uint8_t q[32], uint8_t *fifth, uint8_t *pairs) {
    for (int i = 0; i < 16; i++) {
        pairs[i] = (uint8_t)((q[i] & 15) | (q[i + 16] & 15) << 4);
    }
    for (int i = 0; i < 32 && fifth != NULL; i++) {
        fifth[i / 8] = (uint8_t)(fifth[i / 8] | (q[i] >> 4) << (i % 8));
    }
}

/* Codes around `zero`, at out[0] the scale. */
static void block_writer_centred(const float *x, int zero, uint8_t *out, uint8_t q[32]) {
    float scale = block_writer_half(out, block_writer_largest(x, 32) / (float)(zero - 1));
    for (int i = 0; i < 32; i++) {
        q[i] = block_writer_code(x[i], 0, scale, zero, 2 * zero - 1);
    }
}

/* Codes from the block's minimum up, at out[0] the scale, at out[2] the minimum. */
static void block_writer_raised(const float *x, int top, uint8_t *out, uint8_t q[32]) {
    float low = x[0], high = x[0];
    for (int i = 1; i < 32; i++) {
        low = fminf(low, x[i]);
        high = fmaxf(high, x[i]);
    }
    float scale = block_writer_half(out, (high - low) / (float)top);
    low = block_writer_half(out + 2, low);
    for (int i = 0; i < 32; i++) {
        q[i] = block_writer_code(x[i], low, scale, 0, top);
    }
}

static void block_writer_q4_0(const float *x, uint8_t *out) {
    uint8_t q[32];
    block_writer_centred(x, 8, out, q);
    block_writer_pack(q, NULL, out + 2);
}

static void block_writer_q4_1(const float *x, uint8_t *out) {
    uint8_t q[32];
    block_writer_raised(x, 15, out, q);
    block_writer_pack(q, NULL, out + 4);
}

static void block_writer_q5_0(const float *x, uint8_t *out) {
    uint8_t q[32];
    block_writer_centred(x, 16, out, q);
    block_writer_pack(q, out + 2, out + 6);
}

static void block_writer_q5_1(const float *x, uint8_t *out) {
    uint8_t q[32];
    block_writer_raised(x, 31, out, q);
    block_writer_pack(q, out + 4, out + 8);
}

static void block_writer_q8_0(const float *x, uint8_t *out) {
    float scale = block_writer_half(out, block_writer_largest(x, 32) / 127.0f);
    for (int i = 0; i < 32; i++) {
        out[2 + i] = (uint8_t)(block_writer_code(x[i], 0, scale, 127, 254) - 127);
    }
}

/* ---------------------------------------------------------------- blocks of 256 */

/* Puts 6-bit numbers of 8 groups into 12 bytes, bit by bit as the format's picture has them. */
static void block_writer_groups(const uint8_t scale[8], const uint8_t minimum[8], uint8_t *out) {
    for (int g = 0; g < 4; g++) {
        out[g] = (uint8_t)(scale[g] | (scale[g + 4] & 0x30) << 2);
        out[g + 4] = (uint8_t)(minimum[g] | (minimum[g + 4] & 0x30) << 2);
        out[g + 8] = (uint8_t)((scale[g + 4] & 15) | (minimum[g + 4] & 15) << 4);
    }
}

/* The head of Q4_K and Q5_K and their codes: x = q * scale - minimum, minima not below 0. */
static void block_writer_raised_groups(const float *x, int top, uint8_t *out, uint8_t q[256]) {
    float steps[8], depths[8];
    uint8_t scale[8], minimum[8];
    for (int g = 0; g < 8; g++) {
        float low = 0, high = x[32 * g];
        for (int i = 0; i < 32; i++) {
            low = fminf(low, x[32 * g + i]);
            high = fmaxf(high, x[32 * g + i]);
        }
        steps[g] = fmaxf(high - low, 0) / (float)top;
        depths[g] = -low;
    }
    float of_scales = block_writer_half(out, block_writer_largest(steps, 8) / 63.0f);
    float of_minima = block_writer_half(out + 2, block_writer_largest(depths, 8) / 63.0f);
    for (int g = 0; g < 8; g++) {
        scale[g] = block_writer_code(steps[g], 0, of_scales, 0, 63);
        minimum[g] = block_writer_code(depths[g], 0, of_minima, 0, 63);
        for (int i = 0; i < 32; i++) {
            q[32 * g + i] = block_writer_code(x[32 * g + i], -of_minima * (float)minimum[g],
                                              of_scales * (float)scale[g], 0, top);
        }
    }
    block_writer_groups(scale, minimum, out + 4);
}

/* Two groups of 32 share 32 bytes. */
static void block_writer_pack_groups(const uint8_t q[256], uint8_t *pairs) {
    for (int i = 0; i < 256; i++) {
        uint8_t *pair = &pairs[i / 64 * 32 + i % 32];
        *pair = (uint8_t)(*pair | (q[i] & 15) << (i % 64 < 32 ? 0 : 4));
    }
}

static void block_writer_q4_k(const float *x, uint8_t *out) {
    uint8_t q[256];
    block_writer_raised_groups(x, 15, out, q);
    block_writer_pack_groups(q, out + 16);
}

static void block_writer_q5_k(const float *x, uint8_t *out) {
    uint8_t q[256];
    block_writer_raised_groups(x, 31, out, q);
    for (int i = 0; i < 256; i++) {
        out[16 + i % 32] = (uint8_t)(out[16 + i % 32] | (q[i] >> 4) << (i / 32));
    }
    block_writer_pack_groups(q, out + 48);
}

static void block_writer_q6_k(const float *x, uint8_t *out) {
    float scale = block_writer_half(out + 208, block_writer_largest(x, 256) / 31.0f / 127.0f);
    for (int i = 0; i < 256; i++) {
        int group = i / 16, half = i / 128, within = i % 128;
        float step = block_writer_largest(x + 16 * group, 16) / 31.0f;
        uint8_t units = block_writer_code(step, 0, scale, 0, 127);
        uint8_t q = block_writer_code(x[i], 0, scale * (float)units, 32, 63);
        uint8_t *pair = &out[64 * half + within % 64], *four = &out[128 + 32 * half + within % 32];
        *pair = (uint8_t)(*pair | (q & 15) << (within < 64 ? 0 : 4));
        *four = (uint8_t)(*four | (q >> 4) << (within / 32 * 2));
        out[192 + group] = units;
    }
}

/* ---------------------------------------------------------------- rows */

static const struct {
    enum block_format_number number;
    void (*write)(const float *x, uint8_t *out); /* one block into bytes that are zero */
} block_writer_table[] = {
    {BLOCK_FORMAT_F32, block_writer_f32},   {BLOCK_FORMAT_F16, block_writer_f16},
    {BLOCK_FORMAT_Q4_0, block_writer_q4_0}, {BLOCK_FORMAT_Q4_1, block_writer_q4_1},
    {BLOCK_FORMAT_Q5_0, block_writer_q5_0}, {BLOCK_FORMAT_Q5_1, block_writer_q5_1},
    {BLOCK_FORMAT_Q8_0, block_writer_q8_0}, {BLOCK_FORMAT_Q4_K, block_writer_q4_k},
    {BLOCK_FORMAT_Q5_K, block_writer_q5_k}, {BLOCK_FORMAT_Q6_K, block_writer_q6_k},
    {BLOCK_FORMAT_BF16, block_writer_bf16},
};

void block_writer_row(struct gguf_writer *writer, const struct block_format *format,
                      const float *row, uint32_t count) {
    size_t at = 0;
    while (block_writer_table[at].number != format->number) {
        at++;
        assert(at < sizeof block_writer_table / sizeof block_writer_table[0]);
    }
    assert(count % format->elements == 0 && format->bytes <= BLOCK_WRITER_BYTES_MAX);
    for (uint32_t i = 0; i < count; i += format->elements) {
        uint8_t block[BLOCK_WRITER_BYTES_MAX] = {0};
        block_writer_table[at].write(row + i, block);
        gguf_writer_raw(writer, block, format->bytes);
    }
}
