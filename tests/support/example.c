#include "tests/support/example.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

char *example_read(const char *name) {
    char path[256];
    char *text = NULL;
    size_t capacity = 0;
    snprintf(path, sizeof path, "schemas/v1/examples/%s", name);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        fail_msg("%s cannot be read", path);
    }
    assert_true(getdelim(&text, &capacity, '\n', file) > 0);
    fclose(file);
    text[strcspn(text, "\n")] = '\0';
    return text;
}
