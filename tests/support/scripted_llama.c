#include "tests/support/scripted_llama.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"

int32_t scripted_token(char byte) {
    return TINY_LLAMA_FIRST_BYTE + (unsigned char)byte;
}

static const struct gguf_tensor *scripted_find(const struct gguf *gguf, const char *name) {
    const struct gguf_tensor *tensor = gguf_find_tensor(gguf, name);
    assert_non_null(tensor);
    return tensor;
}

static float *scripted_floats(const struct gguf_tensor *tensor) {
    return (float *)(uintptr_t)tensor->data; /* in the writer's own bytes */
}

static void scripted_silence(const struct gguf *gguf, const char *format, uint32_t layer) {
    char name[64];
    snprintf(name, sizeof name, format, layer);
    const struct gguf_tensor *tensor = scripted_find(gguf, name);
    memset(scripted_floats(tensor), 0, tensor->dims[0] * tensor->dims[1] * sizeof(float));
}

void scripted_llama_init(struct scripted_llama *model, const struct tiny_llama_options *options) {
    struct tiny_llama_options all = options != NULL ? *options : (struct tiny_llama_options){0};
    struct gguf *gguf = NULL;
    char err[256] = "";
    *model = (struct scripted_llama){.dim = 0};
    all.untied = true;
    all.format = BLOCK_FORMAT_F32;
    tiny_llama_build(&all, &model->writer);
    if (gguf_parse(model->writer.bytes, model->writer.size, &gguf, err, sizeof err) != GGUF_OK) {
        fail_msg("%s", err);
    }
    for (uint32_t layer = 0; layer < (all.layers ? all.layers : 2); layer++) {
        scripted_silence(gguf, "blk.%u.attn_output.weight", layer);
        scripted_silence(gguf, "blk.%u.ffn_down.weight", layer);
    }
    const struct gguf_tensor *embedding = scripted_find(gguf, "token_embd.weight");
    const struct gguf_tensor *head = scripted_find(gguf, "output.weight");
    model->dim = (uint32_t)embedding->dims[0];
    model->vocabulary = (uint32_t)embedding->dims[1];
    model->embedding = scripted_floats(embedding);
    model->head = scripted_floats(head);
    memset(model->head, 0, (size_t)model->dim * model->vocabulary * sizeof(float));
    gguf_close(gguf);
}

void scripted_llama_add(struct scripted_llama *model, int32_t token, int32_t next) {
    assert_in_range(token, TINY_LLAMA_FIRST_BYTE, model->vocabulary - 1); /* the others are zero */
    assert_in_range(next, 0, model->vocabulary - 1);
    const float *from = model->embedding + (size_t)token * model->dim;
    float *to = model->head + (size_t)next * model->dim;
    for (uint32_t i = 0; i < model->dim; i++) {
        to[i] += from[i];
    }
}

void scripted_llama_add_text(struct scripted_llama *model, const char *text) {
    for (; text[0] != '\0' && text[1] != '\0'; text++) {
        scripted_llama_add(model, scripted_token(text[0]), scripted_token(text[1]));
    }
}

char *scripted_llama_save(struct scripted_llama *model, const char *name) {
    char *path = gguf_writer_save(&model->writer, name);
    gguf_writer_deinit(&model->writer);
    return path;
}
