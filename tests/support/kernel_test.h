/* What tests of kernels share: every tier with 1, 2 and 3 threads, hostile floats, packed weights,
 * and a comparison by bits in which a NaN equals any NaN.
 *
 * Kernels run on host memory here (the CPU device). Not for several threads. */
#ifndef SOLFLEET_TESTS_SUPPORT_KERNEL_TEST_H
#define SOLFLEET_TESTS_SUPPORT_KERNEL_TEST_H

#include "tests/support/test.h"

#include "kernels/ops.h"

struct kernel_test {
    struct device *device;
    const struct kernel_ops *ops;
    char label[32]; /* "avx2, 2 threads", for messages */
};

/* Runs body for every tier and thread count. Called by a case itself: where the CPU lacks a tier,
 * that case counts as skipped, with the reason, once the tiers that it has are done. */
#define kernel_test_each(body) kernel_test_each_of(__func__, body)
void kernel_test_each_of(const char *test_case, void (*body)(const struct kernel_test *test));

/* Zeroed memory aligned as device memory, followed by a guard that kernel_test_free checks. */
void *kernel_test_alloc(size_t bytes);
void kernel_test_free(void *memory); /* accepts NULL */

/* Of what `op` needs for calls of that size; its data goes to kernel_test_free. */
struct kernels_workspace kernel_test_workspace(const struct kernel_test *test, enum kernel_op op,
                                               const struct kernels_shape *shape);

/* Uniform in [low, high]. */
float kernel_test_float(uint64_t *random, float low, float high);
void kernel_test_floats(uint64_t *random, float *x, size_t count);
/* As kernel_test_floats, with zeros of both signs, denormals and large values among them. */
void kernel_test_hostile_floats(uint64_t *random, float *x, size_t count);
uint32_t kernel_test_between(uint64_t *random, uint32_t low, uint32_t high);

/* Packs and prepares; the weight's memory is freed by kernel_test_weight_free. */
struct weight kernel_test_weight(const struct kernel_test *test, const struct weight_form *form,
                                 const struct weight_source *source);
void kernel_test_weight_free(const struct kernel_test *test, struct weight *weight);

/* Fails, naming the label and the first difference. */
void kernel_test_same_floats(const float *got, const float *wanted, size_t count,
                             const char *label);
void kernel_test_same_bytes(const void *got, const void *wanted, size_t bytes, const char *label);

#endif
