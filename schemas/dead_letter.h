/* The headers that say why a record lies in the dead-letter topic.
 *
 * The contract is schemas/v1/dead_letter.schema.json. The record's key, value and own headers stay
 * as they were, with these behind them; a value too large for the topic is left out, and its size
 * and digest stand in the headers instead. Caller's memory, any thread, cannot fail. Knows no Kafka
 * client: it gives name/value pairs. */
#ifndef SOLFLEET_SCHEMAS_DEAD_LETTER_H
#define SOLFLEET_SCHEMAS_DEAD_LETTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

#define DEAD_LETTER_HEADER_CODE "solfleet-code"
#define DEAD_LETTER_HEADER_FIELD "solfleet-field" /* only where a field is to blame */
#define DEAD_LETTER_HEADER_MESSAGE "solfleet-message"
#define DEAD_LETTER_HEADER_TOPIC "solfleet-topic"
#define DEAD_LETTER_HEADER_PARTITION "solfleet-partition"
#define DEAD_LETTER_HEADER_OFFSET "solfleet-offset"
#define DEAD_LETTER_HEADER_ATTEMPT "solfleet-attempt"
#define DEAD_LETTER_HEADER_SHA256 "solfleet-value-sha256" /* these two only where */
#define DEAD_LETTER_HEADER_BYTES "solfleet-value-bytes"   /* the value is left out */
#define DEAD_LETTER_HEADERS_MAX 9

struct dead_letter {
    const struct job_error *error; /* borrowed; its code is not ERROR_NONE */
    const char *topic;             /* borrowed: where the record came from */
    int32_t partition;
    int64_t offset;
    uint32_t attempt;
    const void *value; /* borrowed: the record's value; NULL for a null value */
    size_t value_bytes;
    bool value_left_out; /* the record is published with an empty value */
};

struct dead_letter_header {
    const char *name; /* static */
    const char *value;
};

/* Values point into this structure or into the letter: valid as long as both stay in place. */
struct dead_letter_headers {
    struct dead_letter_header list[DEAD_LETTER_HEADERS_MAX];
    uint32_t count;
    char text[5][72]; /* numbers and the digest */
};

/* False when memory ran out. */
bool dead_letter_write_headers(const struct dead_letter *letter,
                               struct dead_letter_headers *headers)
    __attribute__((warn_unused_result));

#endif
