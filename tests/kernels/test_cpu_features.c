/* What is said of the processor, against what the kernel says of it. */
#include "tests/support/test.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cpu_features.h"

/* The first line of /proc/cpuinfo that begins with `field`; false where there is none. */
static bool cpuinfo(const char *field, char *line, size_t line_bytes) {
    FILE *file = fopen("/proc/cpuinfo", "r");
    bool found = false;
    while (file != NULL && !found && fgets(line, (int)line_bytes, file) != NULL) {
        found = strncmp(line, field, strlen(field)) == 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}

static void misses_what_the_kernel_does_not_list(void **state) {
    char flags[8192], missing[64];
    cpu_features_missing(missing, sizeof missing);
    if (!cpuinfo("flags", flags, sizeof flags)) {
        assert_string_equal(missing, ""); /* not x86-64 */
        return;
    }
    flags[strcspn(flags, "\n")] = ' ';
    const char *const needed[] = {"avx2", "fma", "f16c"};
    for (size_t i = 0; i < 3; i++) {
        char word[16];
        snprintf(word, sizeof word, " %s ", needed[i]);
        assert_true((strstr(flags, word) == NULL) == (strstr(missing, needed[i]) != NULL));
    }
}

static void gives_the_processor_its_name(void **state) {
    char name[128], short_name[5], line[256];
    cpu_features_name(name, sizeof name);
    assert_true(strlen(name) > 0 && name[0] != ' ');
    cpu_features_name(short_name, sizeof short_name); /* cut, not overrun */
    assert_true(strlen(short_name) < sizeof short_name);
    if (cpuinfo("model name", line, sizeof line)) {
        assert_non_null(strstr(line, short_name));
    }
}

TEST_MAIN(cmocka_unit_test(misses_what_the_kernel_does_not_list),
          cmocka_unit_test(gives_the_processor_its_name))
