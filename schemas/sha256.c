#include "schemas/sha256.h"

#include <openssl/evp.h>

static void keep_if(struct sha256 *hash, int good) {
    if (!good) {
        EVP_MD_CTX_free(hash->context);
        hash->context = NULL;
    }
}

void sha256_init(struct sha256 *hash) {
    hash->context = EVP_MD_CTX_new();
    if (hash->context != NULL) {
        keep_if(hash, EVP_DigestInit_ex(hash->context, EVP_sha256(), NULL));
    }
}

void sha256_update(struct sha256 *hash, const void *bytes, size_t size) {
    if (hash->context != NULL) {
        keep_if(hash, EVP_DigestUpdate(hash->context, bytes, size));
    }
}

bool sha256_finish(struct sha256 *hash, uint8_t digest[SHA256_BYTES]) {
    const bool good = hash->context != NULL && EVP_DigestFinal_ex(hash->context, digest, NULL) != 0;
    keep_if(hash, false);
    return good;
}

bool sha256_of(const void *bytes, size_t size, uint8_t digest[SHA256_BYTES]) {
    struct sha256 hash;
    sha256_init(&hash);
    sha256_update(&hash, bytes, size);
    return sha256_finish(&hash, digest);
}

void sha256_hex(const uint8_t digest[SHA256_BYTES], char hex[SHA256_HEX_BYTES]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < SHA256_BYTES; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[2 * SHA256_BYTES] = '\0';
}
