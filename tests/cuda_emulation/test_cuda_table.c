/* The table of the CUDA back end through device.h alone, on the emulation or a card: it is whole,
 * and each of its ops, with its own packed weights, pages and workspaces, gives the bits of
 * `reference`. Sizes and hostile values are for the tests of each kernel. */
#include <string.h>

#include "tests/cuda_emulation/emulation.h"
#include "tests/support/op_bed.h"
#include "tests/support/test.h"

enum { ROWS = OP_BED_ROWS, DIM = OP_BED_DIM, OUTPUTS = OP_BED_OUTPUTS, PAGES = OP_BED_PAGES };
enum { VOCABULARY = OP_BED_VOCABULARY, HEADS = OP_BED_HEADS, KV_HEADS = OP_BED_KV_HEADS };
enum { HEAD_DIM = OP_BED_HEAD_DIM, QUERIES = HEADS * HEAD_DIM };
enum { QKV = (HEADS + 2 * KV_HEADS) * HEAD_DIM };

static struct quantize_args quantised(struct op_bed *bed, float *x) {
    return (struct quantize_args){
        .x = x,
        .out = {.q = op_bed_room(bed, ROWS * DIM), .scale = op_bed_room(bed, ROWS * sizeof(float))},
        .bad = op_bed_room(bed, ROWS),
        .rows = ROWS,
        .dim = DIM};
}

static void take_quantised(struct op_bed *bed, const struct quantize_args *args) {
    op_bed_take(bed, args->out.q, ROWS * DIM);
    op_bed_take(bed, args->out.scale, ROWS * sizeof(float));
    op_bed_take(bed, args->bad, ROWS);
}

/* ---------------------------------------------------------------- rows */

#define CALL(bed, op, ...) \
    assert_int_equal((bed)->ops->op((bed)->device, &(__VA_ARGS__)), KERNELS_OK)

static void run_embed(struct op_bed *bed) {
    float *x = op_bed_room(bed, ROWS * DIM * sizeof *x);
    CALL(bed, embed,
         (struct embed_args){.token = op_bed_words(bed, ROWS, 1, 7),
                             .table = op_bed_weight_f32(bed, VOCABULARY),
                             .x = x,
                             .rows = ROWS});
    op_bed_take(bed, x, ROWS * DIM * sizeof *x);
}

static struct norm_args norm_of(struct op_bed *bed) {
    return (struct norm_args){.x = op_bed_floats(bed, ROWS * DIM),
                              .weight = op_bed_floats(bed, DIM),
                              .y = op_bed_room(bed, ROWS * DIM * sizeof(float)),
                              .eps = 1e-5f,
                              .rows = ROWS,
                              .dim = DIM};
}

static void run_rms_norm(struct op_bed *bed) {
    struct norm_args args = norm_of(bed);
    CALL(bed, rms_norm, args);
    op_bed_take(bed, args.y, ROWS * DIM * sizeof(float));
}

static void run_layer_norm(struct op_bed *bed) {
    struct norm_args args = norm_of(bed);
    args.bias = op_bed_floats(bed, DIM);
    CALL(bed, layer_norm, args);
    op_bed_take(bed, args.y, ROWS * DIM * sizeof(float));
}

static void run_quantize(struct op_bed *bed) {
    struct quantize_args args = quantised(bed, op_bed_floats(bed, ROWS * DIM));
    CALL(bed, quantize, args);
    take_quantised(bed, &args);
}

static void run_rms_norm_quantize(struct op_bed *bed) {
    struct norm_quantize_args args = {.norm = norm_of(bed), .quantize = quantised(bed, NULL)};
    CALL(bed, rms_norm_quantize, args);
    take_quantised(bed, &args.quantize);
}

static struct glu_args glu_of(struct op_bed *bed) {
    return (struct glu_args){.gate_up = op_bed_floats(bed, ROWS * 2 * DIM),
                             .y = op_bed_room(bed, ROWS * DIM * sizeof(float)),
                             .rows = ROWS,
                             .dim = DIM};
}

static void run_silu_mul(struct op_bed *bed) {
    struct glu_args args = glu_of(bed);
    CALL(bed, silu_mul, args);
    op_bed_take(bed, args.y, ROWS * DIM * sizeof(float));
}

static void run_silu_mul_quantize(struct op_bed *bed) {
    struct glu_quantize_args args = {.glu = glu_of(bed), .quantize = quantised(bed, NULL)};
    CALL(bed, silu_mul_quantize, args);
    take_quantised(bed, &args.quantize);
}

static void run_gelu(struct op_bed *bed) {
    struct activation_args args = {.x = op_bed_floats(bed, ROWS * DIM),
                                   .y = op_bed_room(bed, ROWS * DIM * sizeof(float)),
                                   .rows = ROWS,
                                   .dim = DIM};
    CALL(bed, gelu, args);
    op_bed_take(bed, args.y, ROWS * DIM * sizeof(float));
}

static void run_add(struct op_bed *bed) {
    struct add_args args = {.x = op_bed_floats(bed, ROWS * DIM),
                            .y = op_bed_floats(bed, ROWS * DIM),
                            .rows = ROWS,
                            .dim = DIM};
    CALL(bed, add, args);
    op_bed_take(bed, args.x, ROWS * DIM * sizeof(float));
}

static void run_head_norm(struct op_bed *bed) {
    struct head_norm_args args = {.x = op_bed_floats(bed, ROWS * QKV),
                                  .stride = QKV,
                                  .weight = op_bed_floats(bed, HEAD_DIM),
                                  .eps = 1e-5f,
                                  .rows = ROWS,
                                  .heads = HEADS,
                                  .head_dim = HEAD_DIM};
    CALL(bed, head_norm, args);
    op_bed_take(bed, args.x, ROWS * QKV * sizeof(float));
}

/* ---------------------------------------------------------------- linears */

static struct quantized rows_i8(struct op_bed *bed) {
    struct quantize_args args = quantised(bed, op_bed_floats(bed, ROWS * DIM));
    CALL(bed, quantize, args);
    return args.out;
}

static int32_t *product(struct op_bed *bed, const struct weight *weight, struct quantized x) {
    struct gemm_i8_args args = {.x = x,
                                .weight = weight,
                                .sum = op_bed_room(bed, ROWS * OUTPUTS * sizeof(int32_t)),
                                .workspace = op_bed_workspace(bed, KERNEL_OP_gemm_i8),
                                .rows = ROWS};
    CALL(bed, gemm_i8, args);
    return args.sum;
}

static void run_gemm_i8(struct op_bed *bed) {
    const struct weight *weight = op_bed_weight_i8(bed);
    op_bed_take(bed, product(bed, weight, rows_i8(bed)), ROWS * OUTPUTS * sizeof(int32_t));
}

static void run_dequantize(struct op_bed *bed) {
    const struct weight *weight = op_bed_weight_i8(bed);
    struct dequantize_args args = {.x = rows_i8(bed),
                                   .weight = weight,
                                   .residual = op_bed_floats(bed, ROWS * OUTPUTS),
                                   .y = op_bed_room(bed, ROWS * OUTPUTS * sizeof(float)),
                                   .rows = ROWS};
    args.sum = product(bed, weight, args.x);
    CALL(bed, dequantize, args);
    op_bed_take(bed, args.y, ROWS * OUTPUTS * sizeof(float));
}

static void run_linear_i8(struct op_bed *bed) {
    struct linear_i8_args args = {.weight = op_bed_weight_i8(bed),
                                  .x = rows_i8(bed),
                                  .residual = op_bed_floats(bed, ROWS * OUTPUTS),
                                  .y = op_bed_room(bed, ROWS * OUTPUTS * sizeof(float)),
                                  .workspace = op_bed_workspace(bed, KERNEL_OP_linear_i8),
                                  .rows = ROWS};
    CALL(bed, linear_i8, args);
    op_bed_take(bed, args.y, ROWS * OUTPUTS * sizeof(float));
}

static void run_linear_f32(struct op_bed *bed) {
    struct linear_f32_args args = {.x = op_bed_floats(bed, ROWS * DIM),
                                   .weight = op_bed_weight_f32(bed, OUTPUTS),
                                   .residual = op_bed_floats(bed, ROWS * OUTPUTS),
                                   .y = op_bed_room(bed, ROWS * OUTPUTS * sizeof(float)),
                                   .workspace = op_bed_workspace(bed, KERNEL_OP_linear_f32),
                                   .rows = ROWS};
    CALL(bed, linear_f32, args);
    op_bed_take(bed, args.y, ROWS * OUTPUTS * sizeof(float));
}

/* ---------------------------------------------------------------- attention */

/* One slot's positions 0 and on, in pages in no order. */
static struct rope_kv_write_args rope_of(struct op_bed *bed) {
    const struct kv_form form = {ELEMENT_F16, KV_HEADS, HEAD_DIM};
    size_t page_bytes = bed->ops->page_bytes(&form);
    return (struct rope_kv_write_args){.qkv = op_bed_floats(bed, ROWS * QKV),
                                       .cos_table = op_bed_floats(bed, ROWS * HEAD_DIM / 2),
                                       .sin_table = op_bed_floats(bed, ROWS * HEAD_DIM / 2),
                                       .rows = {.position = op_bed_words(bed, ROWS, 0, 1),
                                                .slot = op_bed_words(bed, ROWS, 0, 0),
                                                .segment_begin = op_bed_words(bed, 2, 0, ROWS),
                                                .rows = ROWS,
                                                .segments = 1},
                                       .kv = {.form = form,
                                              .base = op_bed_room(bed, PAGES * page_bytes),
                                              .stride_bytes = page_bytes,
                                              .page_table = op_bed_words(bed, PAGES, PAGES - 1, -1),
                                              .table_pages = PAGES},
                                       .heads = HEADS,
                                       .rotary_dims = HEAD_DIM};
}

static void take_queries(struct op_bed *bed, const float *qkv) {
    for (size_t t = 0; t < ROWS; t++) {
        op_bed_take(bed, qkv + t * QKV, QUERIES * sizeof *qkv);
    }
}

static void run_rope_kv_write(struct op_bed *bed) {
    struct rope_kv_write_args args = rope_of(bed);
    CALL(bed, rope_kv_write, args);
    take_queries(bed, args.qkv);
}

static void run_attention(struct op_bed *bed) {
    struct rope_kv_write_args rope = rope_of(bed);
    struct attention_args args = {.q = rope.qkv,
                                  .q_stride = QKV,
                                  .rows = rope.rows,
                                  .kv = rope.kv,
                                  .out = op_bed_room(bed, ROWS * QUERIES * sizeof(float)),
                                  .workspace = op_bed_workspace(bed, KERNEL_OP_attention),
                                  .heads = HEADS,
                                  .context_max = PAGES * KV_PAGE_TOKENS};
    CALL(bed, rope_kv_write, rope);
    CALL(bed, attention, args);
    op_bed_take(bed, args.out, ROWS * QUERIES * sizeof(float));
}

/* ---------------------------------------------------------------- head and sampling */

static void *repeated(struct op_bed *bed, const void *value, size_t bytes) {
    unsigned char host[ROWS * sizeof(uint64_t)];
    for (size_t i = 0; i < ROWS; i++) {
        memcpy(host + i * bytes, value, bytes);
    }
    return op_bed_put(bed, host, ROWS * bytes);
}

static struct sample_params params_of(struct op_bed *bed) {
    return (struct sample_params){.temperature = repeated(bed, &(float){0.8f}, 4),
                                  .top_k = op_bed_words(bed, ROWS, 3, 4),
                                  .top_p_q16 = repeated(bed, &(uint32_t){60000}, 4),
                                  .min_p_q16 = repeated(bed, &(uint32_t){300}, 4),
                                  .repetition = repeated(bed, &(float){1.3f}, 4),
                                  .presence = repeated(bed, &(float){0.1f}, 4),
                                  .frequency = repeated(bed, &(float){0.2f}, 4),
                                  .seed = repeated(bed, &(uint64_t){77}, 8),
                                  .position = repeated(bed, &(uint64_t){5}, 8),
                                  .seen_begin = op_bed_words(bed, ROWS + 1, 0, 2),
                                  .seen_id = op_bed_words(bed, 2 * ROWS, 3, 1),
                                  .seen_count = op_bed_words(bed, 2 * ROWS, 0, 1)};
}

static void run_head_logits(struct op_bed *bed) {
    struct head_logits_args args = {.x = op_bed_floats(bed, ROWS * DIM),
                                    .weight = op_bed_weight_f32(bed, VOCABULARY),
                                    .logits = op_bed_room(bed, ROWS * VOCABULARY * sizeof(float)),
                                    .workspace = op_bed_workspace(bed, KERNEL_OP_head_logits),
                                    .rows = ROWS};
    CALL(bed, head_logits, args);
    op_bed_take(bed, args.logits, ROWS * VOCABULARY * sizeof(float));
}

static void run_sample(struct op_bed *bed) {
    struct sample_args args = {.logits = op_bed_floats(bed, ROWS * VOCABULARY),
                               .vocabulary = VOCABULARY,
                               .params = params_of(bed),
                               .token = op_bed_room(bed, ROWS * sizeof(int32_t)),
                               .bad = op_bed_room(bed, ROWS),
                               .workspace = op_bed_workspace(bed, KERNEL_OP_sample),
                               .rows = ROWS};
    CALL(bed, sample, args);
    op_bed_take(bed, args.token, ROWS * sizeof(int32_t));
    op_bed_take(bed, args.bad, ROWS);
}

static void run_head_sample(struct op_bed *bed) {
    struct head_sample_args args = {.x = op_bed_floats(bed, ROWS * DIM),
                                    .weight = op_bed_weight_f32(bed, VOCABULARY),
                                    .params = params_of(bed),
                                    .token = op_bed_room(bed, ROWS * sizeof(int32_t)),
                                    .bad = op_bed_room(bed, ROWS),
                                    .workspace = op_bed_workspace(bed, KERNEL_OP_head_sample),
                                    .rows = ROWS};
    CALL(bed, head_sample, args);
    op_bed_take(bed, args.token, ROWS * sizeof(int32_t));
    op_bed_take(bed, args.bad, ROWS);
}

/* ---------------------------------------------------------------- every op */

/* Compiles only while every op of the list has its run above. */
static void (*const runs[KERNEL_OP_COUNT])(struct op_bed *) = {
#define RUN(op, args) run_##op,
    KERNEL_OPS(RUN)
#undef RUN
};

/* The op's outputs stay; all that it had is freed. */
static void run_op(struct op_bed *bed, enum kernel_op op, uint64_t seed) {
    bed->random = seed;
    bed->out_bytes = 0;
    runs[op](bed);
    op_bed_clear(bed);
}

static void has_every_op_of_the_list(void **state) {
    static struct op_bed cuda;
    enum kernel_op ops[KERNEL_OP_COUNT];
    char err[256] = "";
    for (unsigned op = 0; op < KERNEL_OP_COUNT; op++) {
        ops[op] = (enum kernel_op)op;
    }
    emulation_reset(1);
    op_bed_open(&cuda, "cuda:0");
    assert_int_equal(kernel_ops_require(cuda.ops, ops, KERNEL_OP_COUNT, err, sizeof err),
                     KERNELS_OK);
    assert_string_equal(cuda.ops->tier, "cuda");
    assert_true(cuda.ops->packing_version >= 1 && !cuda.ops->takes_head_sketch);
    assert_true(cuda.ops->workspace_bytes != NULL && cuda.ops->page_bytes != NULL);
    op_bed_close(&cuda);
}

static void compare_every_op(uint64_t seed) {
    static struct op_bed reference, cuda;
    emulation_reset(seed);
    op_bed_open(&reference, "cpu");
    op_bed_open(&cuda, "cuda:0");
    for (unsigned op = 0; op < KERNEL_OP_COUNT; op++) {
        run_op(&reference, (enum kernel_op)op, seed + op);
        run_op(&cuda, (enum kernel_op)op, seed + op);
        if (reference.out_bytes != cuda.out_bytes ||
            memcmp(reference.out, cuda.out, cuda.out_bytes) != 0) {
            fail_msg("%s differs", kernel_ops_name((enum kernel_op)op));
        }
    }
    op_bed_close(&cuda);
    op_bed_close(&reference);
    if (emulation_is_there()) {
        assert_string_equal(emulation_last_report(), "");
        assert_int_equal(emulation_live_objects(), 0);
    }
}

static void gives_the_references_bits_for_every_op(void **state) {
    uint64_t random = test_seed();
    for (unsigned i = 0; i < emulation_shuffles(1); i++) {
        compare_every_op(i == 0 ? random : test_random(&random));
    }
}

TEST_MAIN(cmocka_unit_test(has_every_op_of_the_list),
          cmocka_unit_test(gives_the_references_bits_for_every_op))
