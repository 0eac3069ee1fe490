#include "engine/model_config.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct model_config_reader {
    const struct gguf *gguf;
    char *err;
    size_t err_bytes;
};

static bool model_config_fail(const struct model_config_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Always false, so that a check can return it. */
static bool model_config_fail(const struct model_config_reader *reader, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reader->err, reader->err_bytes, format, arguments);
    va_end(arguments);
    return false;
}

/* ---------------------------------------------------------------- keys */

/* An integer within [min, max]. An absent key leaves *out, unless it is required. */
static bool model_config_u32(const struct model_config_reader *reader, const char *key,
                             bool is_required, uint32_t min, uint32_t max, uint32_t *out) {
    uint32_t value = *out;
    enum gguf_lookup lookup = gguf_get_u32(reader->gguf, key, &value);
    if (lookup == GGUF_WRONG_TYPE || (lookup == GGUF_ABSENT && is_required)) {
        return model_config_fail(reader, "key %s: an integer is expected, the file has %s", key,
                                 gguf_type_name(reader->gguf, key));
    }
    if (lookup == GGUF_OUT_OF_RANGE) {
        return model_config_fail(reader, "key %s: %u to %u is expected", key, min, max);
    }
    if (lookup == GGUF_FOUND && (value < min || value > max)) {
        return model_config_fail(reader, "key %s: %u to %u is expected, the file has %u", key, min,
                                 max, value);
    }
    *out = value;
    return true;
}

/* A number of any type. An absent key leaves *out, unless it is required. */
static bool model_config_f32(const struct model_config_reader *reader, const char *key,
                             bool is_required, float *out) {
    uint32_t integer;
    enum gguf_lookup lookup = gguf_get_f32(reader->gguf, key, out);
    if (lookup == GGUF_WRONG_TYPE && gguf_get_u32(reader->gguf, key, &integer) == GGUF_FOUND) {
        *out = (float)integer;
        return true;
    }
    if (lookup == GGUF_WRONG_TYPE || (lookup == GGUF_ABSENT && is_required)) {
        return model_config_fail(reader, "key %s: a number is expected, the file has %s", key,
                                 gguf_type_name(reader->gguf, key));
    }
    return true;
}

static bool model_config_architecture(const struct model_config_reader *reader,
                                      struct model_config *config) {
    const char *key = "general.architecture";
    struct gguf_string name;
    if (gguf_get_string(reader->gguf, key, &name) != GGUF_FOUND) {
        return model_config_fail(reader, "key %s: a string is expected, the file has %s", key,
                                 gguf_type_name(reader->gguf, key));
    }
    if (!gguf_string_is(name, "llama")) {
        int shown = name.bytes < 40 ? (int)name.bytes : 40;
        return model_config_fail(reader, "architecture \"%.*s\" is not supported (llama is)", shown,
                                 name.data);
    }
    snprintf(config->architecture, sizeof config->architecture, "llama");
    return true;
}

/* Keys that change the arithmetic in a way that we do not have: a file may hold one only at the
 * value that means "not used". */
static const struct {
    const char *key;
    float unused;
} model_config_neutral[] = {
    {"llama.expert_count", 0.0f},
    {"llama.expert_used_count", 0.0f},
    {"llama.attention.sliding_window", 0.0f},
    {"llama.attention.clamp_kqv", 0.0f},
    {"llama.attention.max_alibi_bias", 0.0f},
    {"llama.attention.scale", 0.0f},
    {"llama.attn_logit_softcapping", 0.0f},
    {"llama.final_logit_softcapping", 0.0f},
    {"llama.logit_scale", 1.0f},
    {"llama.residual_scale", 1.0f},
    {"llama.embedding_scale", 1.0f},
    {"llama.rope.scale_linear", 1.0f},
    {"llama.rope.scaling.factor", 1.0f},
    {"llama.rope.scaling.attn_factor", 1.0f},
};

static bool model_config_refuse_variants(const struct model_config_reader *reader) {
    for (size_t i = 0; i < sizeof model_config_neutral / sizeof model_config_neutral[0]; i++) {
        float value = model_config_neutral[i].unused;
        if (!model_config_f32(reader, model_config_neutral[i].key, false, &value)) {
            return false;
        }
        if (!(value == model_config_neutral[i].unused)) {
            return model_config_fail(reader, "key %s: %g is not supported (only %g is)",
                                     model_config_neutral[i].key, (double)value,
                                     (double)model_config_neutral[i].unused);
        }
    }
    const char *key = "llama.rope.scaling.type";
    struct gguf_string type = {"none", 4};
    if (gguf_get_string(reader->gguf, key, &type) == GGUF_WRONG_TYPE) {
        return model_config_fail(reader, "key %s: a string is expected, the file has %s", key,
                                 gguf_type_name(reader->gguf, key));
    }
    /* Linear scaling by 1, checked above, is no scaling. */
    if (!gguf_string_is(type, "none") && !gguf_string_is(type, "linear")) {
        int shown = type.bytes < 40 ? (int)type.bytes : 40;
        return model_config_fail(reader, "key %s: \"%.*s\" is not supported (none is)", key, shown,
                                 type.data);
    }
    return true;
}

static bool model_config_heads(const struct model_config_reader *reader,
                               struct model_config *config) {
    if (!model_config_u32(reader, "llama.attention.head_count", true, 1, MODEL_CONFIG_HEADS_MAX,
                          &config->heads)) {
        return false;
    }
    config->kv_heads = config->heads;
    if (!model_config_u32(reader, "llama.attention.head_count_kv", false, 1, config->heads,
                          &config->kv_heads)) {
        return false;
    }
    if (config->heads % config->kv_heads != 0) {
        return model_config_fail(reader, "%u heads cannot share %u key-value heads evenly",
                                 config->heads, config->kv_heads);
    }
    config->head_dim = config->dim % config->heads == 0 ? config->dim / config->heads : 0;
    if (!model_config_u32(reader, "llama.attention.key_length", config->head_dim == 0, 2,
                          MODEL_CONFIG_HEAD_DIM_MAX, &config->head_dim)) {
        return false;
    }
    uint32_t value_dim = config->head_dim;
    config->rotary_dims = config->head_dim;
    if (!model_config_u32(reader, "llama.attention.value_length", false, config->head_dim,
                          config->head_dim, &value_dim) ||
        !model_config_u32(reader, "llama.rope.dimension_count", false, config->head_dim,
                          config->head_dim, &config->rotary_dims)) {
        return false;
    }
    if (config->head_dim < 2 || config->head_dim % 2 != 0 ||
        config->head_dim > MODEL_CONFIG_HEAD_DIM_MAX ||
        config->heads * config->head_dim > KERNELS_K_MAX) {
        return model_config_fail(reader,
                                 "%u heads of width %u (even widths up to %d, together up to %u, "
                                 "are supported)",
                                 config->heads, config->head_dim, MODEL_CONFIG_HEAD_DIM_MAX,
                                 KERNELS_K_MAX);
    }
    return true;
}

static bool model_config_sizes(const struct model_config_reader *reader,
                               struct model_config *config) {
    return model_config_u32(reader, "llama.block_count", true, 1, MODEL_LAYERS_MAX,
                            &config->layers) &&
           model_config_u32(reader, "llama.embedding_length", true, 1, KERNELS_K_MAX,
                            &config->dim) &&
           model_config_u32(reader, "llama.feed_forward_length", true, 1, KERNELS_K_MAX,
                            &config->ffn_dim) &&
           model_config_u32(reader, "llama.context_length", true, 1,
                            MODEL_CONFIG_CONTEXT_TOKENS_MAX, &config->context_tokens);
}

static bool model_config_constants(const struct model_config_reader *reader,
                                   struct model_config *config) {
    config->rope_theta = 10000.0f;
    if (!model_config_f32(reader, "llama.rope.freq_base", false, &config->rope_theta) ||
        !model_config_f32(reader, "llama.attention.layer_norm_rms_epsilon", true,
                          &config->norm_eps)) {
        return false;
    }
    if (!(config->rope_theta >= 1.0f && config->rope_theta <= 1e12f)) {
        return model_config_fail(reader,
                                 "key llama.rope.freq_base: 1 to 1e12 is expected, the file has %g",
                                 (double)config->rope_theta);
    }
    if (!(config->norm_eps > 0.0f && config->norm_eps <= 1.0f)) {
        return model_config_fail(reader,
                                 "key llama.attention.layer_norm_rms_epsilon: more than 0, at most "
                                 "1 is expected, the file has %g",
                                 (double)config->norm_eps);
    }
    return true;
}

static bool model_config_vocabulary(const struct model_config_reader *reader,
                                    struct model_config *config) {
    const struct gguf_tensor *table = gguf_find_tensor(reader->gguf, "token_embd.weight");
    if (table == NULL) {
        return model_config_fail(reader, "tensor token_embd.weight: missing");
    }
    if (table->dims[1] > TOKENIZER_VOCABULARY_MAX) {
        return model_config_fail(reader,
                                 "tensor token_embd.weight: %llu tokens (at most %d are supported)",
                                 (unsigned long long)table->dims[1], TOKENIZER_VOCABULARY_MAX);
    }
    config->vocabulary = (uint32_t)table->dims[1];
    config->tied_head = gguf_find_tensor(reader->gguf, "output.weight") == NULL;
    uint32_t stated = config->vocabulary;
    return model_config_u32(reader, "llama.vocab_size", false, config->vocabulary,
                            config->vocabulary, &stated);
}

bool model_config_read(const struct gguf *gguf, struct model_config *config, char *err,
                       size_t err_bytes) {
    struct model_config_reader reader = {gguf, err, err_bytes};
    *config = (struct model_config){0};
    return model_config_architecture(&reader, config) && model_config_refuse_variants(&reader) &&
           model_config_sizes(&reader, config) && model_config_heads(&reader, config) &&
           model_config_constants(&reader, config) && model_config_vocabulary(&reader, config);
}

/* ---------------------------------------------------------------- tensors */

/* Sizes that shapes are made of. */
enum model_config_size { SIZE_ONE, SIZE_DIM, SIZE_QUERY, SIZE_KEY, SIZE_FFN, SIZE_VOCABULARY };

struct model_config_tensor {
    const char *name; /* after "blk.N." in a block */
    enum model_config_size rows, columns;
};

static const struct model_config_tensor model_config_block[] = {
    {"attn_norm.weight", SIZE_ONE, SIZE_DIM},     {"attn_q.weight", SIZE_QUERY, SIZE_DIM},
    {"attn_k.weight", SIZE_KEY, SIZE_DIM},        {"attn_v.weight", SIZE_KEY, SIZE_DIM},
    {"attn_output.weight", SIZE_DIM, SIZE_QUERY}, {"ffn_norm.weight", SIZE_ONE, SIZE_DIM},
    {"ffn_gate.weight", SIZE_FFN, SIZE_DIM},      {"ffn_up.weight", SIZE_FFN, SIZE_DIM},
    {"ffn_down.weight", SIZE_DIM, SIZE_FFN},
};

static const struct model_config_tensor model_config_global[] = {
    {"token_embd.weight", SIZE_VOCABULARY, SIZE_DIM},
    {"output_norm.weight", SIZE_ONE, SIZE_DIM},
    {"output.weight", SIZE_VOCABULARY, SIZE_DIM}, /* absent where tied: keep it last */
};

enum {
    MODEL_CONFIG_BLOCK_TENSORS = sizeof model_config_block / sizeof model_config_block[0],
    MODEL_CONFIG_GLOBAL_TENSORS = sizeof model_config_global / sizeof model_config_global[0],
};

static uint32_t model_config_size(const struct model_config *config, enum model_config_size size) {
    switch (size) {
    case SIZE_ONE: return 1;
    case SIZE_DIM: return config->dim;
    case SIZE_QUERY: return config->heads * config->head_dim;
    case SIZE_KEY: return config->kv_heads * config->head_dim;
    case SIZE_FFN: return config->ffn_dim;
    case SIZE_VOCABULARY: return config->vocabulary;
    }
    assert(!"no such size");
    return 0;
}

/* As in "[576, 49152]". */
static void model_config_show_shape(const struct gguf_tensor *tensor, char *out, size_t out_bytes) {
    size_t used = 0;
    for (uint32_t i = 0; i < tensor->rank && used < out_bytes; i++) {
        used +=
            (size_t)snprintf(out + used, out_bytes - used, "%s%llu%s", i == 0 ? "[" : ", ",
                             (unsigned long long)tensor->dims[i], i + 1 == tensor->rank ? "]" : "");
    }
}

static bool model_config_check_tensor(const struct model_config_reader *reader,
                                      const struct model_config *config, const char *name,
                                      const struct model_config_tensor *expected) {
    const struct gguf_tensor *tensor = gguf_find_tensor(reader->gguf, name);
    if (tensor == NULL) {
        return model_config_fail(reader, "tensor %s: missing", name);
    }
    uint32_t columns = model_config_size(config, expected->columns);
    uint32_t rows = model_config_size(config, expected->rows);
    const uint64_t *dims = tensor->dims;
    if (dims[0] != columns || dims[1] != rows || dims[2] != 1 || dims[3] != 1) {
        char shape[128];
        model_config_show_shape(tensor, shape, sizeof shape);
        return model_config_fail(reader, "tensor %s: shape [%u, %u] is expected, the file has %s",
                                 name, columns, rows, shape);
    }
    if (tensor->format->read == NULL) {
        char supported[BLOCK_FORMAT_LIST_BYTES_MAX];
        block_format_list_supported(supported, sizeof supported);
        return model_config_fail(reader, "tensor %s: type %s is not supported yet (%s are)", name,
                                 tensor->format->name, supported);
    }
    return true;
}

/* Whether a model of this configuration has a tensor of this name. */
static bool model_config_expects(const struct model_config *config, const char *name) {
    for (size_t i = 0; i < MODEL_CONFIG_GLOBAL_TENSORS; i++) {
        if (strcmp(name, model_config_global[i].name) == 0) {
            return true;
        }
    }
    if (strncmp(name, "blk.", 4) != 0 || name[4] < '0' || name[4] > '9') {
        return false;
    }
    char *end;
    const unsigned long layer = strtoul(name + 4, &end, 10);
    if (*end != '.' || layer >= config->layers) {
        return false;
    }
    for (size_t i = 0; i < MODEL_CONFIG_BLOCK_TENSORS; i++) {
        if (strcmp(end + 1, model_config_block[i].name) == 0) {
            return true;
        }
    }
    return false;
}

/* A tensor that nobody reads would be a part of the model left out in silence. */
static bool model_config_refuse_others(const struct model_config_reader *reader,
                                       const struct model_config *config, size_t expected_count) {
    if (gguf_tensor_count(reader->gguf) == expected_count) {
        return true; /* all of those expected are there, and names are distinct */
    }
    for (size_t i = 0; i < gguf_tensor_count(reader->gguf); i++) {
        struct gguf_string found = gguf_tensor_at(reader->gguf, i)->name;
        char name[GGUF_NAME_BYTES_MAX + 1];
        snprintf(name, sizeof name, "%.*s", (int)found.bytes, found.data);
        if (!model_config_expects(config, name)) {
            return model_config_fail(
                reader, "tensor %s: a %s model of %u layers with such a tensor is not supported",
                name, config->architecture, config->layers);
        }
    }
    return model_config_fail(reader, "%zu tensors (%zu are expected)",
                             gguf_tensor_count(reader->gguf), expected_count);
}

bool model_config_check_tensors(const struct gguf *gguf, const struct model_config *config,
                                char *err, size_t err_bytes) {
    struct model_config_reader reader = {gguf, err, err_bytes};
    size_t globals = MODEL_CONFIG_GLOBAL_TENSORS - (config->tied_head ? 1 : 0);
    for (size_t i = 0; i < globals; i++) {
        if (!model_config_check_tensor(&reader, config, model_config_global[i].name,
                                       &model_config_global[i])) {
            return false;
        }
    }
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        for (size_t i = 0; i < MODEL_CONFIG_BLOCK_TENSORS; i++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%u.%s", layer, model_config_block[i].name);
            if (!model_config_check_tensor(&reader, config, name, &model_config_block[i])) {
                return false;
            }
        }
    }
    return model_config_refuse_others(
        &reader, config, globals + (size_t)config->layers * MODEL_CONFIG_BLOCK_TENSORS);
}
