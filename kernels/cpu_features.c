#include "kernels/cpu_features.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* ---------------------------------------------------------------- instruction sets */

#define CPU_FEATURES_YMM 0x06u /* XCR0: SSE and AVX state */
#define CPU_FEATURES_ZMM 0xE6u /* and masks, upper halves, upper sixteen registers */

struct cpu_features_bit {
    const char *name;
    size_t offset; /* of its register in struct cpu_features */
    uint32_t bit;
    uint32_t state; /* of XCR0 */
    enum cpu_features_set set;
};

#define CPU_FEATURES_IN(leaf) offsetof(struct cpu_features, leaf)

static const struct cpu_features_bit cpu_features_bits[] = {
    {"avx2", CPU_FEATURES_IN(leaf7_ebx), 1u << 5, CPU_FEATURES_YMM, CPU_FEATURES_AVX2},
    {"fma", CPU_FEATURES_IN(leaf1_ecx), 1u << 12, CPU_FEATURES_YMM, CPU_FEATURES_AVX2},
    {"f16c", CPU_FEATURES_IN(leaf1_ecx), 1u << 29, CPU_FEATURES_YMM, CPU_FEATURES_AVX2},
    {"avx512f", CPU_FEATURES_IN(leaf7_ebx), 1u << 16, CPU_FEATURES_ZMM, CPU_FEATURES_AVX512},
    {"avx512dq", CPU_FEATURES_IN(leaf7_ebx), 1u << 17, CPU_FEATURES_ZMM, CPU_FEATURES_AVX512},
    {"avx512bw", CPU_FEATURES_IN(leaf7_ebx), 1u << 30, CPU_FEATURES_ZMM, CPU_FEATURES_AVX512},
    {"avx512vl", CPU_FEATURES_IN(leaf7_ebx), 1u << 31, CPU_FEATURES_ZMM, CPU_FEATURES_AVX512},
    {"avx512_vnni", CPU_FEATURES_IN(leaf7_ecx), 1u << 11, CPU_FEATURES_ZMM, CPU_FEATURES_AVX512},
};

static bool cpu_features_has(const struct cpu_features *features,
                             const struct cpu_features_bit *what) {
    uint32_t word;
    memcpy(&word, (const char *)features + what->offset, sizeof word);
    return (word & what->bit) != 0 && (features->xcr0 & what->state) == what->state;
}

void cpu_features_missing(const struct cpu_features *features, enum cpu_features_set set,
                          char *names, size_t names_bytes) {
    names[0] = '\0';
    for (size_t i = 0; i < sizeof cpu_features_bits / sizeof cpu_features_bits[0]; i++) {
        const struct cpu_features_bit *what = &cpu_features_bits[i];
        if (what->set <= set && !cpu_features_has(features, what)) {
            size_t used = strlen(names);
            snprintf(names + used, names_bytes - used, "%s%s", used > 0 ? ", " : "", what->name);
        }
    }
}

/* ---------------------------------------------------------------- this processor */

#if defined(__x86_64__)

static uint32_t cpu_features_xcr0(void) {
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

struct cpu_features cpu_features_read(void) {
    struct cpu_features features = {0};
    unsigned eax, ebx, edx;
    if (__get_cpuid(1, &eax, &ebx, &features.leaf1_ecx, &edx) == 0) {
        return features;
    }
    if ((features.leaf1_ecx & bit_OSXSAVE) != 0) {
        features.xcr0 = cpu_features_xcr0();
    }
    if (__get_cpuid_count(7, 0, &eax, &features.leaf7_ebx, &features.leaf7_ecx, &edx) == 0) {
        features.leaf7_ebx = features.leaf7_ecx = 0;
    }
    return features;
}

void cpu_features_name(char *name, size_t name_bytes) {
    unsigned words[12] = {0};
    char brand[sizeof words + 1] = {0};
    for (unsigned i = 0; i < 3; i++) {
        unsigned *w = words + (size_t)4 * i;
        if (__get_cpuid(0x80000002u + i, &w[0], &w[1], &w[2], &w[3]) == 0) {
            break;
        }
    }
    memcpy(brand, words, sizeof words);
    const char *begin = brand + strspn(brand, " ");
    snprintf(name, name_bytes, "%s", begin[0] != '\0' ? begin : "x86-64");
}

#else

struct cpu_features cpu_features_read(void) {
    return (struct cpu_features){0};
}

void cpu_features_name(char *name, size_t name_bytes) {
    snprintf(name, name_bytes, "CPU");
}

#endif
