#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "engine/block_format.h"
#include "tests/support/test_file.h"

static uint32_t take_u32(const uint8_t **at) {
    uint32_t value;
    memcpy(&value, *at, sizeof value);
    *at += sizeof value;
    return value;
}

static void reads_the_same_bits_as_the_gguf_package(void **state) {
    size_t size;
    uint8_t *golden = test_file_read("tests/golden/block_formats/blocks.bin", &size);
    const uint8_t *at = golden;
    int formats = 0;
    while (at < golden + size) {
        const struct block_format *format = block_format_find(take_u32(&at));
        size_t count = take_u32(&at);
        assert_non_null(format);
        assert_int_equal(format->bytes, take_u32(&at));
        assert_int_equal(format->elements, take_u32(&at));
        size_t elements = count * format->elements;
        float *values = malloc(elements * sizeof *values);
        block_format_read_row(format, at, elements, values);
        at += count * format->bytes;
        assert_memory_equal(values, at, elements * sizeof *values);
        at += elements * sizeof *values;
        free(values);
        formats++;
    }
    assert_int_equal(formats, 3);
    free(golden);
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
    const struct block_format *format = block_format_find(14);
    assert_string_equal(format->name, "Q6_K");
    assert_int_equal(format->bytes, 210);
    assert_null(format->read);
    assert_null(block_format_find(4));
    assert_null(block_format_find(UINT32_MAX));
}

static void lists_what_it_reads(void **state) {
    char list[64], cut[6];
    block_format_list_supported(list, sizeof list);
    assert_string_equal(list, "F32, F16, Q4_1, Q8_0");
    block_format_list_supported(cut, sizeof cut);
    assert_string_equal(cut, "F32, ");
}

TEST_MAIN(cmocka_unit_test(reads_the_same_bits_as_the_gguf_package),
          cmocka_unit_test(reads_f32_as_it_lies), cmocka_unit_test(reads_every_half_exactly),
          cmocka_unit_test(knows_the_size_of_formats_that_it_cannot_read),
          cmocka_unit_test(lists_what_it_reads))
