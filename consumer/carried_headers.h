/* Carried headers: those of a job's record that go on to its result, so that traces and requests
 * can be matched: traceparent, correlation ids and their like.
 *
 * A copy in one allocation, owned. One thread. Refuses to know what the headers mean. */
#ifndef SOLFLEET_CONSUMER_CARRIED_HEADERS_H
#define SOLFLEET_CONSUMER_CARRIED_HEADERS_H

#include <stdbool.h>

#include "consumer/record.h"

#define CARRIED_HEADERS_MAX 16
#define CARRIED_HEADERS_BYTES_MAX 4096 /* names and values together; what comes beyond is left */

struct carried_headers {
    struct record_header list[CARRIED_HEADERS_MAX];
    size_t count;
    char *bytes; /* owned: what the list points into */
};

/* Whether a header of this name is carried; case does not matter. */
bool carried_headers_allow(const char *name);

/* Copies the allowed ones. */
void carried_headers_copy(struct carried_headers *carried, const struct record_header *headers,
                          size_t count);

/* Accepts zeroed ones. */
void carried_headers_deinit(struct carried_headers *carried);

#endif
