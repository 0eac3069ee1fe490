#include "engine/model.h"

#include <assert.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/gguf.h"
#include "engine/model_config.h"
#include "engine/model_plan.h"
#include "engine/model_policy.h"
#include "engine/model_text.h"
#include "engine/model_weights.h"
#include "schemas/sha256.h"

enum { MODEL_DETAIL_BYTES_MAX = 512, MODEL_HASH_BYTES = 1 << 22 };

/* Opens the file and reads from it what a plan needs. On an error nothing is open. */
static enum model_status model_read(const char *path, struct gguf **out,
                                    struct model_config *config, char *err, size_t err_bytes) {
    struct gguf *gguf;
    enum gguf_status opened = gguf_open(path, &gguf, err, err_bytes);
    if (opened != GGUF_OK) {
        return opened == GGUF_NO_MEMORY ? MODEL_NO_MEMORY : MODEL_BAD_FILE;
    }
    if (!model_config_read(gguf, config, err, err_bytes) ||
        !model_config_check_tensors(gguf, config, err, err_bytes)) {
        gguf_close(gguf);
        return MODEL_BAD_FILE;
    }
    *out = gguf;
    return MODEL_OK;
}

static enum model_status model_hash(const struct gguf *gguf, char hex[SHA256_HEX_BYTES], char *err,
                                    size_t err_bytes) {
    uint8_t digest[SHA256_BYTES];
    struct sha256 hash;
    size_t size;
    const uint8_t *bytes = gguf_bytes(gguf, &size);
    sha256_init(&hash);
    for (size_t at = 0; at < size; at += MODEL_HASH_BYTES) {
        size_t count = size - at < MODEL_HASH_BYTES ? size - at : MODEL_HASH_BYTES;
        sha256_update(&hash, bytes + at, count);
        gguf_rest(gguf, bytes + at, count);
    }
    if (!sha256_finish(&hash, digest)) {
        snprintf(err, err_bytes, "out of host memory");
        return MODEL_NO_MEMORY;
    }
    sha256_hex(digest, hex);
    return MODEL_OK;
}

/* One allocation for all weights, so that fitting is known before the first is converted. */
static enum model_status model_reserve(struct model *model, char *err, size_t err_bytes) {
    size_t bytes = model->plan.total_bytes;
    struct device_info info;
    model->layers = calloc(model->config.layers, sizeof *model->layers);
    if (model->layers == NULL) {
        snprintf(err, err_bytes, "out of host memory");
        return MODEL_NO_MEMORY;
    }
    device_describe(model->device, &info);
    if (bytes > info.memory_free_bytes ||
        device_alloc(model->device, DEVICE_MEMORY, bytes, &model->memory) != KERNELS_OK) {
        snprintf(err, err_bytes, "its weights need %zu MiB under policy %s, %s has %zu MiB free",
                 bytes >> 20, model_policy_name(model->policy), info.name,
                 info.memory_free_bytes >> 20);
        model->memory = NULL;
        return MODEL_DOES_NOT_FIT;
    }
    return MODEL_OK;
}

static enum model_status model_load(struct model *model, const struct gguf *gguf,
                                    const struct model_options *options, char *err,
                                    size_t err_bytes) {
    model->max_model_len = options->max_model_len;
    enum model_status status =
        model_plan_length(&model->config, &model->max_model_len, err, err_bytes);
    if (status == MODEL_OK) {
        struct model_options planned = *options;
        planned.max_model_len = model->max_model_len;
        status = model_plan_make(&model->config, &planned, device_ops(model->device), &model->plan,
                                 err, err_bytes);
    }
    if (status == MODEL_OK) {
        status = model_text_open(gguf, model->config.vocabulary, &model->tokenizer, &model->chat,
                                 err, err_bytes);
    }
    if (status == MODEL_OK) {
        status = model_reserve(model, err, err_bytes);
    }
    if (status == MODEL_OK) {
        status = model_hash(gguf, model->sha256, err, err_bytes);
    }
    if (status == MODEL_OK) {
        status = model_weights_load(model, gguf, options, err, err_bytes);
    }
    if (status == MODEL_OK) {
        model->kv = model_plan_kv_form(&model->config, model->policy);
        model_text_name(gguf, options->path, model->name, sizeof model->name);
    }
    return status;
}

enum model_status model_open(const struct model_options *options, struct device *device,
                             struct model **out, char *err, size_t err_bytes) {
    char detail[MODEL_DETAIL_BYTES_MAX] = "";
    struct gguf *gguf = NULL;
    struct model *model = calloc(1, sizeof *model);
    if (model == NULL) {
        snprintf(err, err_bytes, "%s: out of host memory", options->path);
        return MODEL_NO_MEMORY;
    }
    model->device = device;
    model->policy = options->policy;
    enum model_status status =
        model_read(options->path, &gguf, &model->config, detail, sizeof detail);
    if (status == MODEL_OK) {
        status = model_load(model, gguf, options, detail, sizeof detail);
    }
    gguf_close(gguf);
    (void)malloc_trim(0); /* names and matrices under way: free, but scattered over the heap */
    if (status != MODEL_OK) {
        snprintf(err, err_bytes, "%s: %s", options->path, detail);
        model_close(model);
        return status;
    }
    *out = model;
    return MODEL_OK;
}

void model_close(struct model *model) {
    if (model == NULL) {
        return;
    }
    if (model->layers != NULL) {
        model_weights_release(model);
    }
    if (model->memory != NULL) {
        device_free(model->device, DEVICE_MEMORY, model->memory);
    }
    tokenizer_close(model->tokenizer);
    free(model->layers);
    free(model);
}

enum model_status model_describe(const struct model_options *options, const struct kernel_ops *ops,
                                 struct model_config *config, struct model_plan *plan, char *err,
                                 size_t err_bytes) {
    char detail[MODEL_DETAIL_BYTES_MAX] = "";
    struct gguf *gguf = NULL;
    struct model_options planned = *options;
    enum model_status status = model_read(options->path, &gguf, config, detail, sizeof detail);
    if (status == MODEL_OK) {
        status = model_plan_length(config, &planned.max_model_len, detail, sizeof detail);
    }
    if (status == MODEL_OK) {
        status = model_plan_make(config, &planned, ops, plan, detail, sizeof detail);
    }
    gguf_close(gguf);
    if (status != MODEL_OK) {
        snprintf(err, err_bytes, "%s: %s", options->path, detail);
    }
    return status;
}

/* "210 Q4_1, 61 F32": the formats in the order in which they first come. */
static void model_list_formats(const struct gguf *gguf, char *out, size_t out_bytes) {
    size_t count = gguf_tensor_count(gguf), used = 0;
    for (size_t i = 0; i < count && used < out_bytes; i++) {
        const struct block_format *format = gguf_tensor_at(gguf, i)->format;
        size_t same = 0, first = i;
        for (size_t j = 0; j < count; j++) {
            bool is_same = gguf_tensor_at(gguf, j)->format == format;
            same += is_same;
            first = is_same && j < first ? j : first;
        }
        if (first == i) {
            used += (size_t)snprintf(out + used, out_bytes - used, "%s%zu %s", i == 0 ? "" : ", ",
                                     same, format->name);
        }
    }
}

static enum model_status model_identify_open(const struct gguf *gguf, uint32_t vocabulary,
                                             struct model_identity *identity, char *err,
                                             size_t err_bytes) {
    struct tokenizer *tokenizer;
    struct chat_template chat;
    size_t size;
    enum model_status status = model_text_open(gguf, vocabulary, &tokenizer, &chat, err, err_bytes);
    if (status != MODEL_OK) {
        return status;
    }
    identity->chat = chat.kind;
    tokenizer_close(tokenizer);
    (void)gguf_bytes(gguf, &size);
    identity->file_bytes = size;
    model_list_formats(gguf, identity->formats, sizeof identity->formats);
    return model_hash(gguf, identity->sha256, err, err_bytes);
}

enum model_status model_identify(const char *path, struct model_identity *identity, char *err,
                                 size_t err_bytes) {
    char detail[MODEL_DETAIL_BYTES_MAX] = "";
    struct gguf *gguf = NULL;
    struct model_config config;
    enum model_status status = model_read(path, &gguf, &config, detail, sizeof detail);
    if (status == MODEL_OK) {
        status = model_identify_open(gguf, config.vocabulary, identity, detail, sizeof detail);
        model_text_name(gguf, path, identity->name, sizeof identity->name);
    }
    gguf_close(gguf);
    if (status != MODEL_OK) {
        snprintf(err, err_bytes, "%s: %s", path, detail);
    }
    return status;
}

double model_int8_share_percent(const struct model *model) {
    return model_policy_int8_share_percent(model->policy, &model->config);
}
