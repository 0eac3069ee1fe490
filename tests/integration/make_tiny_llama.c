/* Writes the tiny random Llama of tests/support to standard output, for workers under test. */
#include <stdio.h>

#include "tests/support/tiny_llama.h"

int main(void) {
    struct gguf_writer writer = {0};
    const struct tiny_llama_options options = {.seed = 7};
    tiny_llama_build(&options, &writer);
    size_t written = fwrite(writer.bytes, 1, writer.size, stdout);
    int failed = written != writer.size || fclose(stdout) != 0;
    gguf_writer_deinit(&writer);
    return failed;
}
