#include "tests/support/kernel_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/canonical.h"

#define KERNEL_TEST_GUARD_BYTES 64u
#define KERNEL_TEST_GUARD 0xA5

/* Tiers ascend: those before have been tested, those after lack what this one lacks. */
static void kernel_test_skip(const char *test_case, const char *missing) {
    char reason[128];
    snprintf(reason, sizeof reason, "this CPU lacks %s", missing);
    test_note_skip(test_case, reason);
    skip();
}

void kernel_test_each_of(const char *test_case, void (*body)(const struct kernel_test *test)) {
    static const char *const tiers[] = {"reference", "avx2", "avx512"};
    static const char lacks[] = "this processor lacks ";
    for (size_t i = 0; i < sizeof tiers / sizeof tiers[0]; i++) {
        for (uint32_t threads = 1; threads <= 3; threads++) {
            const struct device_options options = {
                .spec = "cpu", .tier = tiers[i], .threads = threads};
            struct kernel_test test = {0};
            char err[256] = "";
            if (device_open(&options, &test.device, err, sizeof err) != KERNELS_OK) {
                const char *found = strstr(err, lacks);
                if (found == NULL) {
                    fail_msg("%s: %s", tiers[i], err);
                }
                kernel_test_skip(test_case, found + strlen(lacks));
            }
            test.ops = device_ops(test.device);
            assert_string_equal(test.ops->tier, tiers[i]);
            snprintf(test.label, sizeof test.label, "%s, %u threads", tiers[i], threads);
            device_enter_thread(test.device);
            body(&test);
            device_close(test.device);
        }
    }
}

void *kernel_test_alloc(size_t bytes) {
    /* [size, padded to the alignment][bytes][guard] */
    size_t rounded = kernels_aligned(bytes);
    char *block = aligned_alloc(KERNELS_ALIGNMENT_BYTES,
                                KERNELS_ALIGNMENT_BYTES + rounded + KERNEL_TEST_GUARD_BYTES);
    assert_non_null(block);
    memcpy(block, &bytes, sizeof bytes);
    char *memory = block + KERNELS_ALIGNMENT_BYTES;
    memset(memory, 0, bytes);
    memset(memory + bytes, KERNEL_TEST_GUARD, KERNEL_TEST_GUARD_BYTES);
    return memory;
}

struct kernels_workspace kernel_test_workspace(const struct kernel_test *test, enum kernel_op op,
                                               const struct kernels_shape *shape) {
    size_t bytes = test->ops->workspace_bytes(test->device, op, shape);
    return (struct kernels_workspace){bytes > 0 ? kernel_test_alloc(bytes) : NULL, bytes};
}

void kernel_test_free(void *memory) {
    if (memory == NULL) {
        return;
    }
    char *block = (char *)memory - KERNELS_ALIGNMENT_BYTES;
    size_t bytes;
    memcpy(&bytes, block, sizeof bytes);
    for (size_t i = 0; i < KERNEL_TEST_GUARD_BYTES; i++) {
        if ((uint8_t)((char *)memory)[bytes + i] != KERNEL_TEST_GUARD) {
            fail_msg("written past %zu bytes, at +%zu", bytes, i);
        }
    }
    free(block);
}

float kernel_test_float(uint64_t *random, float low, float high) {
    return low + (high - low) * ((float)(test_random(random) >> 40) * 0x1p-24f);
}

void kernel_test_floats(uint64_t *random, float *x, size_t count) {
    for (size_t i = 0; i < count; i++) {
        x[i] = kernel_test_float(random, -4.0f, 4.0f);
    }
}

void kernel_test_hostile_floats(uint64_t *random, float *x, size_t count) {
    static const float special[] = {0.0f,  -0.0f,    1e-40f,   -1e-42f,  0x1p-126f,
                                    3e30f, -2.5e30f, 0x1p-24f, 65504.0f, -1.0f};
    for (size_t i = 0; i < count; i++) {
        uint64_t pick = test_random(random) % 64u;
        x[i] = pick < sizeof special / sizeof special[0] ? special[pick]
                                                         : kernel_test_float(random, -4.0f, 4.0f);
    }
}

uint32_t kernel_test_between(uint64_t *random, uint32_t low, uint32_t high) {
    return low + (uint32_t)(test_random(random) % (high - low + 1u));
}

struct weight kernel_test_weight(const struct kernel_test *test, const struct weight_form *form,
                                 const struct weight_source *source) {
    struct weight weight = {.form = *form};
    char err[256] = "";
    size_t bytes = 0;
    if (test->ops->weight_packed_bytes(form, &bytes, err, sizeof err) != KERNELS_OK) {
        fail_msg("%s: %s", test->label, err);
    }
    weight.packed = kernel_test_alloc(bytes);
    const uint32_t buckets[] = {1, 16};
    if (test->ops->weight_pack(form, source, weight.packed, err, sizeof err) != KERNELS_OK ||
        test->ops->weight_prepare(test->device, &weight, buckets, 2, err, sizeof err) !=
            KERNELS_OK) {
        fail_msg("%s: %s", test->label, err);
    }
    return weight;
}

void kernel_test_weight_free(const struct kernel_test *test, struct weight *weight) {
    test->ops->weight_release(test->device, weight);
    kernel_test_free(weight->packed);
    weight->packed = NULL;
}

void kernel_test_same_floats(const float *got, const float *wanted, size_t count,
                             const char *label) {
    for (size_t i = 0; i < count; i++) {
        bool same = canonical_bits(got[i]) == canonical_bits(wanted[i]) ||
                    (isnan(got[i]) && isnan(wanted[i]));
        if (!same) {
            fail_msg("%s: element %zu of %zu is %a, wanted %a", label, i, count, (double)got[i],
                     (double)wanted[i]);
        }
    }
}

void kernel_test_same_bytes(const void *got, const void *wanted, size_t bytes, const char *label) {
    const uint8_t *a = got, *b = wanted;
    for (size_t i = 0; i < bytes; i++) {
        if (a[i] != b[i]) {
            fail_msg("%s: byte %zu of %zu is %u, wanted %u", label, i, bytes, a[i], b[i]);
        }
    }
}
