#include "schemas/sha256.h"

#include <string.h>

#include "schemas/sha256_blocks.h"

static void store_be32(uint8_t *bytes, uint32_t x) {
    bytes[0] = (uint8_t)(x >> 24);
    bytes[1] = (uint8_t)(x >> 16);
    bytes[2] = (uint8_t)(x >> 8);
    bytes[3] = (uint8_t)x;
}

static void compress(uint32_t state[8], const uint8_t *bytes, size_t block_count) {
    if (sha256_x86_usable()) {
        sha256_x86_blocks(state, bytes, block_count);
    } else {
        sha256_blocks(state, bytes, block_count);
    }
}

void sha256_init(struct sha256 *hash) {
    *hash = (struct sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                      0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void sha256_update(struct sha256 *hash, const void *bytes, size_t size) {
    const uint8_t *in = bytes;
    const size_t held = hash->total_bytes % sizeof hash->block;
    hash->total_bytes += size;
    if (held > 0) {
        const size_t room = sizeof hash->block - held;
        const size_t taken = size < room ? size : room;
        if (taken == 0) {
            return;
        }
        memcpy(hash->block + held, in, taken);
        if (taken < room) {
            return;
        }
        compress(hash->state, hash->block, 1);
        in += taken;
        size -= taken;
    }
    const size_t whole = size / sizeof hash->block;
    if (whole > 0) {
        compress(hash->state, in, whole);
    }
    const size_t rest = size % sizeof hash->block;
    if (rest > 0) {
        memcpy(hash->block, in + (size - rest), rest);
    }
}

void sha256_finish(struct sha256 *hash, uint8_t digest[SHA256_BYTES]) {
    static const uint8_t padding[64] = {0x80};
    const uint64_t bits = hash->total_bytes * 8;
    const size_t held = hash->total_bytes % sizeof hash->block;
    uint8_t length[8];
    store_be32(length, (uint32_t)(bits >> 32));
    store_be32(length + 4, (uint32_t)bits);
    sha256_update(hash, padding, held < 56 ? 56 - held : 120 - held);
    sha256_update(hash, length, sizeof length);
    for (int i = 0; i < 8; i++) {
        store_be32(digest + 4 * i, hash->state[i]);
    }
}

void sha256_of(const void *bytes, size_t size, uint8_t digest[SHA256_BYTES]) {
    struct sha256 hash;
    sha256_init(&hash);
    sha256_update(&hash, bytes, size);
    sha256_finish(&hash, digest);
}

void sha256_hex(const uint8_t digest[SHA256_BYTES], char hex[SHA256_HEX_BYTES]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < SHA256_BYTES; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[2 * SHA256_BYTES] = '\0';
}
