/* Offset metadata: the text beside a committed offset that says what beyond it is settled.
 *
 * "sf1:" and then run lengths from the committed offset on: unsettled, settled, unsettled, settled.
 * A run length is 5 bits a character, least first, 32 added while more follow, in the 64 characters
 * A-Z a-z 0-9 - _. The text is read back from a broker, where anybody can write: decoding takes any
 * bytes. Pure; any thread; the caller's memory. Refuses to know partitions. */
#ifndef SOLFLEET_CONSUMER_OFFSET_METADATA_H
#define SOLFLEET_CONSUMER_OFFSET_METADATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "consumer/offset_ledger.h"

#define OFFSET_METADATA_BYTES_MAX 4096 /* what a broker takes by default; more loses the commit */
#define OFFSET_METADATA_RANGES_MAX ((OFFSET_METADATA_BYTES_MAX - 4) / 2)

/* Writes as many of the ranges, none of them below the mark, as fit in text_bytes_max characters,
 * the nearest first, and a NUL behind. Returns the length: 0 when there is nothing to say. */
size_t offset_metadata_encode(int64_t mark, const struct offset_range *ranges, size_t count,
                              char *text, size_t text_bytes_max);

/* The ranges, up to OFFSET_METADATA_RANGES_MAX of them, that the text names beyond the mark. False,
 * and none, for a text that is not ours or is broken; an empty text names none. */
bool offset_metadata_decode(int64_t mark, const void *text, size_t text_bytes,
                            struct offset_range *ranges, size_t *count)
    __attribute__((warn_unused_result));

#endif
