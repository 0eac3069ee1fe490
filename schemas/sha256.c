#include "schemas/sha256.h"

#include <string.h>

/* Fractional parts of the cube roots of the first 64 primes. */
static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, unsigned count) {
    return x >> count | x << (32 - count);
}

static uint32_t load_be32(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void store_be32(uint8_t *bytes, uint32_t x) {
    bytes[0] = (uint8_t)(x >> 24);
    bytes[1] = (uint8_t)(x >> 16);
    bytes[2] = (uint8_t)(x >> 8);
    bytes[3] = (uint8_t)x;
}

static void compress(uint32_t state[8], const uint8_t *block) {
    uint32_t w[64];
    for (int i = 0; i < 16; i++) {
        w[i] = load_be32(block + 4 * i);
    }
    for (int i = 16; i < 64; i++) {
        const uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; i++) {
        const uint32_t t1 = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                            (g ^ (e & (f ^ g))) + constants[i] + w[i];
        const uint32_t t2 =
            (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) | (c & (a | b)));
        h = g, g = f, f = e, e = d + t1;
        d = c, c = b, b = a, a = t1 + t2;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
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
        compress(hash->state, hash->block);
        in += taken;
        size -= taken;
    }
    for (; size >= sizeof hash->block; size -= sizeof hash->block, in += sizeof hash->block) {
        compress(hash->state, in);
    }
    if (size > 0) {
        memcpy(hash->block, in, size);
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
