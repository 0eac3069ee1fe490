#include "kernels/cpu_features.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* Whether the system saves the 256-bit registers (XCR0 bits 1 and 2). */
static bool cpu_features_saves_ymm(void) {
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & 6u) == 6u;
}

static void cpu_features_append(char *names, size_t names_bytes, bool has, const char *name) {
    if (!has) {
        size_t used = strlen(names);
        snprintf(names + used, names_bytes - used, "%s%s", used > 0 ? ", " : "", name);
    }
}

void cpu_features_missing(char *names, size_t names_bytes) {
    unsigned eax, ebx, ecx = 0, edx, ebx7 = 0, ecx7;
    names[0] = '\0';
    bool known = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0;
    bool ymm = known && (ecx & bit_OSXSAVE) != 0 && cpu_features_saves_ymm();
    known = known && __get_cpuid_count(7, 0, &eax, &ebx7, &ecx7, &edx) != 0;
    cpu_features_append(names, names_bytes, ymm && known && (ebx7 & bit_AVX2) != 0, "avx2");
    cpu_features_append(names, names_bytes, ymm && (ecx & bit_FMA) != 0, "fma");
    cpu_features_append(names, names_bytes, ymm && (ecx & bit_F16C) != 0, "f16c");
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

void cpu_features_missing(char *names, size_t names_bytes) {
    (void)names_bytes;
    names[0] = '\0';
}

void cpu_features_name(char *name, size_t name_bytes) {
    snprintf(name, name_bytes, "CPU");
}

#endif
