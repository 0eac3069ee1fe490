#include "tests/support/test_file.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

uint8_t *test_file_read(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
    }
    assert(file != NULL);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*size + 1);
    assert(bytes != NULL);
    size_t got = fread(bytes, 1, *size, file);
    assert(got == *size);
    fclose(file);
    bytes[*size] = '\0';
    return bytes;
}
