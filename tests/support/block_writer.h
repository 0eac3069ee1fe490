/* A writer of weights in every format that engine/block_format reads, for tests that need a file.
 *
 * The inverse of that file, written from the formats' description and not from it: each value comes
 * back within about half a step of its block. Fast and near, not the best codes that there are. Not
 * for threads. */
#ifndef SOLFLEET_TESTS_SUPPORT_BLOCK_WRITER_H
#define SOLFLEET_TESTS_SUPPORT_BLOCK_WRITER_H

#include <stdint.h>

#include "engine/block_format.h"
#include "tests/support/gguf_writer.h"

/* Appends a row of `count` weights, a multiple of the format's elements. */
void block_writer_row(struct gguf_writer *writer, const struct block_format *format,
                      const float *row, uint32_t count);

#endif
