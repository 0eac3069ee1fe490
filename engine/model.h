/* A model: one checkpoint's weights on one device, with its tokenizer and chat template.
 *
 * Opening reads and checks the file (every shape once, expected against actual), quantises and
 * packs by a policy, uploads, and releases the host copies. Immutable afterwards: any thread may
 * read it; the device is used by the engine thread only. Owns its device memory (the device itself
 * is borrowed until model_close). Refuses to know sequences, batches, jobs. */
#ifndef SOLFLEET_ENGINE_MODEL_H
#define SOLFLEET_ENGINE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/chat_template.h"
#include "engine/tokenizer.h"
#include "kernels/device.h"
#include "kernels/ops.h"

#define MODEL_LAYERS_MAX 256
#define MODEL_NAME_BYTES_MAX 128

enum model_status {
    MODEL_OK = 0,
    MODEL_BAD_FILE,     /* unreadable, malformed, unsupported architecture or form: exit 7 */
    MODEL_DOES_NOT_FIT, /* exit 6 */
    MODEL_NO_MEMORY,
    MODEL_BAD_OPTION,  /* unknown policy and the like: exit 2 */
    MODEL_UNSUPPORTED, /* the device lacks what the policy needs: exit 6 */
    MODEL_FAILED       /* the device failed: exit 6 */
};

/* The precision of each named linear, as data (engine/policy.c). */
enum model_policy {
    MODEL_POLICY_F32,      /* weights and KV f32: tests and compare */
    MODEL_POLICY_F16,      /* every weight f16 */
    MODEL_POLICY_INT8,     /* every block linear W8A8; embedding and head f16 */
    MODEL_POLICY_BALANCED, /* named layers f16, the rest as int8 */
    MODEL_POLICY_LATENCY,
    MODEL_POLICY_FAST, /* as int8, but 16-bit products are a library's, outside the canonical
                          arithmetic: CUDA only, `numerics` of its own, never chosen unasked */
    MODEL_POLICY_COUNT
};

const char *model_policy_name(enum model_policy policy);
bool model_policy_parse(const char *name, enum model_policy *out);

/* Hyper-parameters of a Llama-architecture decoder (Touvron et al. 2023), from the file. */
struct model_config {
    char architecture[32];
    uint32_t layers, dim, heads, kv_heads, head_dim, ffn_dim, vocabulary;
    uint32_t context_tokens; /* the most the checkpoint was trained for */
    uint32_t rotary_dims;
    float rope_theta;
    float norm_eps;
    bool tied_head;
};

struct model_layer {
    const float *attention_norm; /* f32 [D], device */
    struct weight qkv;           /* [(H + 2G) d, D] */
    const float *query_norm;     /* f32 [d] or NULL: QK-norm */
    const float *key_norm;       /* f32 [d] or NULL */
    struct weight output;        /* [D, H d] */
    const float *ffn_norm;       /* f32 [D], device */
    struct weight gate_up;       /* [2F, D], gate first */
    struct weight down;          /* [D, F] */
};

/* Bytes by purpose; printed before anything is reserved. */
struct model_plan {
    size_t block_weight_bytes; /* packed linears of all layers */
    size_t embedding_bytes;
    size_t head_bytes;   /* 0 when tied */
    size_t sketch_bytes; /* INT8 copy of the head; 0 without */
    size_t norm_bytes;
    size_t rope_bytes;
    size_t total_bytes;
    size_t page_bytes; /* of one KV page over all layers */
};

/* What became of the cache of packed weights when a model was opened (engine/model_cache.h). */
enum model_cache_state {
    MODEL_CACHE_NONE,     /* none was asked for */
    MODEL_CACHE_READ,     /* the weights came from it */
    MODEL_CACHE_WRITTEN,  /* they were converted and kept */
    MODEL_CACHE_UNUSABLE, /* one is there that does not fit */
    MODEL_CACHE_FAILED    /* they could not be kept: why says so */
};

enum { MODEL_CACHE_PATH_BYTES = 4096 };

struct model_cache_note {
    enum model_cache_state state;
    char path[MODEL_CACHE_PATH_BYTES];
    char why[96];
};

struct model {
    struct model_config config;
    enum model_policy policy;
    char name[MODEL_NAME_BYTES_MAX]; /* general.name, else the file's name */
    char sha256[65];                 /* of the file, lower-case hex */
    struct weight embedding;         /* [V, D] */
    struct weight *head;             /* [V, D]; &embedding when tied */
    struct weight head_storage;
    struct head_sketch sketch; /* of the head; weight.packed NULL = none */
    const float *final_norm;   /* f32 [D], device */
    struct model_layer *layers;
    const float *cos_table, *sin_table; /* f32 [max_model_len, rotary_dims / 2], device */
    uint32_t max_model_len;             /* positions the tables reach */
    struct kv_form kv;
    struct tokenizer *tokenizer; /* owned */
    struct chat_template chat;   /* kind CHAT_TEMPLATE_NONE when the file has none */
    struct model_plan plan;
    struct model_cache_note cache;
    struct device *device; /* borrowed */
    void *memory;          /* owned: see model.c */
};

struct model_options {
    const char *path;
    enum model_policy policy;
    uint32_t max_model_len; /* 0: min(4096, the model's); beyond the model's is MODEL_BAD_OPTION */
    const uint32_t *row_buckets; /* ascending; for weight_prepare */
    uint32_t row_bucket_count;
    bool cache_beside;        /* keep packed weights beside the file */
    const char *cache_folder; /* keep them there where that cannot be done; NULL = nowhere */
    bool head_sketch_off;     /* no INT8 copy of the head, even where the back end would use it */
};

/* On MODEL_OK *out is the caller's. Otherwise err names the file and what is wrong in it. */
enum model_status model_open(const struct model_options *options, struct device *device,
                             struct model **out, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));
void model_close(struct model *model); /* accepts NULL */

/* Reads only headers: configuration and plan of a file under a policy, for `solfleet model`. */
enum model_status model_describe(const struct model_options *options, const struct kernel_ops *ops,
                                 struct model_config *config, struct model_plan *plan, char *err,
                                 size_t err_bytes) __attribute__((warn_unused_result));

/* What a file says it is. */
struct model_identity {
    char name[MODEL_NAME_BYTES_MAX];
    char sha256[65];
    uint64_t file_bytes;
    char formats[256];            /* how its tensors are stored: "210 Q4_1, 61 F32, 1 Q8_0" */
    enum chat_template_kind chat; /* CHAT_TEMPLATE_NONE: it has no template */
};

/* Reads the whole file for its hash, and opens and closes its tokenizer and template. */
enum model_status model_identify(const char *path, struct model_identity *identity, char *err,
                                 size_t err_bytes) __attribute__((warn_unused_result));

/* Share of the block linears' multiply-adds that run in INT8 under the model's policy, percent. */
double model_int8_share_percent(const struct model *model);

#endif
