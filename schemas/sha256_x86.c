#include "schemas/sha256_blocks.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <sys/platform/x86.h>

/* glibc asked the processor when the program started; asking again would be a trap to the
 * hypervisor on a virtual machine, which costs more than the hash of a job. */
bool sha256_x86_usable(void) {
    return CPU_FEATURE_ACTIVE(SHA) && CPU_FEATURE_ACTIVE(SSE4_1) && CPU_FEATURE_ACTIVE(SSSE3);
}

/* The instructions want the state as (a, b, e, f) and (c, d, g, h), highest word first. */
struct halves {
    __m128i abef, cdgh;
};

__attribute__((target("sha,sse4.1,ssse3"))) static struct halves
load_state(const uint32_t state[8]) {
    const __m128i abcd = _mm_loadu_si128((const __m128i *)(const void *)state);
    const __m128i efgh = _mm_loadu_si128((const __m128i *)(const void *)(state + 4));
    const __m128i badc = _mm_shuffle_epi32(abcd, 0xB1);
    const __m128i hgfe = _mm_shuffle_epi32(efgh, 0x1B);
    return (struct halves){_mm_alignr_epi8(badc, hgfe, 8), _mm_blend_epi16(hgfe, badc, 0xF0)};
}

__attribute__((target("sha,sse4.1,ssse3"))) static void store_state(struct halves s,
                                                                    uint32_t state[8]) {
    const __m128i feba = _mm_shuffle_epi32(s.abef, 0x1B);
    const __m128i dchg = _mm_shuffle_epi32(s.cdgh, 0xB1);
    _mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(feba, dchg, 0xF0));
    _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

__attribute__((target("sha,sse4.1,ssse3"))) static struct halves add_block(struct halves s,
                                                                           const uint8_t *block) {
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    const struct halves before = s;
    __m128i w[4]; /* the last sixteen words of the schedule */
    for (int i = 0; i < 16; i++) {
        if (i < 4) {
            w[i] = _mm_shuffle_epi8(
                _mm_loadu_si128((const __m128i *)(const void *)(block + 16 * i)), big_endian);
        } else {
            const __m128i last = w[(i + 3) % 4];
            const __m128i sums = _mm_add_epi32(_mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]),
                                               _mm_alignr_epi8(last, w[(i + 2) % 4], 4));
            w[i % 4] = _mm_sha256msg2_epu32(sums, last);
        }
        const __m128i constants =
            _mm_loadu_si128((const __m128i *)(const void *)(sha256_blocks_constants + 4 * i));
        const __m128i terms = _mm_add_epi32(w[i % 4], constants);
        s.cdgh = _mm_sha256rnds2_epu32(s.cdgh, s.abef, terms);
        s.abef = _mm_sha256rnds2_epu32(s.abef, s.cdgh, _mm_shuffle_epi32(terms, 0x0E));
    }
    return (struct halves){_mm_add_epi32(s.abef, before.abef), _mm_add_epi32(s.cdgh, before.cdgh)};
}

__attribute__((target("sha,sse4.1,ssse3"))) void
sha256_x86_blocks(uint32_t state[8], const uint8_t *bytes, size_t block_count) {
    struct halves s = load_state(state);
    for (size_t i = 0; i < block_count; i++) {
        s = add_block(s, bytes + i * SHA256_BLOCK_BYTES);
    }
    store_state(s, state);
}

#else

bool sha256_x86_usable(void) {
    return false;
}

void sha256_x86_blocks(uint32_t state[8], const uint8_t *bytes, size_t block_count) {
    sha256_blocks(state, bytes, block_count);
}

#endif
