#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/block_format.h"
#include "kernels/canonical.h"
#include "tests/support/block_writer.h"
#include "tests/support/test_file.h"

static uint32_t take_u32(const uint8_t **at) {
    uint32_t value;
    memcpy(&value, *at, sizeof value);
    *at += sizeof value;
    return value;
}

/* The next format in the table that can be read, from *number on, which moves past it. */
static const struct block_format *next_readable(uint32_t *number) {
    const struct block_format *format = NULL;
    while (*number < 64 && (format == NULL || format->read == NULL)) {
        format = block_format_find((*number)++);
    }
    return format != NULL && format->read != NULL ? format : NULL;
}

/* The same bits, except that any NaN equals any other. */
static void assert_same_values(const struct block_format *format, const float *values,
                               const uint8_t *golden, size_t count) {
    for (size_t i = 0; i < count; i++) {
        float expected;
        memcpy(&expected, golden + i * sizeof expected, sizeof expected);
        bool is_same = isnan(expected) ? isnan(values[i])
                                       : canonical_bits(expected) == canonical_bits(values[i]);
        if (!is_same) {
            fail_msg("%s block %zu, element %zu: %a, not %a", format->name, i / format->elements,
                     i % format->elements, (double)values[i], (double)expected);
        }
    }
}

static void reads_the_same_bits_as_the_gguf_package(void **state) {
    size_t size, not_finite = 0, tiny = 0;
    uint8_t *golden = test_file_read("tests/golden/block_formats/blocks.bin", &size);
    const uint8_t *at = golden;
    uint32_t number = BLOCK_FORMAT_F32 + 1; /* F32 is not in the file: nothing to read back */
    for (const struct block_format *format; (format = next_readable(&number)) != NULL;) {
        assert_true(at < golden + size);
        assert_int_equal(format->number, take_u32(&at));
        size_t count = take_u32(&at), elements = count * format->elements;
        assert_int_equal(format->bytes, take_u32(&at));
        assert_int_equal(format->elements, take_u32(&at));
        float *values = malloc(elements * sizeof *values);
        block_format_read_row(format, at, elements, values);
        at += count * format->bytes;
        assert_same_values(format, values, at, elements);
        at += elements * sizeof *values;
        for (size_t i = 0; i < elements; i++) {
            not_finite += isfinite(values[i]) ? 0 : 1;
            tiny += values[i] != 0 && fabsf(values[i]) < 0x1p-20f ? 1 : 0;
        }
        free(values);
    }
    assert_ptr_equal(at, golden + size);
    assert_true(not_finite > 100 && tiny > 100); /* scales of both kinds were there */
    free(golden);
}

/* A step between codes for values in [-1, 3], at most. */
static float coarsest_step(const struct block_format *format) {
    switch (format->number) {
    case BLOCK_FORMAT_F32: return 0;
    case BLOCK_FORMAT_F16: return 0x1p-9f;
    case BLOCK_FORMAT_BF16: return 0x1p-6f;
    case BLOCK_FORMAT_Q8_0: return 3.0f / 127;
    case BLOCK_FORMAT_Q6_K: return 3.0f / 31;
    case BLOCK_FORMAT_Q5_0: return 3.0f / 15;
    case BLOCK_FORMAT_Q5_1:
    case BLOCK_FORMAT_Q5_K: return 4.0f / 31;
    case BLOCK_FORMAT_Q4_0: return 3.0f / 7;
    default: return 4.0f / 15;
    }
}

static void reads_back_what_was_written_within_a_step(void **state) {
    uint64_t random = test_seed();
    uint32_t number = 0;
    int formats = 0;
    for (const struct block_format *format; (format = next_readable(&number)) != NULL; formats++) {
        struct gguf_writer writer = {0};
        float row[512], read[512];
        for (int i = 0; i < 512; i++) {
            row[i] = (float)(test_random(&random) >> 40) * 0x1p-22f - 1.0f;
        }
        block_writer_row(&writer, format, row, 512);
        assert_int_equal(writer.size, 512 / format->elements * format->bytes);
        block_format_read_row(format, writer.bytes, 512, read);
        for (int i = 0; i < 512; i++) {
            /* Half a step, and as much again for rounded scales and minima. */
            if (fabsf(read[i] - row[i]) > coarsest_step(format)) {
                fail_msg("%s element %d: %g was written as %g", format->name, i, (double)row[i],
                         (double)read[i]);
            }
        }
        gguf_writer_deinit(&writer);
    }
    assert_int_equal(formats, 11);
}

static void reads_every_bf16_exactly(void **state) {
    const struct block_format *format = block_format_find(BLOCK_FORMAT_BF16);
    for (uint32_t upper = 0; upper < 1u << 16; upper++) {
        uint16_t stored = (uint16_t)upper;
        uint32_t bits = upper << 16;
        float value;
        block_format_read_row(format, (const uint8_t *)&stored, 1, &value);
        assert_memory_equal(&value, &bits, sizeof value);
    }
}

static void reads_f32_as_it_lies(void **state) {
    const float values[] = {1.5f, -0.0f, 3e38f};
    float read[3];
    block_format_read_row(block_format_find(BLOCK_FORMAT_F32), (const uint8_t *)values, 3, read);
    assert_memory_equal(values, read, sizeof values);
}

static void reads_every_half_exactly(void **state) {
    const struct block_format *format = block_format_find(BLOCK_FORMAT_F16);
    for (uint32_t bits = 0; bits < 0x7C00; bits++) {
        uint16_t half = (uint16_t)bits;
        float value, mirrored;
        block_format_read_row(format, (const uint8_t *)&half, 1, &value);
        half |= 0x8000;
        block_format_read_row(format, (const uint8_t *)&half, 1, &mirrored);
        double fraction = bits & 0x3FF, unit = 0x1p-24;
        for (uint32_t e = bits >> 10; e > 1; e--) {
            unit *= 2;
        }
        double expected = unit * (bits >> 10 ? 1024 + fraction : fraction);
        assert_true((double)value == expected && (double)mirrored == -expected);
    }
    const uint16_t infinity = 0x7C00, nan = 0x7C01;
    float value;
    block_format_read_row(format, (const uint8_t *)&infinity, 1, &value);
    assert_true(value > 3.4e38f);
    block_format_read_row(format, (const uint8_t *)&nan, 1, &value);
    assert_true(value != value);
}

static void knows_the_size_of_formats_that_it_cannot_read(void **state) {
    const struct block_format *format = block_format_find(10);
    assert_string_equal(format->name, "Q2_K");
    assert_int_equal(format->bytes, 84);
    assert_null(format->read);
    assert_null(block_format_find(4));
    assert_null(block_format_find(UINT32_MAX));
}

static void lists_what_it_reads(void **state) {
    char list[BLOCK_FORMAT_LIST_BYTES_MAX], cut[6];
    block_format_list_supported(list, sizeof list);
    assert_string_equal(list, "F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, BF16");
    block_format_list_supported(cut, sizeof cut);
    assert_string_equal(cut, "F32, ");
}

TEST_MAIN(cmocka_unit_test(reads_the_same_bits_as_the_gguf_package),
          cmocka_unit_test(reads_back_what_was_written_within_a_step),
          cmocka_unit_test(reads_every_bf16_exactly), cmocka_unit_test(reads_f32_as_it_lies),
          cmocka_unit_test(reads_every_half_exactly),
          cmocka_unit_test(knows_the_size_of_formats_that_it_cannot_read),
          cmocka_unit_test(lists_what_it_reads))
