/* Rotary embedding, KV pages and attention together, against the canonical order written out. */
#include "tests/support/kernel_test.h"

#include <math.h>
#include <string.h>

#include "kernels/canonical.h"
#include "kernels/rope_table.h"

struct shape {
    uint32_t heads, kv_heads, head_dim, rotary_dims;
    enum element_type type;
};

/* Sequences in slots; sequence s has `length` tokens, written in steps and attended at the end. */
#define SEQUENCES 3u

struct problem {
    struct shape shape;
    uint32_t length[SEQUENCES];
    uint32_t width; /* of a row of qkv */
    uint32_t table_pages;
    float *qkv[SEQUENCES];   /* [length, width], as projected */
    float *key[SEQUENCES];   /* [length, G, d] rotated and rounded as stored */
    float *value[SEQUENCES]; /* [length, G, d] */
    float *query[SEQUENCES]; /* [length, H, d] rotated */
    float *cos_table, *sin_table;
    int32_t *page_table;
    char *pages;
    size_t stride;
};

static float stored(const struct shape *s, float x) {
    return s->type == ELEMENT_F32 ? x : canonical_f16_to_f32(canonical_f32_to_f16(x));
}

/* The rotation of one head, written from the contract. */
static void rotate(const struct problem *p, uint32_t position, float *x) {
    uint32_t half = p->shape.rotary_dims / 2;
    for (uint32_t i = 0; i < half; i++) {
        float c = p->cos_table[position * half + i], s = p->sin_table[position * half + i];
        float x0 = x[i], x1 = x[i + half];
        float turned = x1 * s, straight = x0 * s;
        x[i] = fmaf(x0, c, -turned);
        x[i + half] = fmaf(x1, c, straight);
    }
}

static void project(struct problem *p, uint32_t s, uint64_t *random) {
    const struct shape *shape = &p->shape;
    uint32_t d = shape->head_dim, q_width = shape->heads * d, kv_width = shape->kv_heads * d;
    size_t rows = p->length[s];
    p->qkv[s] = kernel_test_alloc(rows * p->width * sizeof(float));
    p->query[s] = kernel_test_alloc(rows * q_width * sizeof(float));
    p->key[s] = kernel_test_alloc(rows * kv_width * sizeof(float));
    p->value[s] = kernel_test_alloc(rows * kv_width * sizeof(float));
    kernel_test_floats(random, p->qkv[s], rows * p->width);
    for (uint32_t t = 0; t < p->length[s]; t++) {
        const float *row = p->qkv[s] + (size_t)t * p->width;
        memcpy(p->query[s] + (size_t)t * q_width, row, q_width * sizeof(float));
        memcpy(p->key[s] + (size_t)t * kv_width, row + q_width, kv_width * sizeof(float));
        for (uint32_t h = 0; h < shape->heads; h++) {
            rotate(p, t, p->query[s] + (size_t)t * q_width + h * d);
        }
        for (uint32_t h = 0; h < shape->kv_heads; h++) {
            rotate(p, t, p->key[s] + (size_t)t * kv_width + h * d);
        }
        for (uint32_t i = 0; i < kv_width; i++) {
            size_t at = (size_t)t * kv_width + i;
            p->key[s][at] = stored(shape, p->key[s][at]);
            p->value[s][at] = stored(shape, row[q_width + kv_width + i]);
        }
    }
}

static void pose(struct problem *p, const struct kernel_test *test, struct shape shape,
                 const uint32_t length[SEQUENCES], uint64_t *random) {
    *p = (struct problem){.shape = shape};
    memcpy(p->length, length, sizeof p->length);
    p->width = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
    uint32_t longest = 1;
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        longest = length[s] > longest ? length[s] : longest;
    }
    size_t angles = (size_t)longest * shape.rotary_dims / 2 + 1;
    p->cos_table = kernel_test_alloc(angles * sizeof(float));
    p->sin_table = kernel_test_alloc(angles * sizeof(float));
    rope_table_fill(p->cos_table, p->sin_table, longest, shape.rotary_dims, 10000.0);
    p->table_pages = longest / KV_PAGE_TOKENS + 2;
    const struct kv_form form = {shape.type, shape.kv_heads, shape.head_dim};
    p->stride = test->ops->page_bytes(&form) + KERNELS_ALIGNMENT_BYTES;
    uint32_t pages = SEQUENCES * p->table_pages;
    p->pages = kernel_test_alloc(pages * p->stride);
    memset(p->pages, 0xFF, pages * p->stride); /* unwritten tokens are NaN: they must not leak */
    p->page_table = kernel_test_alloc(pages * sizeof(int32_t));
    for (uint32_t i = 0; i < pages; i++) {
        p->page_table[i] = (int32_t)(pages - 1 - i);
    }
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        project(p, s, random);
    }
}

static void discard(struct problem *p) {
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        kernel_test_free(p->qkv[s]);
        kernel_test_free(p->query[s]);
        kernel_test_free(p->key[s]);
        kernel_test_free(p->value[s]);
    }
    kernel_test_free(p->cos_table);
    kernel_test_free(p->sin_table);
    kernel_test_free(p->page_table);
    kernel_test_free(p->pages);
}

/* One block of one query, written from the contract: max, l by 16 lanes, o by a chain. */
static void block_of(const struct problem *p, uint32_t s, uint32_t head, const float *q,
                     uint32_t first, uint32_t end, float *m, float *l, float *o) {
    uint32_t d = p->shape.head_dim, kv_width = p->shape.kv_heads * d;
    float scale = 1.0f / sqrtf((float)d), weight[256] = {0}, lane[16] = {0};
    for (uint32_t j = first; j < end; j++) {
        const float *key = p->key[s] + (size_t)j * kv_width + head * d;
        float chain = 0.0f;
        for (uint32_t i = 0; i < d; i++) {
            chain = fmaf(q[i], key[i], chain);
        }
        weight[j - first] = chain * scale;
    }
    *m = weight[0];
    for (uint32_t j = first; j < end; j++) {
        *m = weight[j - first] > *m ? weight[j - first] : *m;
    }
    for (uint32_t i = 0; i < d; i++) {
        o[i] = 0.0f;
    }
    for (uint32_t j = first; j < end; j++) {
        float e = canonical_exp(weight[j - first] - *m);
        lane[(j - first) % 16] += e;
        for (uint32_t i = 0; i < d; i++) {
            o[i] = fmaf(e, p->value[s][(size_t)j * kv_width + head * d + i], o[i]);
        }
    }
    for (int half = 8; half > 0; half /= 2) {
        for (int i = 0; i < half; i++) {
            lane[i] += lane[i + half];
        }
    }
    *l = lane[0];
}

static void attend(const struct problem *p, uint32_t s, uint32_t t, uint32_t h, float *out) {
    uint32_t d = p->shape.head_dim, head = h / (p->shape.heads / p->shape.kv_heads);
    const float *q = p->query[s] + ((size_t)t * p->shape.heads + h) * d;
    float m = 0, l = 0;
    for (uint32_t first = 0; first <= t; first += 256) {
        uint32_t end = first + 256 < t + 1 ? first + 256 : t + 1;
        if (first == 0) {
            block_of(p, s, head, q, first, end, &m, &l, out);
            continue;
        }
        float mb, lb, ob[512];
        block_of(p, s, head, q, first, end, &mb, &lb, ob);
        float max = mb > m ? mb : m;
        float a = canonical_exp(m - max), c = canonical_exp(mb - max);
        float part = lb * c;
        l = fmaf(l, a, part);
        for (uint32_t i = 0; i < d; i++) {
            part = ob[i] * c;
            out[i] = fmaf(out[i], a, part);
        }
        m = max;
    }
    float inverse = 1.0f / l;
    for (uint32_t i = 0; i < d; i++) {
        out[i] = out[i] * inverse;
    }
}

/* Runs the ops over rows [from[s], to[s]) of each sequence as one step and checks both. */
static void step(const struct kernel_test *test, struct problem *p, const uint32_t *from,
                 const uint32_t *to) {
    uint32_t rows = 0, segments = 0, context = 1, d = p->shape.head_dim;
    int32_t segment_begin[SEQUENCES + 1] = {0};
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        rows += to[s] - from[s];
    }
    int32_t *position = kernel_test_alloc(rows * sizeof(int32_t));
    int32_t *slot = kernel_test_alloc(rows * sizeof(int32_t));
    float *qkv = kernel_test_alloc((size_t)rows * p->width * sizeof(float));
    size_t out_count = (size_t)rows * p->shape.heads * d;
    float *out = kernel_test_alloc(out_count * sizeof(float));
    float *wanted = kernel_test_alloc(out_count * sizeof(float));
    uint32_t row = 0;
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        for (uint32_t t = from[s]; t < to[s]; t++, row++) {
            position[row] = (int32_t)t;
            slot[row] = (int32_t)s;
            context = t + 1 > context ? t + 1 : context;
            memcpy(qkv + (size_t)row * p->width, p->qkv[s] + (size_t)t * p->width,
                   p->width * sizeof(float));
            for (uint32_t h = 0; h < p->shape.heads; h++) {
                attend(p, s, t, h, wanted + ((size_t)row * p->shape.heads + h) * d);
            }
        }
        if (to[s] > from[s]) {
            segment_begin[++segments] = (int32_t)row;
        }
    }
    const struct kv_view kv = {
        {p->shape.type, p->shape.kv_heads, d}, p->pages, p->stride, p->page_table, p->table_pages};
    const struct step_rows step_rows = {position, slot, segment_begin, rows, segments};
    const struct rope_kv_write_args rope = {.qkv = qkv,
                                            .cos_table = p->cos_table,
                                            .sin_table = p->sin_table,
                                            .rows = step_rows,
                                            .kv = kv,
                                            .heads = p->shape.heads,
                                            .rotary_dims = p->shape.rotary_dims};
    assert_int_equal(test->ops->rope_kv_write(test->device, &rope), KERNELS_OK);
    const struct attention_args attention = {.q = qkv,
                                             .q_stride = p->width,
                                             .rows = step_rows,
                                             .kv = kv,
                                             .out = out,
                                             .heads = p->shape.heads,
                                             .context_max = context};
    assert_int_equal(test->ops->attention(test->device, &attention), KERNELS_OK);
    kernel_test_same_floats(out, wanted, out_count, test->label);
    kernel_test_free(position);
    kernel_test_free(slot);
    kernel_test_free(qkv);
    kernel_test_free(out);
    kernel_test_free(wanted);
}

/* Prefill of all sequences in ragged chunks, then a decode row each. */
static void run(const struct kernel_test *test, struct shape shape,
                const uint32_t length[SEQUENCES], uint32_t chunk, uint64_t *random) {
    struct problem p;
    pose(&p, test, shape, length, random);
    uint32_t from[SEQUENCES] = {0}, to[SEQUENCES];
    for (;;) {
        uint32_t rows = 0;
        for (uint32_t s = 0; s < SEQUENCES; s++) {
            uint32_t left = length[s] - from[s];
            uint32_t take = left > 1 && left <= chunk ? left - 1 : left < chunk ? left : chunk;
            to[s] = from[s] + take;
            rows += take;
        }
        if (rows == 0) {
            break;
        }
        step(test, &p, from, to);
        memcpy(from, to, sizeof from);
    }
    discard(&p);
}

static void body_shapes(const struct kernel_test *test) {
    static const struct shape shapes[] = {
        {9, 3, 64, 64, ELEMENT_F16},  {4, 4, 32, 32, ELEMENT_F32}, {8, 1, 16, 8, ELEMENT_F16},
        {5, 5, 20, 20, ELEMENT_F16},  {6, 2, 80, 0, ELEMENT_F32},  {3, 1, 7, 6, ELEMENT_F16},
        {2, 1, 128, 64, ELEMENT_F16},
    };
    uint64_t random = test_seed();
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const uint32_t length[SEQUENCES] = {kernel_test_between(&random, 1, 50),
                                            kernel_test_between(&random, 1, 20), 1};
        run(test, shapes[i], length, kernel_test_between(&random, 1, 40), &random);
    }
}

static void equals_the_written_out_order_for_many_shapes(void **state) {
    kernel_test_each(body_shapes);
}

static void body_blocks(const struct kernel_test *test) {
    uint64_t random = test_seed() + 1;
    const uint32_t length[SEQUENCES] = {259, 513, 3};
    run(test, (struct shape){3, 1, 16, 16, ELEMENT_F16}, length, 170, &random);
    run(test, (struct shape){2, 2, 24, 24, ELEMENT_F32}, length, 300, &random);
}

static void merges_blocks_of_256_in_ascending_order(void **state) {
    kernel_test_each(body_blocks);
}

static void body_chunks(const struct kernel_test *test) {
    uint64_t random = test_seed() + 2;
    const struct shape shape = {6, 2, 32, 32, ELEMENT_F16};
    const uint32_t length[SEQUENCES] = {40, 33, 17};
    for (uint32_t chunk = 1; chunk <= 64; chunk *= 4) {
        run(test, shape, length, chunk, &random);
    }
}

static void gives_the_same_bits_for_any_chunk(void **state) {
    kernel_test_each(body_chunks);
}

static void body_nan(const struct kernel_test *test) {
    uint64_t random = test_seed() + 3;
    const uint32_t length[SEQUENCES] = {20, 21, 5};
    struct problem p;
    pose(&p, test, (struct shape){4, 2, 16, 16, ELEMENT_F16}, length, &random);
    for (uint32_t i = 0; i < p.width; i++) {
        p.qkv[1][7 * p.width + i] = NAN; /* token 7 of sequence 1 */
    }
    kernel_test_free(p.query[1]);
    kernel_test_free(p.key[1]);
    kernel_test_free(p.value[1]);
    float *poisoned = p.qkv[1];
    project(&p, 1, &random);
    memcpy(p.qkv[1], poisoned, 21 * p.width * sizeof(float));
    kernel_test_free(poisoned);
    uint32_t d = 16, kv = 2 * d, q = 4 * d;
    for (uint32_t t = 0; t < 21; t++) { /* the oracle's copies of the poisoned rows */
        memcpy(p.query[1] + t * q, p.qkv[1] + t * p.width, q * sizeof(float));
        memcpy(p.key[1] + t * kv, p.qkv[1] + t * p.width + q, kv * sizeof(float));
        for (uint32_t h = 0; h < 4; h++) {
            rotate(&p, t, p.query[1] + t * q + h * d);
        }
        for (uint32_t h = 0; h < 2; h++) {
            rotate(&p, t, p.key[1] + t * kv + h * d);
        }
        for (uint32_t i = 0; i < kv; i++) {
            p.key[1][t * kv + i] = stored(&p.shape, p.key[1][t * kv + i]);
            p.value[1][t * kv + i] = stored(&p.shape, p.qkv[1][t * p.width + q + kv + i]);
        }
    }
    const uint32_t from[SEQUENCES] = {0};
    step(test, &p, from, length);
    discard(&p);
}

static void keeps_a_poisoned_sequence_to_itself(void **state) {
    kernel_test_each(body_nan);
}

static void body_arguments(const struct kernel_test *test) {
    const struct kv_form form = {ELEMENT_F16, 1, 16};
    size_t page = test->ops->page_bytes(&form);
    assert_int_equal(page % KERNELS_ALIGNMENT_BYTES, 0);
    assert_true(page >= 2 * 16 * 16 * 2);
    char *pages = kernel_test_alloc(2 * page);
    float x[64] = {0}, out[64];
    int32_t position[1] = {0}, slot[1] = {0}, segments[2] = {0, 1}, table[1] = {0};
    const struct attention_args good = {.q = x,
                                        .q_stride = 48,
                                        .rows = {position, slot, segments, 1, 1},
                                        .kv = {form, pages, page, table, 1},
                                        .out = out,
                                        .heads = 1,
                                        .context_max = 1};
    assert_int_equal(test->ops->attention(test->device, &good), KERNELS_OK);
    struct attention_args bad[9] = {good, good, good, good, good, good, good, good, good};
    bad[0].rows.rows = 0;
    bad[1].kv.stride_bytes = page - KERNELS_ALIGNMENT_BYTES;
    bad[2].kv.base = pages + 4;
    bad[3].heads = 0;
    bad[4].q_stride = 8;
    bad[5].context_max = 0;
    bad[6].kv.form.type = ELEMENT_I8;
    bad[7].kv.page_table = NULL;
    bad[8].kv.form.kv_heads = 2; /* one query head cannot share two */
    for (size_t i = 0; i < 9; i++) {
        assert_int_equal(test->ops->attention(test->device, &bad[i]), KERNELS_INVALID);
    }
    position[0] = 16; /* past the page table */
    struct attention_args far = good;
    far.context_max = 32;
    assert_int_equal(test->ops->attention(test->device, &far), KERNELS_INVALID);
    kernel_test_free(pages);
}

static void refuses_arguments_that_break_the_contract(void **state) {
    kernel_test_each(body_arguments);
}

TEST_MAIN(cmocka_unit_test(equals_the_written_out_order_for_many_shapes),
          cmocka_unit_test(merges_blocks_of_256_in_ascending_order),
          cmocka_unit_test(gives_the_same_bits_for_any_chunk),
          cmocka_unit_test(keeps_a_poisoned_sequence_to_itself),
          cmocka_unit_test(refuses_arguments_that_break_the_contract))
