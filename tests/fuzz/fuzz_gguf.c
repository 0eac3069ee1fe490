#include "tests/fuzz/fuzz.h"

#include <stdio.h>

#include "engine/gguf.h"
#include "engine/model_config.h"
#include "engine/model_text.h"

/* A file through everything that is checked before weights are read: the container, the
 * configuration, the tensors' shapes, tokenizer and chat template. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_bytes) {
    char err[512];
    struct gguf *gguf;
    struct model_config config;
    if (gguf_parse(data, data_bytes, &gguf, err, sizeof err) != GGUF_OK) {
        return 0;
    }
    if (model_config_read(gguf, &config, err, sizeof err) &&
        model_config_check_tensors(gguf, &config, err, sizeof err)) {
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
