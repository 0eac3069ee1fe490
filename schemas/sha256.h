/* SHA-256 (FIPS 180-4), incremental. Caller's memory, any thread, cannot fail. */
#ifndef SOLFLEET_SCHEMAS_SHA256_H
#define SOLFLEET_SCHEMAS_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32
#define SHA256_HEX_BYTES 65 /* NUL included */

struct sha256 {
    uint32_t state[8];
    uint64_t total_bytes;
    uint8_t block[64];
};

void sha256_init(struct sha256 *hash);
void sha256_update(struct sha256 *hash, const void *bytes, size_t size);
void sha256_finish(struct sha256 *hash, uint8_t digest[SHA256_BYTES]);

/* One shot. */
void sha256_of(const void *bytes, size_t size, uint8_t digest[SHA256_BYTES]);
/* Lower-case hex with NUL. */
void sha256_hex(const uint8_t digest[SHA256_BYTES], char hex[SHA256_HEX_BYTES]);

#endif
