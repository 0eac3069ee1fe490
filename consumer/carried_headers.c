#include "consumer/carried_headers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *const carried_headers_names[] = {
    "traceparent",   "tracestate",       "baggage",      "correlation-id",     "correlation_id",
    "correlationid", "x-correlation-id", "x-request-id", "kafka_correlationid"};

bool carried_headers_allow(const char *name) {
    for (size_t i = 0; i < sizeof carried_headers_names / sizeof carried_headers_names[0]; i++) {
        if (strcasecmp(name, carried_headers_names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Copies one behind the others; false when it does not fit. */
static bool carried_headers_add(struct carried_headers *carried, size_t *used,
                                const struct record_header *header) {
    size_t name_bytes = strlen(header->name) + 1;
    size_t bytes = name_bytes + header->value_bytes;
    if (carried->count == CARRIED_HEADERS_MAX || bytes > CARRIED_HEADERS_BYTES_MAX - *used) {
        return false;
    }
    if (carried->bytes == NULL) {
        carried->bytes = malloc(CARRIED_HEADERS_BYTES_MAX);
        assert(carried->bytes != NULL);
    }
    char *name = carried->bytes + *used;
    memcpy(name, header->name, name_bytes);
    if (header->value_bytes > 0) {
        memcpy(name + name_bytes, header->value, header->value_bytes);
    }
    carried->list[carried->count++] =
        (struct record_header){.name = name,
                               .value = header->value != NULL ? name + name_bytes : NULL,
                               .value_bytes = header->value_bytes};
    *used += bytes;
    return true;
}

void carried_headers_copy(struct carried_headers *carried, const struct record_header *headers,
                          size_t count) {
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (carried_headers_allow(headers[i].name) &&
            !carried_headers_add(carried, &used, &headers[i])) {
            return;
        }
    }
}

void carried_headers_deinit(struct carried_headers *carried) {
    free(carried->bytes);
    *carried = (struct carried_headers){0};
}
