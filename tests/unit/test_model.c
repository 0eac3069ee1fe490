#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/model.h"
#include "engine/model_plan.h"
#include "engine/model_policy.h"
#include "kernels/canonical.h"
#include "tests/support/tiny_llama.h"

static struct device *device;

static int open_device(void **state) {
    char err[256];
    const struct device_options options = {.spec = "cpu", .tier = "reference", .threads = 1};
    enum kernels_status status = device_open(&options, &device, err, sizeof err);
    return status == KERNELS_OK ? 0 : -1;
}

static int close_device(void **state) {
    device_close(device);
    return 0;
}

static enum model_status try_open(const char *path, enum model_policy policy, struct model **out,
                                  char *err, size_t err_bytes) {
    const struct model_options options = {.path = path, .policy = policy};
    *out = NULL;
    return model_open(&options, device, out, err, err_bytes);
}

static struct model *open_tiny(const struct tiny_llama_options *options, enum model_policy policy) {
    char err[512] = "";
    struct model *model;
    char *path = tiny_llama_write(options);
    if (try_open(path, policy, &model, err, sizeof err) != MODEL_OK) {
        fail_msg("%s", err);
    }
    free(path);
    return model;
}

/* Column k of a weight whose inputs are f32, by multiplying with a unit vector. */
static void read_column(const struct weight *weight, uint32_t k, float *column) {
    char err[256];
    const struct kernel_ops *ops = device_ops(device);
    struct kernels_shape shape = {
        .rows_max = 1, .n_max = weight->form.n, .k_max = weight->form.k, .sampled_max = 1};
    size_t bytes = ops->workspace_bytes(device, KERNEL_OP_linear_f32, &shape);
    float *x = calloc(weight->form.k, sizeof *x);
    void *workspace = aligned_alloc(KERNELS_ALIGNMENT_BYTES, bytes + KERNELS_ALIGNMENT_BYTES);
    x[k] = 1.0f;
    const struct linear_f32_args arguments = {
        .x = x, .weight = weight, .y = column, .workspace = {workspace, bytes}, .rows = 1};
    assert_int_equal(ops->linear_f32(device, &arguments), KERNELS_OK);
    assert_int_equal(device_sync(device, err, sizeof err), KERNELS_OK);
    free(workspace);
    free(x);
}

/* A tensor of the file that the options describe, as floats; the caller frees. */
static float *read_tensor(const struct tiny_llama_options *options, const char *name,
                          uint32_t *columns, uint32_t *rows) {
    struct gguf_writer writer = {0};
    struct gguf *gguf;
    char err[256];
    tiny_llama_build(options, &writer);
    assert_int_equal(gguf_parse(writer.bytes, writer.size, &gguf, err, sizeof err), GGUF_OK);
    const struct gguf_tensor *tensor = gguf_find_tensor(gguf, name);
    assert_non_null(tensor);
    *columns = (uint32_t)tensor->dims[0];
    *rows = (uint32_t)tensor->dims[1];
    float *values = malloc((size_t)*columns * *rows * sizeof *values);
    for (uint32_t row = 0; row < *rows; row++) {
        block_format_read_row(tensor->format, tensor->data + row * (tensor->bytes / *rows),
                              *columns, values + (size_t)row * *columns);
    }
    gguf_close(gguf);
    gguf_writer_deinit(&writer);
    return values;
}

/* Asserts that rows `first`... of a weight are the tensor's; row r of ours is row source(r). */
static void assert_rows(const struct weight *weight, uint32_t first,
                        const struct tiny_llama_options *options, const char *name,
                        uint32_t head_dim) {
    uint32_t columns, rows;
    float *tensor = read_tensor(options, name, &columns, &rows);
    float *column = malloc(weight->form.n * sizeof *column);
    assert_int_equal(columns, weight->form.k);
    for (uint32_t k = 0; k < columns; k += 7) {
        read_column(weight, k, column);
        for (uint32_t r = 0; r < rows; r++) {
            uint32_t within = head_dim ? r % head_dim : 0, half = head_dim / 2;
            uint32_t source = r - within +
                              (within < half ? 2 * within
                               : head_dim    ? 2 * (within - half) + 1
                                             : 0);
            float expected = tensor[(size_t)source * columns + k];
            if (weight->form.type == ELEMENT_F16) {
                expected = canonical_f16_to_f32(canonical_f32_to_f16(expected));
            }
            if (column[first + r] != expected) {
                fail_msg("%s row %u column %u: %g, not %g", name, r, k, (double)column[first + r],
                         (double)expected);
            }
        }
    }
    free(column);
    free(tensor);
}

static void fuses_projections_and_pairs_rotary_rows_by_halves(void **state) {
    const struct tiny_llama_options options = {.seed = 3};
    for (enum model_policy policy = MODEL_POLICY_F32; policy <= MODEL_POLICY_F16; policy++) {
        struct model *model = open_tiny(&options, policy);
        const struct model_layer *layer = &model->layers[1];
        assert_int_equal(layer->qkv.form.n, (4 + 2 * 2) * 16);
        assert_rows(&layer->qkv, 0, &options, "blk.1.attn_q.weight", 16);
        assert_rows(&layer->qkv, 64, &options, "blk.1.attn_k.weight", 16);
        assert_rows(&layer->qkv, 96, &options, "blk.1.attn_v.weight", 0);
        assert_rows(&layer->output, 0, &options, "blk.1.attn_output.weight", 0);
        assert_rows(&layer->gate_up, 0, &options, "blk.1.ffn_gate.weight", 0);
        assert_rows(&layer->gate_up, 96, &options, "blk.1.ffn_up.weight", 0);
        assert_rows(&layer->down, 0, &options, "blk.1.ffn_down.weight", 0);
        assert_rows(model->head, 0, &options, "token_embd.weight", 0);
        model_close(model);
    }
}

/* A model of 256 columns, which every format divides, stored as the n-th readable one. */
static bool readable_format(uint32_t n, struct tiny_llama_options *options) {
    for (uint32_t number = 0; number < 64; number++) {
        const struct block_format *format = block_format_find(number);
        if (format != NULL && format->read != NULL && n-- == 0) {
            *options = (struct tiny_llama_options){.seed = 5,
                                                   .format = (enum block_format_number)number,
                                                   .layers = 1,
                                                   .head_dim = 64,
                                                   .ffn_dim = 256};
            return true;
        }
    }
    return false;
}

static void reads_every_format_into_the_same_shapes(void **state) {
    struct tiny_llama_options options;
    uint32_t formats = 0;
    for (; readable_format(formats, &options); formats++) {
        struct model *model = open_tiny(&options, MODEL_POLICY_F32);
        assert_rows(&model->layers[0].qkv, 256, &options, "blk.0.attn_k.weight", 64);
        assert_rows(&model->layers[0].down, 0, &options, "blk.0.ffn_down.weight", 0);
        model_close(model);
        model_close(open_tiny(&options, MODEL_POLICY_INT8));
    }
    assert_int_equal(formats, 11);
}

static void opens_under_every_policy_that_the_device_has(void **state) {
    for (enum model_policy policy = 0; policy < MODEL_POLICY_COUNT; policy++) {
        if (!model_plan_has_policy(device_ops(device), policy)) {
            continue;
        }
        const struct tiny_llama_options options = {.format = BLOCK_FORMAT_Q4_1, .layers = 4};
        struct model *model = open_tiny(&options, policy);
        bool is_int8 = policy >= MODEL_POLICY_INT8;
        assert_int_equal(model->layers[1].qkv.form.type, is_int8 ? ELEMENT_I8
                                                         : policy == MODEL_POLICY_F16
                                                             ? ELEMENT_F16
                                                             : ELEMENT_F32);
        assert_int_equal(model->embedding.form.type,
                         policy == MODEL_POLICY_F32 ? ELEMENT_F32 : ELEMENT_F16);
        assert_int_equal(model->kv.type, policy == MODEL_POLICY_F32 ? ELEMENT_F32 : ELEMENT_F16);
        assert_true((model_int8_share_percent(model) > 0) == is_int8);
        assert_ptr_equal(model->head, &model->embedding);
        model_close(model);
    }
}

static void gives_an_untied_head_weights_of_its_own(void **state) {
    const struct tiny_llama_options options = {.untied = true};
    struct model *model = open_tiny(&options, MODEL_POLICY_F16);
    assert_false(model->config.tied_head);
    assert_ptr_not_equal(model->head, &model->embedding);
    assert_rows(model->head, 0, &options, "output.weight", 0);
    assert_rows(&model->embedding, 0, &options, "token_embd.weight", 0);
    assert_int_equal(model->plan.head_bytes, model->plan.embedding_bytes);
    model_close(model);
}

static void reads_norms_and_rotary_tables(void **state) {
    const struct tiny_llama_options options = {.seed = 9};
    struct model *model = open_tiny(&options, MODEL_POLICY_INT8);
    uint32_t columns, rows;
    float *norm = read_tensor(&options, "blk.1.ffn_norm.weight", &columns, &rows);
    assert_memory_equal(norm, model->layers[1].ffn_norm, 64 * sizeof *norm);
    free(norm);
    norm = read_tensor(&options, "output_norm.weight", &columns, &rows);
    assert_memory_equal(norm, model->final_norm, 64 * sizeof *norm);
    free(norm);
    assert_true(model->cos_table[0] == 1.0f && model->sin_table[0] == 0.0f);
    assert_true(model->cos_table[8] > 0.5403f && model->cos_table[8] < 0.5404f); /* cos 1 */
    assert_int_equal(model->max_model_len, 1024);
    model_close(model);
}

static void tells_name_hash_and_text_of_the_file(void **state) {
    struct model *model = open_tiny(NULL, MODEL_POLICY_INT8);
    assert_string_equal(model->name, "Tiny random Llama");
    assert_int_equal(strlen(model->sha256), 64);
    assert_int_equal(tokenizer_vocabulary_count(model->tokenizer), tiny_llama_vocabulary());
    assert_int_equal(model->chat.kind, CHAT_TEMPLATE_CHATML);
    assert_int_equal(model->chat.start_id, TINY_LLAMA_IM_START);
    assert_true(tokenizer_is_end(model->tokenizer, TINY_LLAMA_IM_END));
    uint32_t ids[8];
    struct token_buffer buffer = {.ids = ids, .capacity = 8};
    assert_int_equal(tokenizer_encode(model->tokenizer, "return the", 10, &buffer), TEXT_OK);
    assert_int_equal(buffer.count, 2); /* the merges work */
    model_close(model);

    const struct tiny_llama_options bare = {.no_template = true};
    model = open_tiny(&bare, MODEL_POLICY_INT8);
    assert_int_equal(model->chat.kind, CHAT_TEMPLATE_NONE);
    model_close(model);
}

static void plans_exactly_what_it_reserves(void **state) {
    const struct tiny_llama_options tiny = {.untied = true};
    char err[512];
    char *path = tiny_llama_write(&tiny);
    for (enum model_policy policy = 0; policy < MODEL_POLICY_COUNT; policy++) {
        if (!model_plan_has_policy(device_ops(device), policy)) {
            continue;
        }
        const struct model_options options = {.path = path, .policy = policy};
        struct model_config config;
        struct model_plan plan;
        struct model *model;
        assert_int_equal(
            model_describe(&options, device_ops(device), &config, &plan, err, sizeof err),
            MODEL_OK);
        assert_int_equal(model_open(&options, device, &model, err, sizeof err), MODEL_OK);
        assert_memory_equal(&plan, &model->plan, sizeof plan);
        assert_memory_equal(&config, &model->config, sizeof config);
        assert_int_equal(plan.total_bytes, plan.block_weight_bytes + plan.embedding_bytes +
                                               plan.head_bytes + plan.sketch_bytes +
                                               plan.norm_bytes + plan.rope_bytes);
        model_close(model);
    }
    free(path);
}

static void refuses_the_one_policy_that_no_cpu_has(void **state) {
    char err[512] = "";
    struct model *model = NULL;
    char *path = tiny_llama_write(NULL);
    assert_int_equal(try_open(path, MODEL_POLICY_FAST, &model, err, sizeof err), MODEL_UNSUPPORTED);
    assert_null(model);
    assert_non_null(strstr(err, "policy fast needs a CUDA device: its 16-bit products are "
                                "cuBLASLt's, which the reference kernels lack"));
    for (enum model_policy policy = 0; policy < MODEL_POLICY_COUNT; policy++) {
        assert_int_equal(model_plan_has_policy(device_ops(device), policy),
                         policy != MODEL_POLICY_FAST);
    }
    free(path);
}

static void refuses_a_context_longer_than_the_models(void **state) {
    char err[512] = "";
    struct model *model = NULL;
    char *path = tiny_llama_write(NULL);
    const struct model_options options = {.path = path, .max_model_len = 1025};
    assert_int_equal(model_open(&options, device, &model, err, sizeof err), MODEL_BAD_OPTION);
    assert_non_null(strstr(err, "max_model_len 1025 is more than the model's 1024 tokens"));
    assert_null(model);
    free(path);
}

static void says_how_much_memory_a_model_needs_that_does_not_fit(void **state) {
    /* Half again what the machine has, under policy f32; half of that in the file, all holes:
     * some tools refuse to map a file that is much larger than the machine. */
    struct device_info info;
    device_describe(device, &info);
    const uint64_t hidden = 128 * 64, ffn = 65536;
    const uint64_t layer_bytes = 2 * (4 * hidden * hidden + 3 * hidden * ffn); /* of 16 bits each */
    const uint64_t layers = info.memory_bytes * 3 / 4 / layer_bytes + 1;
    const struct tiny_llama_options large = {.format = BLOCK_FORMAT_F16,
                                             .layers = (uint32_t)layers,
                                             .heads = 128,
                                             .kv_heads = 128,
                                             .head_dim = 64,
                                             .ffn_dim = (uint32_t)ffn,
                                             .no_data = true};
    char err[512] = "";
    struct model *model;
    char *path = tiny_llama_write(&large);
    assert_int_equal(truncate(path, (off_t)((layers + 1) * layer_bytes)), 0);
    assert_int_equal(try_open(path, MODEL_POLICY_F32, &model, err, sizeof err), MODEL_DOES_NOT_FIT);
    unsigned long long needed = 0;
    const char *said = strstr(err, "its weights need ");
    assert_non_null(said);
    assert_int_equal(sscanf(said, "its weights need %llu MiB under policy f32, ", &needed), 1);
    assert_in_range(needed, layers * 2 * layer_bytes >> 20, (layers + 1) * 2 * layer_bytes >> 20);
    assert_int_equal(unlink(path), 0);
    free(path);
}

/* ---------------------------------------------------------------- bad files */

/* Finds bytes in the file and puts others of the same length in their place. */
static void replace(struct gguf_writer *writer, const char *from, const char *to) {
    size_t bytes = strlen(from);
    assert_int_equal(bytes, strlen(to));
    uint8_t *at = memmem(writer->bytes, writer->size, from, bytes);
    assert_non_null(at);
    memcpy(at, to, bytes);
}

/* Sets the u32 that follows a key. */
static void set_u32(struct gguf_writer *writer, const char *key, uint32_t value) {
    uint8_t *at = memmem(writer->bytes, writer->size, key, strlen(key));
    assert_non_null(at);
    memcpy(at + strlen(key) + 4, &value, sizeof value);
}

static void set_f32(struct gguf_writer *writer, const char *key, float value) {
    set_u32(writer, key, canonical_bits(value));
}

static void expect_refused(struct gguf_writer *writer, enum model_policy policy, const char *said) {
    char err[512] = "";
    struct model *model;
    char *path = gguf_writer_save(writer, "bad.gguf");
    enum model_status status = try_open(path, policy, &model, err, sizeof err);
    assert_int_equal(status, MODEL_BAD_FILE);
    if (strstr(err, said) == NULL || strstr(err, path) != err) {
        fail_msg("expected \"%s\" in \"%s\"", said, err);
    }
    free(path);
    gguf_writer_deinit(writer);
}

#define REFUSED(said, ...)                              \
    do {                                                \
        struct gguf_writer file = {0};                  \
        tiny_llama_build(NULL, &file);                  \
        __VA_ARGS__;                                    \
        expect_refused(&file, MODEL_POLICY_INT8, said); \
    } while (0)

static void refuses_sizes_that_contradict_each_other(void **state) {
    REFUSED("key llama.block_count: 1 to 256 is expected, the file has 0",
            set_u32(&file, "llama.block_count", 0));
    REFUSED("key llama.block_count: 1 to 256 is expected, the file has 4294967295",
            set_u32(&file, "llama.block_count", UINT32_MAX));
    REFUSED("tensor blk.2.attn_norm.weight: missing", set_u32(&file, "llama.block_count", 3));
    REFUSED("tensor blk.1.attn_norm.weight: a llama model of 1 layers with such a tensor",
            set_u32(&file, "llama.block_count", 1));
    REFUSED("key llama.embedding_length: 1 to 65536",
            set_u32(&file, "llama.embedding_length", 65537));
    REFUSED("tensor token_embd.weight: shape [96, ", set_u32(&file, "llama.embedding_length", 96));
    REFUSED("key llama.attention.key_length: an integer is expected, the file has nothing",
            set_u32(&file, "llama.embedding_length", 65));
    REFUSED("key llama.attention.head_count: 1 to 1024 is expected, the file has 0",
            set_u32(&file, "llama.attention.head_count", 0));
    REFUSED("4 heads cannot share 3 key-value heads evenly",
            set_u32(&file, "llama.attention.head_count_kv", 3));
    REFUSED("key llama.attention.head_count_kv: 1 to 4 is expected, the file has 8",
            set_u32(&file, "llama.attention.head_count_kv", 8));
    REFUSED("tensor blk.0.attn_k.weight: shape [64, 64] is expected, the file has [64, 32]",
            set_u32(&file, "llama.attention.head_count_kv", 4));
    REFUSED("heads of width 1 ", set_u32(&file, "llama.attention.head_count", 64));
    REFUSED("key llama.feed_forward_length: 1 to 65536",
            set_u32(&file, "llama.feed_forward_length", 0));
    REFUSED("tensor blk.0.ffn_gate.weight: shape [64, 128] is expected, the file has [64, 96]",
            set_u32(&file, "llama.feed_forward_length", 128));
    REFUSED("key llama.context_length: 1 to ", set_u32(&file, "llama.context_length", 0));
    REFUSED("key llama.vocab_size: ", set_u32(&file, "llama.vocab_size", 7));
}

static void refuses_constants_that_make_no_sense(void **state) {
    REFUSED("key llama.rope.freq_base: 1 to 1e12 is expected, the file has nan",
            set_f32(&file, "llama.rope.freq_base", canonical_float(0x7FC00000)));
    REFUSED("key llama.rope.freq_base: ", set_f32(&file, "llama.rope.freq_base", 0));
    REFUSED("key llama.attention.layer_norm_rms_epsilon: more than 0",
            set_f32(&file, "llama.attention.layer_norm_rms_epsilon", 0));
    REFUSED("key llama.attention.layer_norm_rms_epsilon: more than 0",
            set_f32(&file, "llama.attention.layer_norm_rms_epsilon", -1e-5f));
}

/* Keys that change the arithmetic, each at a value that means it. */
static const struct {
    const char *key;
    float value;
    const char *said;
} variants[] = {
    {"llama.expert_count", 8, "key llama.expert_count: 8 is not supported (only 0 is)"},
    {"llama.attention.sliding_window", 4096, "key llama.attention.sliding_window: 4096 is not"},
    {"llama.rope.scaling.factor", 8, "key llama.rope.scaling.factor: 8 is not supported (only 1"},
    {"llama.logit_scale", 0.5f, "key llama.logit_scale: 0.5 is not supported"},
    {"llama.rope.dimension_count", 8, "key llama.rope.dimension_count: an integer is expected"},
};
static size_t variant;

static void add_variant(struct gguf_writer *writer) {
    gguf_writer_key_f32(writer, variants[variant].key, variants[variant].value);
}

static void add_yarn(struct gguf_writer *writer) {
    gguf_writer_key_string(writer, "llama.rope.scaling.type", "yarn");
}

static void add_half_rotary(struct gguf_writer *writer) {
    gguf_writer_key_u32(writer, "llama.rope.dimension_count", 8);
}

static void add_unused(struct gguf_writer *writer) {
    gguf_writer_key_string(writer, "llama.rope.scaling.type", "none");
    gguf_writer_key_u32(writer, "llama.expert_count", 0);
    gguf_writer_key_f32(writer, "llama.rope.scaling.factor", 1);
    gguf_writer_key_u32(writer, "llama.rope.dimension_count", 16);
}

static void refuses_variants_of_the_architecture_by_name(void **state) {
    struct gguf_writer other = {0};
    struct tiny_llama_options options = {.add_keys = add_variant, .extra_key_count = 1};
    for (variant = 0; variant < sizeof variants / sizeof variants[0]; variant++) {
        tiny_llama_build(&options, &other);
        expect_refused(&other, MODEL_POLICY_INT8, variants[variant].said);
    }
    options.add_keys = add_yarn;
    tiny_llama_build(&options, &other);
    expect_refused(&other, MODEL_POLICY_INT8, "key llama.rope.scaling.type: \"yarn\" is not");
    options.add_keys = add_half_rotary;
    tiny_llama_build(&options, &other);
    expect_refused(&other, MODEL_POLICY_INT8, "key llama.rope.dimension_count: 16 to 16 is");
    REFUSED("architecture \"mamba\" is not supported (llama is)", replace(&file, "llama", "mamba"));
}

static void accepts_keys_that_say_a_variant_is_not_used(void **state) {
    const struct tiny_llama_options options = {.add_keys = add_unused, .extra_key_count = 4};
    model_close(open_tiny(&options, MODEL_POLICY_INT8));
}

static void refuses_tensors_by_name(void **state) {
    struct gguf_writer other = {0};
    const struct tiny_llama_options untied = {.untied = true};
    const struct tiny_llama_options q8_0 = {.format = BLOCK_FORMAT_Q8_0};
    REFUSED("tensor blk.1.attn_v.weight: missing",
            replace(&file, "blk.1.attn_v.weight", "blk.1.attn_x.weight"));
    REFUSED("tensor token_embd.weight: missing", replace(&file, "token_embd.w", "token_embx.w"));
    tiny_llama_build(&untied, &other);
    const char name[] = "\x0d\0\0\0\0\0\0\0output.weight"; /* and no other that ends like it */
    uint8_t *named = memmem(other.bytes, other.size, name, sizeof name - 1);
    assert_non_null(named);
    memcpy(named + 8, "factor.weight", 13);
    expect_refused(&other, MODEL_POLICY_F16,
                   "tensor factor.weight: a llama model of 2 layers with");
    tiny_llama_build(&q8_0, &other);
    const uint8_t iq4_nl = 20; /* smaller than Q8_0, so the file still holds together */
    uint8_t *at = memmem(other.bytes, other.size, "blk.0.attn_q.weight", 19);
    assert_non_null(at);
    assert_int_equal(at[19 + 4 + 16], BLOCK_FORMAT_Q8_0);
    at[19 + 4 + 16] = iq4_nl;
    expect_refused(&other, MODEL_POLICY_F16,
                   "tensor blk.0.attn_q.weight: type IQ4_NL is not supported yet (F32, F16, Q4_0, "
                   "Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, BF16 are)");
}

/* Sets the shape of a tensor: as many dimensions as it has, of as many elements. */
static void set_shape(struct gguf_writer *writer, const char *name, uint64_t columns,
                      uint64_t rows) {
    uint8_t *at = memmem(writer->bytes, writer->size, name, strlen(name));
    assert_non_null(at);
    at += strlen(name);
    assert_int_equal(at[0], 2);
    memcpy(at + 4, &columns, sizeof columns);
    memcpy(at + 12, &rows, sizeof rows);
}

static void refuses_shapes_telling_what_is_expected(void **state) {
    REFUSED("tensor blk.0.attn_k.weight: shape [64, 32] is expected, the file has [32, 64]",
            set_shape(&file, "blk.0.attn_k.weight", 32, 64));
    REFUSED("tensor blk.1.ffn_down.weight: shape [96, 64] is expected, the file has [64, 96]",
            set_shape(&file, "blk.1.ffn_down.weight", 64, 96));
    REFUSED("tensor blk.1.attn_output.weight: shape [64, 64] is expected, the file has [4096, 1]",
            set_shape(&file, "blk.1.attn_output.weight", 4096, 1));
}

/* A file of nothing but an architecture's name. */
static void expect_architecture_refused(const char *name, const char *said) {
    struct gguf_writer file = {0};
    gguf_writer_header(&file, 0, 1);
    gguf_writer_key_string(&file, "general.architecture", name);
    expect_refused(&file, MODEL_POLICY_INT8, said);
}

static void refuses_other_architectures_by_name(void **state) {
    expect_architecture_refused("qwen2", "architecture \"qwen2\" is not supported (llama is)");
    expect_architecture_refused("llama4", "architecture \"llama4\" is not supported (llama is)");
    expect_architecture_refused("", "architecture \"\" is not supported (llama is)");
    REFUSED("key general.architecture: a string is expected, the file has nothing",
            replace(&file, "general.architecture", "general.architexture"));
}

/* The place of a tensor's data in the file's bytes. */
static uint8_t *find_data(struct gguf_writer *file, const char *name, size_t *columns) {
    struct gguf *gguf;
    char err[256];
    assert_int_equal(gguf_parse(file->bytes, file->size, &gguf, err, sizeof err), GGUF_OK);
    const struct gguf_tensor *tensor = gguf_find_tensor(gguf, name);
    assert_non_null(tensor);
    size_t at = (size_t)(tensor->data - file->bytes);
    *columns = (size_t)tensor->dims[0];
    gguf_close(gguf);
    return file->bytes + at;
}

/* Sets element [row, column] of a F32 tensor. */
static void put_element(struct gguf_writer *file, const char *name, uint32_t row, uint32_t column,
                        uint32_t bits) {
    size_t columns;
    uint8_t *data = find_data(file, name, &columns);
    memcpy(data + sizeof bits * (row * columns + column), &bits, sizeof bits);
}

static void refuses_weights_that_no_policy_can_hold(void **state) {
    REFUSED("tensor blk.1.ffn_down.weight: row 3, column 95: nan is not finite",
            put_element(&file, "blk.1.ffn_down.weight", 3, 95, 0x7FC00000));
    REFUSED("tensor blk.0.attn_q.weight: row 5, column 0: -inf is not finite",
            put_element(&file, "blk.0.attn_q.weight", 5, 0, 0xFF800000));
    REFUSED("tensor output_norm.weight: row 0, column 63: inf is not finite",
            put_element(&file, "output_norm.weight", 0, 63, 0x7F800000));
    /* 70000 fits INT8 with its own scale, but not a half. */
    REFUSED("tensor token_embd.weight: row 9, column 1: 70000 does not fit into 16 bits",
            put_element(&file, "token_embd.weight", 9, 1, canonical_bits(70000.0f)));
    struct gguf_writer file = {0};
    char err[512];
    struct model *model;
    tiny_llama_build(NULL, &file);
    put_element(&file, "blk.0.attn_q.weight", 1, 1, canonical_bits(70000.0f));
    char *path = gguf_writer_save(&file, "large.gguf");
    assert_int_equal(try_open(path, MODEL_POLICY_INT8, &model, err, sizeof err), MODEL_OK);
    model_close(model);
    assert_int_equal(try_open(path, MODEL_POLICY_F16, &model, err, sizeof err), MODEL_BAD_FILE);
    free(path);
    gguf_writer_deinit(&file);
}

static void refuses_a_block_whose_scale_is_not_finite(void **state) {
    const uint16_t nan = 0x7E00;
    struct tiny_llama_options options;
    uint32_t formats = 0;
    for (uint32_t n = 0; readable_format(n, &options); n++) {
        const struct block_format *format = block_format_find(options.format);
        if (format->elements == 1) {
            continue; /* no scale */
        }
        struct gguf_writer file = {0};
        char said[128];
        tiny_llama_build(&options, &file);
        size_t columns, scale_at = format->number == BLOCK_FORMAT_Q6_K ? 208 : 0;
        uint8_t *data = find_data(&file, "blk.0.ffn_down.weight", &columns);
        size_t blocks = columns / format->elements, last = blocks - 1;
        memcpy(data + (3 * blocks + last) * format->bytes + scale_at, &nan, sizeof nan);
        snprintf(said, sizeof said,
                 "tensor blk.0.ffn_down.weight: row 3, column %zu: nan is not finite",
                 last * format->elements);
        expect_refused(&file, MODEL_POLICY_INT8, said);
        formats++;
    }
    assert_int_equal(formats, 8);
}

static void refuses_text_that_does_not_fit_the_weights(void **state) {
    REFUSED("key tokenizer.ggml.bos_token_id: no such token",
            set_u32(&file, "tokenizer.ggml.bos_token_id", 100000));
    REFUSED("key tokenizer.ggml.model: a string is expected, the file has nothing",
            replace(&file, "tokenizer.ggml.model", "tokenizer.ggml.xxxxx"));
    REFUSED("key tokenizer.ggml.tokens: ",
            replace(&file, "tokenizer.ggml.tokens", "tokenizer.ggml.xxxxxx"));
    REFUSED("tokenizer: ", replace(&file, "gpt2", "bert"));
    REFUSED("key tokenizer.chat_template: ", replace(&file, "in messages %}", "in passages %}"));
}

static void survives_any_byte_of_the_metadata_changed(void **state) {
    struct gguf_writer file = {0};
    uint64_t random = test_seed();
    char err[512];
    const struct tiny_llama_options options = {.format = BLOCK_FORMAT_Q4_1, .layers = 1};
    tiny_llama_build(&options, &file);
    size_t described =
        (size_t)((uint8_t *)memmem(file.bytes, file.size, "output_norm.weight", 18) - file.bytes);
    for (int i = 0; i < 300; i++) {
        size_t at = test_random(&random) % described;
        uint8_t old = file.bytes[at];
        struct model *model = NULL;
        file.bytes[at] = (uint8_t)test_random(&random);
        char *path = gguf_writer_save(&file, "changed.gguf");
        enum model_status status = try_open(path, MODEL_POLICY_INT8, &model, err, sizeof err);
        assert_true(status == MODEL_OK || (status == MODEL_BAD_FILE && strlen(err) > 20));
        model_close(model);
        free(path);
        file.bytes[at] = old;
    }
    gguf_writer_deinit(&file);
}

TEST_MAIN_WITH(open_device, close_device,
               cmocka_unit_test(fuses_projections_and_pairs_rotary_rows_by_halves),
               cmocka_unit_test(reads_every_format_into_the_same_shapes),
               cmocka_unit_test(opens_under_every_policy_that_the_device_has),
               cmocka_unit_test(gives_an_untied_head_weights_of_its_own),
               cmocka_unit_test(reads_norms_and_rotary_tables),
               cmocka_unit_test(tells_name_hash_and_text_of_the_file),
               cmocka_unit_test(plans_exactly_what_it_reserves),
               cmocka_unit_test(refuses_the_one_policy_that_no_cpu_has),
               cmocka_unit_test(refuses_a_context_longer_than_the_models),
               cmocka_unit_test(says_how_much_memory_a_model_needs_that_does_not_fit),
               cmocka_unit_test(refuses_sizes_that_contradict_each_other),
               cmocka_unit_test(refuses_constants_that_make_no_sense),
               cmocka_unit_test(refuses_variants_of_the_architecture_by_name),
               cmocka_unit_test(accepts_keys_that_say_a_variant_is_not_used),
               cmocka_unit_test(refuses_tensors_by_name),
               cmocka_unit_test(refuses_shapes_telling_what_is_expected),
               cmocka_unit_test(refuses_other_architectures_by_name),
               cmocka_unit_test(refuses_weights_that_no_policy_can_hold),
               cmocka_unit_test(refuses_a_block_whose_scale_is_not_finite),
               cmocka_unit_test(refuses_text_that_does_not_fit_the_weights),
               cmocka_unit_test(survives_any_byte_of_the_metadata_changed))
