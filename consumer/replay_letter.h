/* A letter to replay: what a record of the dead-letter topic says, and the record that it was.
 *
 * Borrows what it is read from. One thread. Refuses to know Kafka and Redis, and whether the letter
 * is to be sent. */
#ifndef SOLFLEET_CONSUMER_REPLAY_LETTER_H
#define SOLFLEET_CONSUMER_REPLAY_LETTER_H

#include <stdbool.h>
#include <stddef.h>

#include "consumer/record.h"
#include "schemas/error.h"
#include "schemas/job.h"
#include "schemas/sha256.h"

struct replay_letter {
    enum error_code code; /* ERROR_NONE: the record is no dead letter */
    struct record_header topic;
    bool value_left_out; /* it was too large; headers say how large */
    struct record_header left_out_bytes;
    char request_id[JOB_ID_BYTES_MAX + 1]; /* "" = none can be read */
    char fingerprint[SHA256_HEX_BYTES];    /* of the value */
    size_t header_count;                   /* of the record's own, which come first in the list */
};

/* Sorts `headers`, [count], so that the record's own come first. The id is the value's, or the key
 * where the value has none; ids of a value that was left out are the key, too. False when memory
 * ran out. */
bool replay_letter_read(struct replay_letter *letter, const struct record *record,
                        struct record_header *headers, size_t count)
    __attribute__((warn_unused_result));

/* Whether it came from this topic. */
bool replay_letter_is_of(const struct replay_letter *letter, const char *topic);

#endif
