#include "tests/fuzz/fuzz.h"

#include <stdio.h>

#include "engine/gguf.h"
#include "engine/model_config.h"
#include "engine/model_text.h"

/* The first and the last row of every tensor, as the loader reads them. */
static void read_rows(const struct gguf *gguf) {
    static float row[KERNELS_K_MAX]; /* no checked tensor is wider */
    for (size_t i = 0; i < gguf_tensor_count(gguf); i++) {
        const struct gguf_tensor *tensor = gguf_tensor_at(gguf, i);
        size_t columns = (size_t)tensor->dims[0], rows = (size_t)tensor->dims[1];
        size_t row_bytes = tensor->bytes / rows;
        block_format_read_row(tensor->format, tensor->data, columns, row);
        block_format_read_row(tensor->format, tensor->data + (rows - 1) * row_bytes, columns, row);
    }
}

/* A file through everything that is checked before it is loaded: the container, the configuration,
 * the tensors' shapes, tokenizer and chat template; and a look at the weights. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_bytes) {
    char err[512];
    struct gguf *gguf;
    struct model_config config;
    if (gguf_parse(data, data_bytes, &gguf, err, sizeof err) != GGUF_OK) {
        return 0;
    }
    if (model_config_read(gguf, &config, err, sizeof err) &&
        model_config_check_tensors(gguf, &config, err, sizeof err)) {
        read_rows(gguf);
        char name[MODEL_NAME_BYTES_MAX];
        model_text_name(gguf, "fuzz.gguf", name, sizeof name);
        struct tokenizer *tokenizer;
        struct chat_template chat;
        if (model_text_open(gguf, config.vocabulary, &tokenizer, &chat, err, sizeof err) ==
            MODEL_OK) {
            tokenizer_close(tokenizer);
        }
    }
    gguf_close(gguf);
    return 0;
}
