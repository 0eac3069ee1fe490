/* Packed weights are kept on disk: when their layout changes, so must packing_version. The digests
 * below are of weights packed by this program; after a change of layout, raise the tier's version
 * and put the digest that the failure shows in the place of the old one. */
#include "tests/support/kernel_test.h"

#include <string.h>

#include "schemas/sha256.h"

struct packing {
    const char *tier;
    uint32_t version;
    const char *sha256; /* of all forms below, one after the other */
};

static const struct packing packings[] = {
    {"reference", 1, "b78a8c3fd5a4cdc9b0edd017e9daf5ed5eb5b867b452931760e3a42529fc98d7"},
    {"avx2", 4, "4a0938fc16896321ef1d562d48acb57b140e5f4c884168b77bd405aece32df3e"},
    {"avx512", 1, "fd27bab42fd5703452326a888e4b3c09f86a037374639473ac941c85e5ca9eb7"},
};

/* The forms that models have: odd sizes, so that padding shows. */
static const struct weight_form forms[] = {
    {.type = ELEMENT_I8, .n = 83, .k = 71, .activation = ACTIVATION_PER_TOKEN},
    {.type = ELEMENT_I8, .n = 83, .k = 71, .activation = ACTIVATION_PER_TOKEN, .bias = true},
    {.type = ELEMENT_I8, .n = 64, .k = 128, .activation = ACTIVATION_PER_TOKEN, .group_size = 32},
    {.type = ELEMENT_F16, .n = 83, .k = 71},
    {.type = ELEMENT_F32, .n = 83, .k = 71, .bias = true},
};

static void add(const struct kernel_test *test, const struct weight_form *form,
                struct sha256 *hash) {
    size_t bytes = 0, count = (size_t)form->n * form->k;
    char err[256] = "";
    uint8_t *values = kernel_test_alloc(count * element_bytes(form->type));
    float *scale = kernel_test_alloc(count * sizeof *scale);
    float *bias = kernel_test_alloc(form->n * sizeof *bias);
    for (size_t i = 0; i < count; i++) {
        scale[i] = 0.5f + (float)(i % 13);
        int8_t small = (int8_t)(i * 37 % 251);
        float plain = (float)(i % 101) / 8.0f;
        uint16_t half = (uint16_t)(0x3C00 + i % 1000);
        const void *value = form->type == ELEMENT_I8    ? (const void *)&small
                            : form->type == ELEMENT_F16 ? (const void *)&half
                                                        : (const void *)&plain;
        memcpy(values + i * element_bytes(form->type), value, element_bytes(form->type));
    }
    for (uint32_t n = 0; n < form->n; n++) {
        bias[n] = (float)n;
    }
    const struct weight_source source = {.values = values, .scale = scale, .bias = bias};
    assert_int_equal(test->ops->weight_packed_bytes(form, &bytes, err, sizeof err), KERNELS_OK);
    void *packed = kernel_test_alloc(bytes);
    assert_int_equal(test->ops->weight_pack(form, &source, packed, err, sizeof err), KERNELS_OK);
    sha256_update(hash, packed, bytes);
    kernel_test_free(packed);
    kernel_test_free(values);
    kernel_test_free(scale);
    kernel_test_free(bias);
}

static const struct packing *packing_of(const char *tier) {
    for (size_t i = 0; i < sizeof packings / sizeof packings[0]; i++) {
        if (strcmp(packings[i].tier, tier) == 0) {
            return &packings[i];
        }
    }
    fail_msg("no digest for tier %s", tier);
    return NULL;
}

static void body_packing(const struct kernel_test *test) {
    const struct packing *packing = packing_of(test->ops->tier);
    struct sha256 hash;
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_HEX_BYTES];
    sha256_init(&hash);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        add(test, &forms[i], &hash);
    }
    assert_true(sha256_finish(&hash, digest));
    sha256_hex(digest, hex);
    assert_int_equal(test->ops->packing_version, packing->version);
    assert_string_equal(hex, packing->sha256);
}

static void changes_its_version_with_its_layout(void **state) {
    kernel_test_each(body_packing);
}

TEST_MAIN(cmocka_unit_test(changes_its_version_with_its_layout))
