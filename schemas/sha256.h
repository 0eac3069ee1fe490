/* SHA-256, as libcrypto computes it. Any thread. It fails only when memory runs out. */
#ifndef SOLFLEET_SCHEMAS_SHA256_H
#define SOLFLEET_SCHEMAS_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32
#define SHA256_HEX_BYTES 65 /* NUL included */

/* A hash taken piece by piece. A failure is remembered and told by sha256_finish, which also frees
 * what sha256_init reserved: each init needs its finish. */
struct sha256 {
    struct evp_md_ctx_st *context; /* owned; NULL once something failed */
};

void sha256_init(struct sha256 *hash);
void sha256_update(struct sha256 *hash, const void *bytes, size_t size);
bool sha256_finish(struct sha256 *hash, uint8_t digest[SHA256_BYTES])
    __attribute__((warn_unused_result));

/* One shot. */
bool sha256_of(const void *bytes, size_t size, uint8_t digest[SHA256_BYTES])
    __attribute__((warn_unused_result));
/* Lower-case hex with NUL. */
void sha256_hex(const uint8_t digest[SHA256_BYTES], char hex[SHA256_HEX_BYTES]);

#endif
