#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/gguf.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/tiny_llama.h"

/* ---------------------------------------------------------------- helpers */

/* Parses a copy of exactly the given size, so that a sanitizer sees every read past the end. */
static enum gguf_status parse_copy(const uint8_t *bytes, size_t size, char *err, size_t err_bytes) {
    struct gguf *gguf = NULL;
    uint8_t *copy = malloc(size + 1);
    assert_non_null(copy);
    uint8_t *at = copy + 1; /* odd: nothing may rely on alignment */
    memcpy(at, bytes, size);
    enum gguf_status status = gguf_parse(at, size, &gguf, err, err_bytes);
    if (status == GGUF_OK) {
        for (size_t i = 0; i < gguf_tensor_count(gguf); i++) { /* every byte must be readable */
            const struct gguf_tensor *tensor = gguf_tensor_at(gguf, i);
            unsigned sum = 0;
            for (size_t b = 0; b < tensor->bytes; b++) {
                sum += tensor->data[b];
            }
            assert_true(sum <= 255u * tensor->bytes);
        }
    }
    gguf_close(status == GGUF_OK ? gguf : NULL);
    free(copy);
    return status;
}

/* A header, one u32 key and one tensor t [32] of F32, with every field open to change. */
struct small {
    const char *magic;
    uint32_t version;
    uint64_t tensors, keys;
    uint64_t key_bytes; /* 0: as it is */
    uint32_t value_type;
    const char *tensor_name;
    uint32_t rank;
    uint64_t dims[GGUF_RANK_MAX];
    uint32_t format;
    uint64_t offset;
    size_t data_bytes;
};

static const struct small small_good = {
    .magic = "GGUF",
    .version = 3,
    .tensors = 1,
    .keys = 1,
    .value_type = GGUF_U32,
    .tensor_name = "t",
    .rank = 1,
    .dims = {32},
    .format = BLOCK_FORMAT_F32,
    .data_bytes = 128,
};

static void small_write(const struct small *small, struct gguf_writer *writer) {
    const char key[] = "a.key";
    gguf_writer_raw(writer, small->magic, 4);
    gguf_writer_u32(writer, small->version);
    gguf_writer_u64(writer, small->tensors);
    gguf_writer_u64(writer, small->keys);
    gguf_writer_u64(writer, small->key_bytes ? small->key_bytes : strlen(key));
    gguf_writer_raw(writer, key, strlen(key));
    gguf_writer_u32(writer, small->value_type);
    gguf_writer_u32(writer, 7);
    gguf_writer_string(writer, small->tensor_name);
    gguf_writer_u32(writer, small->rank);
    for (uint32_t i = 0; i < small->rank && i < GGUF_RANK_MAX; i++) {
        gguf_writer_u64(writer, small->dims[i]);
    }
    gguf_writer_u32(writer, small->format);
    gguf_writer_u64(writer, small->offset);
    gguf_writer_align(writer, 32);
    for (size_t i = 0; i < small->data_bytes; i++) {
        gguf_writer_raw(writer, "", 1);
    }
}

static void expect_refused(const struct small *small, const char *said) {
    struct gguf_writer writer = {0};
    char err[256] = "";
    small_write(small, &writer);
    assert_int_equal(parse_copy(writer.bytes, writer.size, err, sizeof err), GGUF_MALFORMED);
    if (strstr(err, said) == NULL) {
        fail_msg("expected \"%s\" in \"%s\"", said, err);
    }
    gguf_writer_deinit(&writer);
}

#define REFUSED(said, change)            \
    do {                                 \
        struct small small = small_good; \
        small.change;                    \
        expect_refused(&small, said);    \
    } while (0)

/* Expects the parser's answer to a file that a function wrote. */
static void expect_said(struct gguf_writer *writer, const char *said) {
    char err[256] = "";
    assert_int_equal(parse_copy(writer->bytes, writer->size, err, sizeof err), GGUF_MALFORMED);
    if (strstr(err, said) == NULL) {
        fail_msg("expected \"%s\" in \"%s\"", said, err);
    }
    gguf_writer_deinit(writer);
}

/* ---------------------------------------------------------------- good files */

static void reads_every_type_of_value(void **state) {
    struct gguf_writer writer = {0};
    struct gguf *gguf = NULL;
    const char *const words[] = {"one", "", "three"};
    const int32_t numbers[] = {-1, 5};
    const double half = 0.5;
    const int64_t negative = -3;
    char err[256];
    gguf_writer_header(&writer, 0, 8);
    gguf_writer_key_u32(&writer, "u32", 4000000000u);
    gguf_writer_key_f32(&writer, "f32", 0.25f);
    gguf_writer_key_bool(&writer, "bool", true);
    gguf_writer_key_string(&writer, "string", "text");
    gguf_writer_key_strings(&writer, "strings", words, 3);
    gguf_writer_key_i32s(&writer, "i32s", numbers, 2);
    gguf_writer_key(&writer, "f64", GGUF_F64);
    gguf_writer_raw(&writer, &half, sizeof half);
    gguf_writer_key(&writer, "i64", GGUF_I64);
    gguf_writer_raw(&writer, &negative, sizeof negative);
    assert_int_equal(gguf_parse(writer.bytes, writer.size, &gguf, err, sizeof err), GGUF_OK);

    uint32_t integer = 0;
    float number = 0;
    bool flag = false;
    struct gguf_string string;
    struct gguf_array array;
    struct gguf_string read[3];
    int64_t element;
    assert_int_equal(gguf_get_u32(gguf, "u32", &integer), GGUF_FOUND);
    assert_int_equal(integer, 4000000000u);
    assert_int_equal(gguf_get_u32(gguf, "i64", &integer), GGUF_OUT_OF_RANGE);
    assert_int_equal(gguf_get_u32(gguf, "f32", &integer), GGUF_WRONG_TYPE);
    assert_int_equal(gguf_get_u32(gguf, "strings", &integer), GGUF_WRONG_TYPE);
    assert_int_equal(gguf_get_u32(gguf, "none", &integer), GGUF_ABSENT);
    assert_int_equal(integer, 4000000000u); /* untouched */
    assert_int_equal(gguf_get_f32(gguf, "f32", &number), GGUF_FOUND);
    assert_true(number == 0.25f);
    assert_int_equal(gguf_get_f32(gguf, "f64", &number), GGUF_FOUND);
    assert_true(number == 0.5f);
    assert_int_equal(gguf_get_bool(gguf, "bool", &flag), GGUF_FOUND);
    assert_true(flag);
    assert_int_equal(gguf_get_string(gguf, "string", &string), GGUF_FOUND);
    assert_true(gguf_string_is(string, "text"));
    assert_int_equal(gguf_get_array(gguf, "strings", &array), GGUF_FOUND);
    assert_true(gguf_array_strings(&array, read));
    assert_true(gguf_string_is(read[0], "one") && gguf_string_is(read[1], "") &&
                gguf_string_is(read[2], "three"));
    assert_int_equal(gguf_get_array(gguf, "i32s", &array), GGUF_FOUND);
    assert_true(gguf_array_integer(&array, 0, &element));
    assert_int_equal(element, -1);
    assert_false(gguf_array_strings(&array, read));
    assert_string_equal(gguf_type_name(gguf, "strings"), "array");
    assert_string_equal(gguf_type_name(gguf, "none"), "nothing");
    gguf_close(gguf);
    gguf_writer_deinit(&writer);
}

static void finds_every_tensor_by_its_name(void **state) {
    struct gguf_writer writer = {0};
    struct gguf *gguf = NULL;
    char err[256];
    tiny_llama_build(NULL, &writer);
    assert_int_equal(gguf_parse(writer.bytes, writer.size, &gguf, err, sizeof err), GGUF_OK);
    assert_int_equal(gguf_tensor_count(gguf), 20);
    for (size_t i = 0; i < gguf_tensor_count(gguf); i++) {
        const struct gguf_tensor *tensor = gguf_tensor_at(gguf, i);
        char name[GGUF_NAME_BYTES_MAX + 1];
        snprintf(name, sizeof name, "%.*s", (int)tensor->name.bytes, tensor->name.data);
        assert_ptr_equal(gguf_find_tensor(gguf, name), tensor);
    }
    const struct gguf_tensor *down = gguf_find_tensor(gguf, "blk.1.ffn_down.weight");
    assert_int_equal(down->dims[0], 96);
    assert_int_equal(down->dims[1], 64);
    assert_int_equal(down->bytes, 96 * 64 * 4);
    assert_null(gguf_find_tensor(gguf, "blk.2.ffn_down.weight"));
    gguf_close(gguf);
    gguf_writer_deinit(&writer);
}

static void accepts_the_small_file_that_the_bad_ones_are_made_from(void **state) {
    struct gguf_writer writer = {0};
    char err[256];
    small_write(&small_good, &writer);
    assert_int_equal(parse_copy(writer.bytes, writer.size, err, sizeof err), GGUF_OK);
    gguf_writer_deinit(&writer);
}

/* ---------------------------------------------------------------- bad files */

static void refuses_a_header_that_is_wrong(void **state) {
    REFUSED("not a GGUF file (it begins 47 47 4d 4c)", magic = "GGML");
    REFUSED("version 1 ", version = 1);
    REFUSED("version 4 ", version = 4);
    REFUSED("version 50331648", version = 3u << 24); /* big endian */
    REFUSED("at most 65536", tensors = 65537);
    REFUSED("at most 65536", tensors = UINT64_MAX);
    REFUSED("at most 65536", keys = UINT64_MAX);
    REFUSED("tensor a.key: 9 dimensions",
            keys = (small.value_type = 9, 0)); /* a key read as tensor */
    REFUSED("tensor number 1", tensors = 2);
}

static void refuses_a_key_that_is_wrong(void **state) {
    REFUSED("key number 0: needs 18446744073709551615 bytes", key_bytes = UINT64_MAX);
    REFUSED("key number 0: needs 1099511627776 bytes", key_bytes = 1ull << 40);
    REFUSED("key number 0: its name holds the byte 0x04", key_bytes = 6);
    REFUSED("key a.key: value type 13 is unknown", value_type = GGUF_TYPE_COUNT);
    REFUSED("key a.key: value type 4294967295 is unknown", value_type = UINT32_MAX);
    REFUSED("key a.key: a bool of value 7", value_type = GGUF_BOOL);
    REFUSED("key a.key: needs", value_type = GGUF_STRING);
}

static void refuses_a_tensor_that_is_wrong(void **state) {
    char long_name[GGUF_NAME_BYTES_MAX + 2];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    REFUSED("tensor number 0: a name of 0 bytes", tensor_name = "");
    REFUSED("tensor number 0: a name of 256 bytes", tensor_name = long_name);
    REFUSED("its name holds the byte 0x0a", tensor_name = "a\nb");
    REFUSED("its name holds the byte 0xff", tensor_name = "\xff");
    REFUSED("tensor t: 0 dimensions", rank = 0);
    REFUSED("tensor t: 5 dimensions", rank = 5);
    REFUSED("tensor t: 4294967295 dimensions", rank = UINT32_MAX);
    REFUSED("tensor t: dimension 0 is 0", dims[0] = 0);
    REFUSED("tensor t: type 4 is unknown", format = 4); /* withdrawn by the format's authors */
    REFUSED("tensor t: type 4294967295 is unknown", format = UINT32_MAX);
    REFUSED("rows of 33 elements are no whole number of Q8_0 blocks of 32",
            dims[0] = (small.format = BLOCK_FORMAT_Q8_0, 33));
    REFUSED("tensor t: offset 1 is no multiple of the alignment 32", offset = 1);
    REFUSED("tensor t: bytes 32 to 160 of the data, which has 128", offset = 32);
    REFUSED("tensor t: ", offset = UINT64_MAX - 31);
    REFUSED("tensor t: bytes 0 to 128 of the data, which has 127", data_bytes = 127);
    REFUSED("tensor t: its size overflows", dims[0] = UINT64_MAX);
    REFUSED("tensor t: its size overflows", dims[0] = 1ull << 61);
    REFUSED("tensor t: its dimensions overflow",
            dims[1] = (small.rank = 4, small.dims[2] = small.dims[3] = 1ull << 32, 1));
}

/* Two tensors of 32 floats. */
static void write_two(struct gguf_writer *writer, const char *first, const char *second,
                      uint64_t second_offset) {
    gguf_writer_header(writer, 2, 0);
    gguf_writer_tensor(writer, first, 32, 0, BLOCK_FORMAT_F32, 0);
    gguf_writer_tensor(writer, second, 32, 0, BLOCK_FORMAT_F32, second_offset);
    gguf_writer_align(writer, 32);
    for (int i = 0; i < 64; i++) {
        gguf_writer_u32(writer, 0);
    }
}

static void refuses_two_tensors_that_share_a_name_or_bytes(void **state) {
    struct gguf_writer writer = {0};
    char err[256];
    write_two(&writer, "a", "b", 128);
    assert_int_equal(parse_copy(writer.bytes, writer.size, err, sizeof err), GGUF_OK);
    gguf_writer_deinit(&writer);
    write_two(&writer, "a", "b", 96);
    expect_said(&writer, "tensor b: overlaps tensor a");
    write_two(&writer, "a", "b", 0);
    expect_said(&writer, "overlaps tensor");
    write_two(&writer, "same", "same", 128);
    expect_said(&writer, "tensor same: stands twice in the file");
}

static void refuses_two_keys_of_one_name(void **state) {
    struct gguf_writer writer = {0};
    gguf_writer_header(&writer, 0, 3);
    gguf_writer_key_u32(&writer, "twice", 1);
    gguf_writer_key_u32(&writer, "once", 1);
    gguf_writer_key_f32(&writer, "twice", 1);
    expect_said(&writer, "key twice: stands twice in the file");
}

static void refuses_alignments_that_are_no_power_of_two(void **state) {
    const uint32_t bad[] = {0, 1, 4, 12, 33, 1u << 17, UINT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct gguf_writer writer = {0};
        gguf_writer_header(&writer, 0, 1);
        gguf_writer_key_u32(&writer, "general.alignment", bad[i]);
        expect_said(&writer, "key general.alignment: a power of two from 8 to 65536");
    }
    struct gguf_writer writer = {0};
    gguf_writer_header(&writer, 0, 1);
    gguf_writer_key_string(&writer, "general.alignment", "32");
    expect_said(&writer, "key general.alignment: an integer is expected, not string");
}

static void honours_an_alignment_of_the_file(void **state) {
    struct gguf_writer writer = {0};
    struct gguf *gguf = NULL;
    char err[256];
    gguf_writer_header(&writer, 1, 1);
    gguf_writer_key_u32(&writer, "general.alignment", 1024);
    gguf_writer_tensor(&writer, "t", 1, 0, BLOCK_FORMAT_F32, 0);
    gguf_writer_align(&writer, 1024);
    gguf_writer_u32(&writer, 0x3f800000);
    assert_int_equal(gguf_parse(writer.bytes, writer.size, &gguf, err, sizeof err), GGUF_OK);
    assert_ptr_equal(gguf_find_tensor(gguf, "t")->data, writer.bytes + 1024);
    gguf_close(gguf);
    gguf_writer_deinit(&writer);
}

static void refuses_arrays_that_lie_about_their_size(void **state) {
    const struct {
        enum gguf_type type;
        uint64_t count;
        const char *said;
    } table[] = {
        {GGUF_U8, 1u << 20, "an array of 1048576 u8"},
        {GGUF_F64, UINT64_MAX / 8 + 1, "an array of 2305843009213693952 f64"},
        {GGUF_STRING, UINT64_MAX, "needs 8 bytes"},
        {GGUF_ARRAY, UINT64_MAX, "needs 4 bytes"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct gguf_writer writer = {0};
        gguf_writer_header(&writer, 0, 1);
        gguf_writer_key(&writer, "list", GGUF_ARRAY);
        gguf_writer_u32(&writer, table[i].type);
        gguf_writer_u64(&writer, table[i].count);
        expect_said(&writer, table[i].said);
    }
}

static void refuses_arrays_nested_too_deep(void **state) {
    for (uint32_t depth = GGUF_NESTING_MAX; depth <= 100000; depth += 99996) {
        struct gguf_writer writer = {0};
        char err[256] = "";
        gguf_writer_header(&writer, 0, 1);
        gguf_writer_key(&writer, "nest", GGUF_ARRAY);
        for (uint32_t i = 1; i < depth; i++) {
            gguf_writer_u32(&writer, GGUF_ARRAY);
            gguf_writer_u64(&writer, 1);
        }
        gguf_writer_u32(&writer, GGUF_U8);
        gguf_writer_u64(&writer, 0);
        enum gguf_status expected = depth <= GGUF_NESTING_MAX ? GGUF_OK : GGUF_MALFORMED;
        assert_int_equal(parse_copy(writer.bytes, writer.size, err, sizeof err), expected);
        assert_true(depth <= GGUF_NESTING_MAX || strstr(err, "nested") != NULL);
        gguf_writer_deinit(&writer);
    }
}

static void refuses_a_file_cut_at_any_byte(void **state) {
    struct gguf_writer writer = {0};
    char err[256];
    const struct tiny_llama_options options = {.format = BLOCK_FORMAT_Q4_1, .layers = 1};
    tiny_llama_build(&options, &writer);
    for (size_t size = 0; size < writer.size; size++) {
        enum gguf_status status = parse_copy(writer.bytes, size, err, sizeof err);
        if (status != GGUF_MALFORMED) {
            fail_msg("cut at byte %zu of %zu: status %d", size, writer.size, (int)status);
        }
    }
    assert_int_equal(parse_copy(writer.bytes, writer.size, err, sizeof err), GGUF_OK);
    gguf_writer_deinit(&writer);
}

static void survives_any_byte_changed(void **state) {
    struct gguf_writer writer = {0};
    char err[256];
    uint64_t random = test_seed();
    const struct tiny_llama_options options = {.format = BLOCK_FORMAT_Q4_1, .layers = 1};
    tiny_llama_build(&options, &writer);
    for (int i = 0; i < 3000; i++) {
        size_t at = test_random(&random) % writer.size;
        uint8_t old = writer.bytes[at];
        writer.bytes[at] = (uint8_t)test_random(&random);
        (void)parse_copy(writer.bytes, writer.size, err, sizeof err);
        writer.bytes[at] = old;
    }
    gguf_writer_deinit(&writer);
}

static void says_why_a_file_cannot_be_opened(void **state) {
    char err[256];
    struct gguf *gguf = NULL;
    char *path = test_tmp_path("empty.gguf");
    fclose(fopen(path, "wb"));
    assert_int_equal(gguf_open(path, &gguf, err, sizeof err), GGUF_UNREADABLE);
    assert_string_equal(err, "the file is empty");
    assert_int_equal(gguf_open(test_tmpdir(), &gguf, err, sizeof err), GGUF_UNREADABLE);
    assert_string_equal(err, "not a regular file");
    assert_int_equal(gguf_open("/nonexistent/x", &gguf, err, sizeof err), GGUF_UNREADABLE);
    assert_string_equal(err, "No such file or directory");
    free(path);
}

TEST_MAIN(cmocka_unit_test(reads_every_type_of_value),
          cmocka_unit_test(finds_every_tensor_by_its_name),
          cmocka_unit_test(accepts_the_small_file_that_the_bad_ones_are_made_from),
          cmocka_unit_test(refuses_a_header_that_is_wrong),
          cmocka_unit_test(refuses_a_key_that_is_wrong),
          cmocka_unit_test(refuses_a_tensor_that_is_wrong),
          cmocka_unit_test(refuses_two_tensors_that_share_a_name_or_bytes),
          cmocka_unit_test(refuses_two_keys_of_one_name),
          cmocka_unit_test(refuses_alignments_that_are_no_power_of_two),
          cmocka_unit_test(honours_an_alignment_of_the_file),
          cmocka_unit_test(refuses_arrays_that_lie_about_their_size),
          cmocka_unit_test(refuses_arrays_nested_too_deep),
          cmocka_unit_test(refuses_a_file_cut_at_any_byte),
          cmocka_unit_test(survives_any_byte_changed),
          cmocka_unit_test(says_why_a_file_cannot_be_opened))
