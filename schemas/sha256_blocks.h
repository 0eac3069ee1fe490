/* The block function of SHA-256, portable and with the processor's own instructions.
 *
 * For sha256.c, which chooses, and for the test that compares the two. Any thread. */
#ifndef SOLFLEET_SCHEMAS_SHA256_BLOCKS_H
#define SOLFLEET_SCHEMAS_SHA256_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHA256_BLOCK_BYTES 64

extern const uint32_t sha256_blocks_constants[64];

void sha256_blocks(uint32_t state[8], const uint8_t *bytes, size_t block_count);

/* The same, several times as fast; only where sha256_x86_usable says so. */
bool sha256_x86_usable(void);
void sha256_x86_blocks(uint32_t state[8], const uint8_t *bytes, size_t block_count);

#endif
