/* head_sample with a sketch against head_sample without: the same tokens, bit for bit, whatever the
 * rows, weights and parameters. Tiers that pass the sketch over are run, too. */
#include "tests/support/kernel_test.h"

#include <math.h>
#include <string.h>

#include "kernels/canonical.h"
#include "kernels/head_sketch.h"

#define ROWS_MAX 37u

struct head {
    uint32_t vocabulary, dim;
    float *w; /* [V, D] as the head multiplies with it */
    struct weight weight;
    struct head_sketch sketch;
    float *norm, *error;
};

enum shape_of_weights { PLAIN, TWINS, NEIGHBOURS, UNEVEN, ZEROS, TINY, SHAPES };

/* Weights that make it hard: equal rows, rows one rounding apart, outliers, nothing at all. */
static void fill(struct head *head, enum shape_of_weights shape, uint64_t *random) {
    uint32_t d = head->dim;
    kernel_test_floats(random, head->w, (size_t)head->vocabulary * d);
    for (uint32_t n = 0; n < head->vocabulary; n++) {
        float *row = head->w + (size_t)n * d;
        switch (shape) {
        case PLAIN: break;
        case TWINS: memcpy(row, head->w + (size_t)(n / 7 * 7) * d, d * sizeof *row); break;
        case NEIGHBOURS:
            memcpy(row, head->w, d * sizeof *row);
            row[n % d] = row[n % d] * (1.0f + 0x1p-10f * (float)(n % 3));
            break;
        case UNEVEN: row[n % d] = 100.0f * row[n % d]; break;
        case ZEROS: memset(row, 0, n % 3 == 0 ? 0 : d * sizeof *row); break;
        default:
            for (uint32_t k = 0; k < d; k++) {
                row[k] = row[k] * 0x1p-14f; /* halves without a leading bit */
            }
            break;
        }
    }
}

/* Packs head->w, rounded to `type`, and its sketch. */
static void head_open(const struct kernel_test *test, struct head *head, enum element_type type) {
    uint32_t v = head->vocabulary, d = head->dim;
    size_t count = (size_t)v * d;
    uint16_t *half = kernel_test_alloc(count * sizeof *half);
    for (size_t i = 0; i < count && type == ELEMENT_F16; i++) {
        half[i] = canonical_f32_to_f16(head->w[i]);
        head->w[i] = canonical_f16_to_f32(half[i]);
    }
    const struct weight_form form = {.type = type, .n = v, .k = d};
    const struct weight_source source = {.values = type == ELEMENT_F16 ? (void *)half : head->w};
    head->weight = kernel_test_weight(test, &form, &source);
    int8_t *q = kernel_test_alloc(count);
    float *scale = kernel_test_alloc(v * sizeof *scale);
    head->norm = kernel_test_alloc(v * sizeof(float));
    head->error = kernel_test_alloc(v * sizeof(float));
    for (uint32_t n = 0; n < v; n++) {
        head_sketch_row(head->w + (size_t)n * d, d, q + (size_t)n * d, &scale[n], &head->norm[n],
                        &head->error[n]);
    }
    const struct weight_form sketch = {
        .type = ELEMENT_I8, .n = v, .k = d, .activation = ACTIVATION_PER_TOKEN};
    const struct weight_source rounded = {.values = q, .scale = scale};
    head->sketch = (struct head_sketch){.weight = kernel_test_weight(test, &sketch, &rounded),
                                        .norm = head->norm,
                                        .error = head->error};
    kernel_test_free(half);
    kernel_test_free(q);
    kernel_test_free(scale);
}

static void head_close(const struct kernel_test *test, struct head *head) {
    kernel_test_weight_free(test, &head->weight);
    kernel_test_weight_free(test, &head->sketch.weight);
    kernel_test_free(head->w);
    kernel_test_free(head->norm);
    kernel_test_free(head->error);
}

/* ---------------------------------------------------------------- rows and parameters */

struct rows {
    uint32_t count;
    float *x;
    float temperature[ROWS_MAX], repetition[ROWS_MAX], presence[ROWS_MAX], frequency[ROWS_MAX];
    uint32_t top_k[ROWS_MAX], top_p[ROWS_MAX], min_p[ROWS_MAX];
    uint64_t seed[ROWS_MAX], position[ROWS_MAX];
    int32_t seen_begin[ROWS_MAX + 1], seen_id[8 * ROWS_MAX], seen_count[8 * ROWS_MAX];
};

/* A row like a model's, one that a head row made, one of extremes, or nothing. */
static void pose_row(const struct head *head, uint64_t *random, float *x) {
    uint32_t d = head->dim, kind = kernel_test_between(random, 0, 9);
    kernel_test_floats(random, x, d);
    if (kind < 4) {
        const float *w = head->w + (size_t)kernel_test_between(random, 0, head->vocabulary - 1) * d;
        for (uint32_t k = 0; k < d; k++) {
            x[k] = w[k] + 0.1f * x[k];
        }
    } else if (kind == 4) {
        kernel_test_hostile_floats(random, x, d);
    } else if (kind == 5) {
        x[kernel_test_between(random, 0, d - 1)] = 3e4f;
    } else if (kind == 6) {
        memset(x, 0, d * sizeof *x);
    }
}

static void pose_rows(const struct head *head, uint32_t count, uint64_t *random,
                      struct rows *rows) {
    rows->count = count;
    rows->seen_begin[0] = 0;
    for (uint32_t s = 0; s < count; s++) {
        pose_row(head, random, rows->x + (size_t)s * head->dim);
        uint32_t kind = kernel_test_between(random, 0, 7);
        rows->temperature[s] = kind < 3 ? 0.0f : kernel_test_float(random, 0.1f, 2.0f);
        rows->top_k[s] = kind == 7 ? kernel_test_between(random, 0, 1) * 257
                                   : kernel_test_between(random, 1, 256);
        rows->top_p[s] = kind % 2 ? 65536 : kernel_test_between(random, 1, 65535);
        rows->min_p[s] = kind == 5 ? 3000 : 0;
        bool penalised = kind % 3 == 0;
        rows->repetition[s] = penalised ? kernel_test_float(random, 0.5f, 1.9f) : 1.0f;
        rows->presence[s] = penalised ? kernel_test_float(random, -2, 2) : 0.0f;
        rows->frequency[s] = penalised ? kernel_test_float(random, -2, 2) : 0.0f;
        rows->seed[s] = kernel_test_between(random, 0, 1u << 30);
        rows->position[s] = s;
        int32_t at = rows->seen_begin[s], id = -1;
        for (uint32_t i = 0; i < 8 && penalised; i++) {
            id += (int32_t)kernel_test_between(random, 1, head->vocabulary / 8);
            rows->seen_id[at] = id;
            rows->seen_count[at++] = (int32_t)kernel_test_between(random, 0, 3);
        }
        rows->seen_begin[s + 1] = at;
    }
}

static void draw(const struct kernel_test *test, const struct head *head, const struct rows *rows,
                 const struct head_sketch *sketch, int32_t *token, uint8_t *bad) {
    const struct kernels_shape shape = {.sampled_max = rows->count,
                                        .vocabulary = head->vocabulary,
                                        .dim = head->dim,
                                        .head_sketch = sketch != NULL};
    struct kernels_workspace workspace = kernel_test_workspace(test, KERNEL_OP_head_sample, &shape);
    const struct head_sample_args args = {
        .x = rows->x,
        .weight = &head->weight,
        .sketch = sketch,
        .params = {rows->temperature, rows->top_k, rows->top_p, rows->min_p, rows->repetition,
                   rows->presence, rows->frequency, rows->seed, rows->position, rows->seen_begin,
                   rows->seen_id, rows->seen_count},
        .token = token,
        .bad = bad,
        .workspace = workspace,
        .rows = rows->count};
    assert_int_equal(test->ops->head_sample(test->device, &args), KERNELS_OK);
    kernel_test_free(workspace.data);
}

static void compare(const struct kernel_test *test, const struct head *head,
                    const struct rows *rows) {
    int32_t token[ROWS_MAX], wanted[ROWS_MAX];
    uint8_t bad[ROWS_MAX] = {0}, wanted_bad[ROWS_MAX] = {0};
    draw(test, head, rows, NULL, wanted, wanted_bad);
    draw(test, head, rows, &head->sketch, token, bad);
    kernel_test_same_bytes(token, wanted, rows->count * sizeof *token, test->label);
    kernel_test_same_bytes(bad, wanted_bad, rows->count, test->label);
}

static void run(const struct kernel_test *test, uint32_t vocabulary, uint32_t dim, uint32_t repeats,
                uint64_t seed) {
    for (uint32_t shape = 0; shape < SHAPES; shape++) {
        uint64_t random = seed + shape;
        struct head head = {.vocabulary = vocabulary, .dim = dim};
        head.w = kernel_test_alloc((size_t)vocabulary * dim * sizeof(float));
        fill(&head, (enum shape_of_weights)shape, &random);
        head_open(test, &head, shape % 2 ? ELEMENT_F32 : ELEMENT_F16);
        struct rows rows = {.x = kernel_test_alloc(ROWS_MAX * (size_t)dim * sizeof(float))};
        for (uint32_t i = 0; i < repeats; i++) {
            pose_rows(&head, kernel_test_between(&random, 1, ROWS_MAX), &random, &rows);
            compare(test, &head, &rows);
        }
        kernel_test_free(rows.x);
        head_close(test, &head);
    }
}

static void body_many(const struct kernel_test *test) {
    run(test, 1031, 48, 100, test_seed());
    run(test, 67, 17, 50, test_seed() + 100);
}

static void draws_the_same_tokens_with_a_sketch_as_without(void **state) {
    kernel_test_each(body_many);
}

/* Enough stretches for every top_k, as in a real vocabulary. */
static void body_large(const struct kernel_test *test) {
    run(test, 17000, 64, 3, test_seed() + 200);
}

static void draws_the_same_from_a_large_vocabulary(void **state) {
    kernel_test_each(body_large);
}

/* ---------------------------------------------------------------- where the bound is used up */

#define HARD_DIM 65u
#define HARD_FIRST 3u   /* the largest logit */
#define HARD_SECOND 50u /* the one that INT8 takes for it, in another panel */

static void compare_greedy(const struct kernel_test *test, const struct head *head, float *x) {
    struct rows rows = {.count = 1, .x = x, .top_p = {65536}, .repetition = {1}};
    int32_t token = -1;
    uint8_t bad = 0;
    draw(test, head, &rows, NULL, &token, &bad);
    assert_int_equal(token, HARD_FIRST);
    compare(test, head, &rows);
}

/* Two rows that rounding moves by nearly half a step in every input, against each other, and a row
 * that adds all of it up: the bound on what rounding the weights took away has a fifth to spare. */
static void body_weights(const struct kernel_test *test) {
    struct head head = {.vocabulary = 300, .dim = HARD_DIM};
    head.w = kernel_test_alloc(head.vocabulary * HARD_DIM * sizeof(float));
    float *first = head.w + HARD_FIRST * HARD_DIM, *second = head.w + HARD_SECOND * HARD_DIM;
    float x[HARD_DIM] = {0};
    first[0] = second[0] = 127.0f; /* so that a step is 1 */
    for (uint32_t k = 1; k < HARD_DIM; k++) {
        x[k] = 1.0f;
        first[k] = 10.49f;
        second[k] = 10.0f + (k * 5 <= HARD_DIM * 4 ? 1.0f : 0.0f) - 0.49f;
    }
    head_open(test, &head, ELEMENT_F32);
    compare_greedy(test, &head, x);
    head_close(test, &head);
}

static void is_not_misled_by_what_rounding_takes_from_weights(void **state) {
    kernel_test_each(body_weights);
}

/* The same with weights that are exact in INT8 and a row that is not, in its second rounding. */
static void body_inputs(const struct kernel_test *test) {
    struct head head = {.vocabulary = 300, .dim = HARD_DIM};
    head.w = kernel_test_alloc(head.vocabulary * HARD_DIM * sizeof(float));
    float *first = head.w + HARD_FIRST * HARD_DIM, *second = head.w + HARD_SECOND * HARD_DIM;
    const float step = 1.0f / 256.0f; /* of the second rounding: the first's is 1 */
    float x[HARD_DIM] = {127.0f, 1.0f + 127.0f * step};
    for (uint32_t k = 2; k < HARD_DIM; k++) {
        float sign = k % 2 == 0 ? 1.0f : -1.0f;
        first[k] = sign;
        second[k] = -sign;
        /* Rounds to -0.3 steps in the sum, and is 0.19 steps an input. */
        x[k] = sign * step * ((k * 10 < HARD_DIM * 3 ? -1.0f : 0.0f) + 0.49f);
    }
    head_open(test, &head, ELEMENT_F32);
    compare_greedy(test, &head, x);
    head_close(test, &head);
}

static void is_not_misled_by_what_rounding_takes_from_a_row(void **state) {
    kernel_test_each(body_inputs);
}

static void bounds_hold_for(uint64_t *random, uint32_t dim) {
    float w[96], norm, error, scale;
    int8_t q[96];
    kernel_test_hostile_floats(random, w, dim);
    head_sketch_row(w, dim, q, &scale, &norm, &error);
    long double squares = 0, off = 0;
    for (uint32_t k = 0; k < dim; k++) {
        long double rest = (long double)w[k] - (long double)q[k] * scale;
        squares += (long double)w[k] * w[k];
        off += rest * rest;
    }
    assert_true((long double)norm >= sqrtl(squares) && (long double)error >= sqrtl(off));
    assert_true((long double)norm <= 1.00001L * sqrtl(squares) + 0x1p-125L);
}

static void rounds_norms_up(void **state) {
    uint64_t random = test_seed();
    for (uint32_t i = 0; i < 20000; i++) {
        bounds_hold_for(&random, kernel_test_between(&random, 1, 96));
    }
}

TEST_MAIN(cmocka_unit_test(draws_the_same_tokens_with_a_sketch_as_without),
          cmocka_unit_test(draws_the_same_from_a_large_vocabulary),
          cmocka_unit_test(is_not_misled_by_what_rounding_takes_from_weights),
          cmocka_unit_test(is_not_misled_by_what_rounding_takes_from_a_row),
          cmocka_unit_test(rounds_norms_up))
