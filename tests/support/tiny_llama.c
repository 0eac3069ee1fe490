#include "tests/support/tiny_llama.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/block_writer.h"
#include "tests/support/test.h"

/* "left right", in the tokens' own spelling (a space is "\xC4\xA0"); each makes the next token. */
static const char *const tiny_llama_merges[] = {
    "\xC4\xA0 t",
    "h e",
    "\xC4\xA0t he",
    "i n",
    "\xC4\xA0 a",
    "e r",
    "a n",
    "o n",
    "r e",
    "\xC4\xA0 s",
    "\xC4\xA0 i",
    "in g",
    "o r",
    "\xC4\xA0 f",
    "e n",
    "\xC4\xA0 o",
    "a t",
    "\xC4\xA0 w",
    "e s",
    "t i",
    "\xC4\xA0 c",
    "\xC4\xA0 =",
    "d e",
    "\xC4\xA0 b",
    "f or",
    "\xC4\x8A \xC4\x8A",
    "\xC4\xA0 \xC4\xA0",
    "re t",
    "u r",
    "ret ur",
    "retur n",
    "ti on",
    "s t",
    "l e",
    "a r",
    "\xC4\xA0o f",
    "\xC4\xA0i s",
    "\xC4\xA0i n",
};

enum {
    TINY_LLAMA_MERGES = sizeof tiny_llama_merges / sizeof tiny_llama_merges[0],
    TINY_LLAMA_VOCABULARY = TINY_LLAMA_FIRST_MERGE + TINY_LLAMA_MERGES,
    TINY_LLAMA_ALIGNMENT = 32,
    TINY_LLAMA_TENSORS_MAX = 64,
};

static const char tiny_llama_template[] =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' "
    "}}{% endif %}";

uint32_t tiny_llama_vocabulary(void) {
    return TINY_LLAMA_VOCABULARY;
}

static struct tiny_llama_options tiny_llama_resolve(const struct tiny_llama_options *options) {
    struct tiny_llama_options all = options != NULL ? *options : (struct tiny_llama_options){0};
    all.context_tokens = all.context_tokens ? all.context_tokens : 1024;
    all.layers = all.layers ? all.layers : 2;
    all.heads = all.heads ? all.heads : 4;
    all.kv_heads = all.kv_heads ? all.kv_heads : 2;
    all.head_dim = all.head_dim ? all.head_dim : 16;
    all.ffn_dim = all.ffn_dim ? all.ffn_dim : 96;
    return all;
}

/* ---------------------------------------------------------------- text */

/* A byte's letter in byte-level BPE: itself where it is printable, else the next free one from
 * U+0100 on. Writes at most two bytes and a NUL. */
static void tiny_llama_spell_byte(uint32_t byte, char out[3]) {
    uint32_t code = 0x100, letter = byte;
    for (uint32_t b = 0; b <= byte; b++) {
        bool is_plain = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        letter = is_plain ? b : code++;
    }
    if (letter < 0x80) {
        snprintf(out, 3, "%c", (int)letter);
    } else {
        snprintf(out, 3, "%c%c", (int)(0xC0 | letter >> 6), (int)(0x80 | (letter & 0x3F)));
    }
}

static void tiny_llama_text(const struct tiny_llama_options *options, struct gguf_writer *writer) {
    static char spelled[TINY_LLAMA_VOCABULARY][32];
    const char *tokens[TINY_LLAMA_VOCABULARY] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    int32_t types[TINY_LLAMA_VOCABULARY];
    for (uint32_t i = 0; i < TINY_LLAMA_VOCABULARY; i++) {
        types[i] = i < TINY_LLAMA_FIRST_BYTE ? 3 : 1; /* control, normal */
        if (i >= TINY_LLAMA_FIRST_MERGE) {
            const char *merge = tiny_llama_merges[i - TINY_LLAMA_FIRST_MERGE];
            int left = (int)strcspn(merge, " ");
            snprintf(spelled[i], sizeof spelled[i], "%.*s%s", left, merge, merge + left + 1);
        } else if (i >= TINY_LLAMA_FIRST_BYTE) {
            tiny_llama_spell_byte(i - TINY_LLAMA_FIRST_BYTE, spelled[i]);
        }
        tokens[i] = i < TINY_LLAMA_FIRST_BYTE ? tokens[i] : spelled[i];
    }
    gguf_writer_key_string(writer, "tokenizer.ggml.model", "gpt2");
    gguf_writer_key_string(writer, "tokenizer.ggml.pre", "smollm");
    gguf_writer_key_strings(writer, "tokenizer.ggml.tokens", tokens, TINY_LLAMA_VOCABULARY);
    gguf_writer_key_i32s(writer, "tokenizer.ggml.token_type", types, TINY_LLAMA_VOCABULARY);
    gguf_writer_key_strings(writer, "tokenizer.ggml.merges", tiny_llama_merges, TINY_LLAMA_MERGES);
    gguf_writer_key_u32(writer, "tokenizer.ggml.bos_token_id", TINY_LLAMA_IM_START);
    gguf_writer_key_u32(writer, "tokenizer.ggml.eos_token_id", TINY_LLAMA_IM_END);
    gguf_writer_key_bool(writer, "tokenizer.ggml.add_bos_token", false);
    if (!options->no_template) {
        gguf_writer_key_string(writer, "tokenizer.chat_template", tiny_llama_template);
    }
}

enum { TINY_LLAMA_TEXT_KEYS = 8 }; /* without the template */

/* ---------------------------------------------------------------- tensors */

struct tiny_llama_tensor {
    char name[64];
    uint32_t columns, rows; /* rows 0: a vector */
    const struct block_format *format;
    float mean, spread;
    bool is_vocabulary; /* its first rows are those of the control tokens */
    uint64_t offset;
};

struct tiny_llama_tensors {
    struct tiny_llama_tensor list[TINY_LLAMA_TENSORS_MAX];
    size_t count;
    uint64_t data_bytes;
};

static void tiny_llama_add(struct tiny_llama_tensors *tensors, const char *name, uint32_t columns,
                           uint32_t rows, uint32_t format, float mean, float spread) {
    assert(tensors->count < TINY_LLAMA_TENSORS_MAX);
    struct tiny_llama_tensor *tensor = &tensors->list[tensors->count++];
    const struct block_format *block = block_format_find(rows > 0 ? format : BLOCK_FORMAT_F32);
    assert(columns % block->elements == 0);
    snprintf(tensor->name, sizeof tensor->name, "%s.weight", name);
    tensor->columns = columns;
    tensor->rows = rows;
    tensor->format = block;
    tensor->mean = mean;
    tensor->spread = spread;
    tensor->offset = tensors->data_bytes;
    uint64_t bytes = (uint64_t)columns / block->elements * block->bytes * (rows > 0 ? rows : 1);
    tensors->data_bytes +=
        (bytes + TINY_LLAMA_ALIGNMENT - 1) / TINY_LLAMA_ALIGNMENT * TINY_LLAMA_ALIGNMENT;
}

static void tiny_llama_add_block(struct tiny_llama_tensors *tensors,
                                 const struct tiny_llama_options *o, uint32_t layer) {
    uint32_t dim = o->heads * o->head_dim, key_dim = o->kv_heads * o->head_dim;
    float wide = 1.0f / sqrtf((float)dim), narrow = 1.0f / sqrtf((float)o->ffn_dim);
    const struct {
        const char *name;
        uint32_t columns, rows;
        float mean, spread;
    } parts[] = {
        {"attn_norm", dim, 0, 1.0f, 0.1f},
        {"attn_q", dim, dim, 0.0f, 2.0f * wide}, /* so that attention has favourites */
        {"attn_k", dim, key_dim, 0.0f, 2.0f * wide},
        {"attn_v", dim, key_dim, 0.0f, wide},
        {"attn_output", dim, dim, 0.0f, wide},
        {"ffn_norm", dim, 0, 1.0f, 0.1f},
        {"ffn_gate", dim, o->ffn_dim, 0.0f, 2.0f * wide},
        {"ffn_up", dim, o->ffn_dim, 0.0f, wide},
        {"ffn_down", o->ffn_dim, dim, 0.0f, narrow},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char name[48];
        snprintf(name, sizeof name, "blk.%u.%s", layer, parts[i].name);
        tiny_llama_add(tensors, name, parts[i].columns, parts[i].rows, o->format, parts[i].mean,
                       parts[i].spread);
    }
}

static void tiny_llama_list(const struct tiny_llama_options *o,
                            struct tiny_llama_tensors *tensors) {
    uint32_t dim = o->heads * o->head_dim;
    float spread = 3.0f / sqrtf((float)dim); /* of logits, about 3 */
    tiny_llama_add(tensors, "token_embd", dim, TINY_LLAMA_VOCABULARY, o->format, 0.0f, spread);
    tensors->list[0].is_vocabulary = true;
    for (uint32_t layer = 0; layer < o->layers; layer++) {
        tiny_llama_add_block(tensors, o, layer);
    }
    tiny_llama_add(tensors, "output_norm", dim, 0, 0, 1.0f, 0.1f);
    if (o->untied) {
        tiny_llama_add(tensors, "output", dim, TINY_LLAMA_VOCABULARY, o->format, 0.0f, spread);
        tensors->list[tensors->count - 1].is_vocabulary = true;
    }
}

/* About normal: the sum of twelve uniform variables has variance 1. */
static float tiny_llama_normal(uint64_t *state) {
    float sum = -6.0f;
    for (int i = 0; i < 12; i++) {
        sum += (float)(test_random(state) >> 40) * 0x1p-24f;
    }
    return sum;
}

static void tiny_llama_data(struct gguf_writer *writer, const struct tiny_llama_tensor *tensor,
                            uint64_t *random) {
    float row[1024];
    assert(tensor->columns <= sizeof row / sizeof row[0]);
    for (uint32_t r = 0; r < (tensor->rows > 0 ? tensor->rows : 1); r++) {
        bool is_control = tensor->is_vocabulary && r < TINY_LLAMA_FIRST_BYTE;
        for (uint32_t i = 0; i < tensor->columns; i++) {
            float value = tensor->mean + tensor->spread * tiny_llama_normal(random);
            row[i] = is_control ? 0.0f : value;
        }
        block_writer_row(writer, tensor->format, row, tensor->columns);
    }
    gguf_writer_align(writer, TINY_LLAMA_ALIGNMENT);
}

/* ---------------------------------------------------------------- the file */

enum { TINY_LLAMA_SIZE_KEYS = 11 };

static void tiny_llama_sizes(const struct tiny_llama_options *o, struct gguf_writer *writer) {
    gguf_writer_key_string(writer, "general.architecture", "llama");
    gguf_writer_key_string(writer, "general.name", "Tiny random Llama");
    gguf_writer_key_u32(writer, "llama.block_count", o->layers);
    gguf_writer_key_u32(writer, "llama.context_length", o->context_tokens);
    gguf_writer_key_u32(writer, "llama.embedding_length", o->heads * o->head_dim);
    gguf_writer_key_u32(writer, "llama.feed_forward_length", o->ffn_dim);
    gguf_writer_key_u32(writer, "llama.attention.head_count", o->heads);
    gguf_writer_key_u32(writer, "llama.attention.head_count_kv", o->kv_heads);
    gguf_writer_key_f32(writer, "llama.rope.freq_base", 10000.0f);
    gguf_writer_key_f32(writer, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    gguf_writer_key_u32(writer, "llama.vocab_size", TINY_LLAMA_VOCABULARY);
}

void tiny_llama_build(const struct tiny_llama_options *options, struct gguf_writer *writer) {
    struct tiny_llama_options all = tiny_llama_resolve(options);
    struct tiny_llama_tensors tensors = {.count = 0};
    uint64_t random = all.seed;
    tiny_llama_list(&all, &tensors);
    gguf_writer_header(writer, tensors.count,
                       TINY_LLAMA_SIZE_KEYS + TINY_LLAMA_TEXT_KEYS + (all.no_template ? 0u : 1u) +
                           all.extra_key_count);
    tiny_llama_sizes(&all, writer);
    tiny_llama_text(&all, writer);
    if (all.add_keys != NULL) {
        all.add_keys(writer);
    }
    for (size_t i = 0; i < tensors.count; i++) {
        const struct tiny_llama_tensor *tensor = &tensors.list[i];
        gguf_writer_tensor(writer, tensor->name, tensor->columns, tensor->rows,
                           tensor->format->number, tensor->offset);
    }
    gguf_writer_align(writer, TINY_LLAMA_ALIGNMENT);
    for (size_t i = 0; i < tensors.count && !all.no_data; i++) {
        tiny_llama_data(writer, &tensors.list[i], &random);
    }
}

char *tiny_llama_write(const struct tiny_llama_options *options) {
    static unsigned number;
    char name[64];
    struct gguf_writer writer = {0};
    snprintf(name, sizeof name, "tiny-llama-%u.gguf", number++);
    tiny_llama_build(options, &writer);
    char *path = gguf_writer_save(&writer, name);
    gguf_writer_deinit(&writer);
    return path;
}
