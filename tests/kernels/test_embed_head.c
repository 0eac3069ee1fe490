/* Embedding rows and the LM head out of one packed table, and head_sample against its parts. */
#include "tests/support/kernel_test.h"

#include <math.h>
#include <string.h>

#include "kernels/canonical.h"

struct table {
    struct weight_form form;
    void *values;  /* [V, D] of form.type */
    float *as_f32; /* [V, D] */
    struct weight weight;
};

static void pose(const struct kernel_test *test, struct table *table, enum element_type type,
                 uint32_t vocabulary, uint32_t dim, uint64_t *random) {
    size_t count = (size_t)vocabulary * dim;
    *table = (struct table){.form = {.type = type, .n = vocabulary, .k = dim}};
    table->values = kernel_test_alloc(count * element_bytes(type));
    table->as_f32 = kernel_test_alloc(count * sizeof(float));
    kernel_test_floats(random, table->as_f32, count);
    table->as_f32[0] = 1e-7f; /* denormal in f16 */
    table->as_f32[count / 2] = -0.0f;
    for (size_t i = 0; i < count; i++) {
        if (type == ELEMENT_F16) {
            uint16_t half = canonical_f32_to_f16(table->as_f32[i]);
            ((uint16_t *)table->values)[i] = half;
            table->as_f32[i] = canonical_f16_to_f32(half);
        } else {
            ((float *)table->values)[i] = table->as_f32[i];
        }
    }
    const struct weight_source source = {.values = table->values};
    table->weight = kernel_test_weight(test, &table->form, &source);
}

static void discard(const struct kernel_test *test, struct table *table) {
    kernel_test_weight_free(test, &table->weight);
    kernel_test_free(table->values);
    kernel_test_free(table->as_f32);
}

static void body_embed(const struct kernel_test *test) {
    uint64_t random = test_seed();
    for (uint32_t rows = 1; rows <= 17; rows++) {
        struct table table;
        uint32_t v = kernel_test_between(&random, 1, 90), d = kernel_test_between(&random, 1, 70);
        pose(test, &table, rows % 2 ? ELEMENT_F16 : ELEMENT_F32, v, d, &random);
        int32_t token[17];
        float *x = kernel_test_alloc((size_t)rows * d * sizeof(float));
        for (uint32_t t = 0; t < rows; t++) {
            token[t] = (int32_t)kernel_test_between(&random, 0, v - 1);
        }
        const struct embed_args args = {token, &table.weight, x, rows};
        assert_int_equal(test->ops->embed(test->device, &args), KERNELS_OK);
        for (uint32_t t = 0; t < rows; t++) {
            kernel_test_same_floats(x + (size_t)t * d, table.as_f32 + (size_t)token[t] * d, d,
                                    test->label);
        }
        kernel_test_free(x);
        discard(test, &table);
    }
}

static void embeds_rows_of_the_packed_table(void **state) {
    kernel_test_each(body_embed);
}

static void body_tokens(const struct kernel_test *test) {
    uint64_t random = 1;
    struct table table;
    pose(test, &table, ELEMENT_F16, 8, 4, &random);
    float x[8];
    const int32_t beyond[2] = {0, 8}, negative[2] = {-1, 0};
    const struct embed_args first = {beyond, &table.weight, x, 2};
    const struct embed_args second = {negative, &table.weight, x, 2};
    const struct embed_args none = {beyond, &table.weight, x, 0};
    assert_int_equal(test->ops->embed(test->device, &first), KERNELS_INVALID);
    assert_int_equal(test->ops->embed(test->device, &second), KERNELS_INVALID);
    assert_int_equal(test->ops->embed(test->device, &none), KERNELS_INVALID);
    discard(test, &table);
}

static void refuses_tokens_outside_the_table(void **state) {
    kernel_test_each(body_tokens);
}

#define SAMPLED 5u

static void body_head(const struct kernel_test *test) {
    uint64_t random = test_seed() + 1;
    const uint32_t v = 403, d = 33;
    struct table table;
    pose(test, &table, ELEMENT_F16, v, d, &random);
    float *x = kernel_test_alloc(SAMPLED * d * sizeof(float));
    float *logits = kernel_test_alloc(SAMPLED * v * sizeof(float));
    float *wanted = kernel_test_alloc(SAMPLED * v * sizeof(float));
    kernel_test_floats(&random, x, SAMPLED * d);
    x[3 * d + 1] = NAN;
    for (uint32_t s = 0; s < SAMPLED; s++) {
        for (uint32_t n = 0; n < v; n++) {
            float sum = 0;
            for (uint32_t k = 0; k < d; k++) {
                sum = fmaf(x[s * d + k], table.as_f32[n * d + k], sum);
            }
            wanted[s * v + n] = sum;
        }
    }
    const struct head_logits_args head = {
        .x = x, .weight = &table.weight, .logits = logits, .rows = SAMPLED};
    assert_int_equal(test->ops->head_logits(test->device, &head), KERNELS_OK);
    kernel_test_same_floats(logits, wanted, SAMPLED * v, test->label);

    float temperature[SAMPLED] = {0, 1, 0.5f, 1, 100}, ones[SAMPLED] = {1.5f, 1, 1, 1, 1};
    float zeros[SAMPLED] = {0};
    uint32_t top_k[SAMPLED] = {0, 5, 50, 3, 0}, min_p[SAMPLED] = {0};
    uint32_t top_p[SAMPLED] = {65536, 60000, 65536, 65536, 50000};
    uint64_t seed[SAMPLED] = {1, 2, 3, 4, 5}, position[SAMPLED] = {9, 8, 7, 6, 5};
    int32_t seen_begin[SAMPLED + 1] = {0, 2, 2, 2, 2, 2}, seen_id[2] = {3, 77},
                                 seen_count[2] = {0, 1};
    const struct sample_params params = {temperature, top_k,      top_p,   min_p,
                                         ones,        zeros,      zeros,   seed,
                                         position,    seen_begin, seen_id, seen_count};
    const struct kernels_shape shape = {.sampled_max = SAMPLED, .vocabulary = v};
    struct kernels_workspace workspace = kernel_test_workspace(test, KERNEL_OP_head_sample, &shape);
    int32_t token[SAMPLED], parts_token[SAMPLED];
    uint8_t bad[SAMPLED] = {0}, parts_bad[SAMPLED] = {0};
    struct head_sample_args fused = {.x = x,
                                     .weight = &table.weight,
                                     .params = params,
                                     .token = token,
                                     .bad = bad,
                                     .workspace = workspace,
                                     .rows = SAMPLED};
    assert_int_equal(test->ops->head_sample(test->device, &fused), KERNELS_OK);
    const struct sample_args sample = {.logits = logits,
                                       .vocabulary = v,
                                       .params = params,
                                       .token = parts_token,
                                       .bad = parts_bad,
                                       .workspace = workspace,
                                       .rows = SAMPLED};
    assert_int_equal(test->ops->sample(test->device, &sample), KERNELS_OK);
    kernel_test_same_bytes(token, parts_token, sizeof token, test->label);
    kernel_test_same_bytes(bad, parts_bad, sizeof bad, test->label);
    assert_true(bad[3] && !bad[0] && !bad[4]);
    fused.workspace.bytes--;
    assert_int_equal(test->ops->head_sample(test->device, &fused), KERNELS_INVALID);
    kernel_test_free(workspace.data);
    kernel_test_free(x);
    kernel_test_free(logits);
    kernel_test_free(wanted);
    discard(test, &table);
}

static void head_sample_equals_head_logits_and_sample(void **state) {
    kernel_test_each(body_head);
}

TEST_MAIN(cmocka_unit_test(embeds_rows_of_the_packed_table),
          cmocka_unit_test(refuses_tokens_outside_the_table),
          cmocka_unit_test(head_sample_equals_head_logits_and_sample))
