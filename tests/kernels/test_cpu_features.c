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

/* Whether `list` has the word, between commas. */
static bool names(const char *list, const char *word) {
    size_t length = strlen(word);
    for (const char *at = list; at != NULL && *at != '\0'; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

static void misses_what_the_kernel_does_not_list(void **state) {
    char flags[8192], missing[CPU_FEATURES_NAMES_BYTES];
    const struct cpu_features features = cpu_features_read();
    cpu_features_missing(&features, CPU_FEATURES_AVX512, missing, sizeof missing);
    if (!cpuinfo("flags", flags, sizeof flags)) {
        assert_int_equal(features.leaf7_ebx, 0); /* not x86-64 */
        return;
    }
    flags[strcspn(flags, "\n")] = ' ';
    const char *const needed[] = {"avx2",     "fma",      "f16c",     "avx512f",
                                  "avx512dq", "avx512bw", "avx512vl", "avx512_vnni"};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        char word[16];
        snprintf(word, sizeof word, " %s ", needed[i]);
        assert_true((strstr(flags, word) == NULL) == names(missing, needed[i]));
    }
}

#define EVERYTHING \
    { 0xFFFFFFFFu, 0xFFFFFFFFu, 0xFFFFFFFFu, 0xFFFFFFFFu }

static void check_missing(struct cpu_features features, enum cpu_features_set set,
                          const char *wanted) {
    char missing[CPU_FEATURES_NAMES_BYTES];
    cpu_features_missing(&features, set, missing, sizeof missing);
    assert_string_equal(missing, wanted);
}

static void names_what_a_processor_lacks(void **state) {
    const char *const avx2 = "avx2, fma, f16c";
    const char *const avx512 = "avx512f, avx512dq, avx512bw, avx512vl, avx512_vnni";
    char both[CPU_FEATURES_NAMES_BYTES];
    snprintf(both, sizeof both, "%s, %s", avx2, avx512);
    const struct cpu_features everything = EVERYTHING, nothing = {0};
    check_missing(everything, CPU_FEATURES_AVX512, "");
    check_missing(nothing, CPU_FEATURES_NONE, "");
    check_missing(nothing, CPU_FEATURES_AVX2, avx2);
    check_missing(nothing, CPU_FEATURES_AVX512, both);

    struct cpu_features no_vnni = EVERYTHING, no_fma = EVERYTHING, no_bw_vl = EVERYTHING;
    no_vnni.leaf7_ecx &= ~(1u << 11);
    no_fma.leaf1_ecx &= ~(1u << 12);
    no_bw_vl.leaf7_ebx &= ~(3u << 30);
    check_missing(no_vnni, CPU_FEATURES_AVX512, "avx512_vnni");
    check_missing(no_vnni, CPU_FEATURES_AVX2, "");
    check_missing(no_fma, CPU_FEATURES_AVX2, "fma");
    check_missing(no_bw_vl, CPU_FEATURES_AVX512, "avx512bw, avx512vl");

    struct cpu_features ymm_only = EVERYTHING, one_of_zmm = EVERYTHING, no_ymm = EVERYTHING;
    ymm_only.xcr0 = 0x07; /* a system that saves no 512-bit registers */
    one_of_zmm.xcr0 = 0xC7;
    no_ymm.xcr0 = 0x03;
    check_missing(ymm_only, CPU_FEATURES_AVX2, "");
    check_missing(ymm_only, CPU_FEATURES_AVX512, avx512);
    check_missing(one_of_zmm, CPU_FEATURES_AVX512, avx512);
    check_missing(no_ymm, CPU_FEATURES_AVX2, avx2);
}

static void cuts_names_that_do_not_fit(void **state) {
    const struct cpu_features nothing = {0};
    char missing[8];
    cpu_features_missing(&nothing, CPU_FEATURES_AVX512, missing, sizeof missing);
    assert_string_equal(missing, "avx2, f");
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
          cmocka_unit_test(names_what_a_processor_lacks),
          cmocka_unit_test(cuts_names_that_do_not_fit),
          cmocka_unit_test(gives_the_processor_its_name))
