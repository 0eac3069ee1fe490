#ifndef SOLFLEET_ENGINE_UNICODE_TABLES_H
#define SOLFLEET_ENGINE_UNICODE_TABLES_H

/* The tables behind engine/unicode: ascending, disjoint ranges of code points, both ends included.
 * Constant. The .c file is generated. */

#include <stddef.h>
#include <stdint.h>

struct unicode_range {
    uint32_t first;
    uint32_t last;
};

extern const struct unicode_range unicode_tables_letters[];
extern const size_t unicode_tables_letters_count;
extern const struct unicode_range unicode_tables_numbers[];
extern const size_t unicode_tables_numbers_count;
extern const struct unicode_range unicode_tables_spaces[];
extern const size_t unicode_tables_spaces_count;

#endif
