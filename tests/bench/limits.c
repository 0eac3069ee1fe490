#include "tests/bench/limits.h"

#include <immintrin.h>

#define LIMITS_ROUNDS 1000000

/* Statements that the compiler can neither reorder away nor count for us: what is measured is
 * these instructions. Eight chains (twelve where a latency of four is to be filled twice over). */
#define LIMITS_8(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define LIMITS_12(X) LIMITS_8(X) X(8) X(9) X(10) X(11)

__attribute__((target("avx512f,avx512vnni"))) double limits_int8_vnni(void) {
    __m512i sum[12], w = _mm512_set1_epi8(3), x = _mm512_set1_epi8(5);
    for (int i = 0; i < 12; i++) {
        sum[i] = _mm512_setzero_si512();
    }
    for (int i = 0; i < LIMITS_ROUNDS; i++) {
#define LIMITS_STEP(j) __asm__ volatile("vpdpbusd %1, %2, %0" : "+v"(sum[j]) : "v"(w), "v"(x));
        LIMITS_12(LIMITS_STEP)
#undef LIMITS_STEP
    }
    return 2.0 * 12 * 64 * LIMITS_ROUNDS;
}

#define LIMITS_INT8(name, first)                                          \
    __attribute__((target("avx2"))) double name(void) {                   \
        __m256i sum[8], w = _mm256_set1_epi8(3), x = _mm256_set1_epi8(5); \
        const __m256i magnitude = w, one = _mm256_set1_epi16(1);          \
        for (int i = 0; i < 8; i++) {                                     \
            sum[i] = _mm256_setzero_si256();                              \
        }                                                                 \
        for (int i = 0; i < LIMITS_ROUNDS; i++) {                         \
            LIMITS_8(first)                                               \
        }                                                                 \
        return 2.0 * 8 * 32 * LIMITS_ROUNDS;                              \
    }

#define LIMITS_BYTES(op, j)                                                                   \
    {                                                                                         \
        __m256i t;                                                                            \
        __asm__ volatile(op " %2, %3, %0\n\tvpmaddubsw %0, %4, %0\n\tvpmaddwd %5, %0, %0\n\t" \
                            "vpaddd %0, %1, %1"                                               \
                         : "=&x"(t), "+x"(sum[j])                                             \
                         : "x"(w), "x"(x), "x"(magnitude), "x"(one));                         \
    }
#define LIMITS_SIGN(j) LIMITS_BYTES("vpsignb", j)
#define LIMITS_XOR(j) LIMITS_BYTES("vpxor", j)
#define LIMITS_WIDE(j)                                                  \
    {                                                                   \
        __m256i t;                                                      \
        __asm__ volatile("vpmaddwd %2, %3, %0\n\tvpaddd %0, %1, %1\n\t" \
                         "vpmaddwd %4, %5, %0\n\tvpaddd %0, %1, %1"     \
                         : "=&x"(t), "+x"(sum[j])                       \
                         : "x"(w), "x"(x), "x"(magnitude), "x"(one));   \
    }
LIMITS_INT8(limits_int8_sign, LIMITS_SIGN)
LIMITS_INT8(limits_int8_xor, LIMITS_XOR)
LIMITS_INT8(limits_int8_wide, LIMITS_WIDE)

/* A round is four steps, so a quarter as many. */
__attribute__((target("avx2"))) double limits_int8_group(void) {
    __m256i sum[6], w = _mm256_set1_epi8(3), x = _mm256_set1_epi8(5);
    const __m256i one = _mm256_set1_epi16(1);
    for (int i = 0; i < 6; i++) {
        sum[i] = _mm256_setzero_si256();
    }
    for (int i = 0; i < LIMITS_ROUNDS / 4; i++) {
        __m256i pairs[6], t;
        for (int j = 0; j < 6; j++) {
            __asm__ volatile("vpmaddubsw %1, %2, %0" : "=x"(pairs[j]) : "x"(w), "x"(x));
        }
        for (int step = 1; step < 4; step++) {
            for (int j = 0; j < 6; j++) {
                __asm__ volatile("vpmaddubsw %2, %3, %0\n\tvpaddw %0, %1, %1"
                                 : "=&x"(t), "+x"(pairs[j])
                                 : "x"(w), "x"(x));
            }
        }
        for (int j = 0; j < 6; j++) {
            __asm__ volatile("vpmaddwd %2, %1, %1\n\tvpaddd %1, %0, %0"
                             : "+x"(sum[j]), "+x"(pairs[j])
                             : "x"(one));
        }
    }
    return 2.0 * 6 * 4 * 32 * (LIMITS_ROUNDS / 4);
}

__attribute__((target("avx2,fma"))) double limits_fma_256(void) {
    __m256 sum[12], w = _mm256_set1_ps(1.5f), x = _mm256_setzero_ps();
    for (int i = 0; i < 12; i++) {
        sum[i] = _mm256_setzero_ps();
    }
    for (int i = 0; i < LIMITS_ROUNDS; i++) {
#define LIMITS_STEP(j) __asm__ volatile("vfmadd231ps %1, %2, %0" : "+x"(sum[j]) : "x"(w), "x"(x));
        LIMITS_12(LIMITS_STEP)
#undef LIMITS_STEP
    }
    return 2.0 * 12 * 8 * LIMITS_ROUNDS;
}

__attribute__((target("avx512f"))) double limits_fma_512(void) {
    __m512 sum[12], w = _mm512_set1_ps(1.5f), x = _mm512_setzero_ps();
    for (int i = 0; i < 12; i++) {
        sum[i] = _mm512_setzero_ps();
    }
    for (int i = 0; i < LIMITS_ROUNDS; i++) {
#define LIMITS_STEP(j) __asm__ volatile("vfmadd231ps %1, %2, %0" : "+v"(sum[j]) : "v"(w), "v"(x));
        LIMITS_12(LIMITS_STEP)
#undef LIMITS_STEP
    }
    return 2.0 * 12 * 16 * LIMITS_ROUNDS;
}

__attribute__((target("avx2"))) double limits_read(const void *memory, size_t bytes) {
    const __m256i *at = memory;
    __m256i sum[4] = {_mm256_setzero_si256()};
    for (size_t i = 0; i < bytes / sizeof *at; i += 4) {
        for (size_t j = 0; j < 4; j++) {
            sum[j] = _mm256_xor_si256(sum[j], _mm256_load_si256(at + i + j));
        }
    }
    for (size_t j = 0; j < 4; j++) {
        __asm__ volatile("" : : "x"(sum[j])); /* somebody might need it */
    }
    return (double)bytes;
}
