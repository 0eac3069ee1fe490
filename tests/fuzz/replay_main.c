#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>

/* Replays one corpus file a path argument. The input is copied to a block of exactly its size, so
 * that a read past its end is seen by a sanitizer. */
static int replay_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return 1;
    }
    fseek(file, 0, SEEK_END);
    size_t data_bytes = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = malloc(data_bytes ? data_bytes : 1);
    size_t got = data ? fread(data, 1, data_bytes, file) : 0;
    fclose(file);
    if (got != data_bytes) {
        free(data);
        fprintf(stderr, "%s: short read\n", path);
        return 1;
    }
    fprintf(stderr, "%s\n", path); /* the last line names the culprit of a crash */
    LLVMFuzzerTestOneInput(data, data_bytes);
    free(data);
    return 0;
}

int main(int argc, char **argv) {
    int failed = 0;
    for (int i = 1; i < argc; i++) {
        failed |= replay_file(argv[i]);
    }
    return failed;
}
