/* A bucket: a class of prompt lengths that differ by less than a fifth.
 *
 * Edges grow geometrically in integers: e(0) = 16, e(i + 1) = ceil(e(i) * 6 / 5). Bucket i holds
 * the lengths above e(i - 1) up to and with e(i); bucket 0 those up to 16; the last one all the
 * rest. Pure functions: any thread, no memory. */
#ifndef SOLFLEET_ENGINE_BUCKET_H
#define SOLFLEET_ENGINE_BUCKET_H

#include <stdint.h>

#define BUCKET_FIRST_EDGE 16u
#define BUCKET_COUNT_MAX 64u /* e(62) lies beyond a million tokens */

uint32_t bucket_index(uint32_t prompt_tokens);
/* The longest prompt of a bucket; UINT32_MAX for the last. */
uint32_t bucket_edge(uint32_t index);

#endif
