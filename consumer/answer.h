/* An answer: the result of a job that has ended, found by its status.
 *
 * Small results stand in the status itself; a larger one is read from the results topic at the
 * place that the status names. One thread. Refuses to know how it is shown. */
#ifndef SOLFLEET_CONSUMER_ANSWER_H
#define SOLFLEET_CONSUMER_ANSWER_H

#include <stddef.h>
#include <stdint.h>

#include "schemas/result.h"
#include "schemas/status.h"

struct config;

enum answer_status {
    ANSWER_OK = 0,
    ANSWER_ABSENT,     /* neither in the status nor in a topic that still holds it */
    ANSWER_UNREACHABLE /* the broker */
};

/* On OK *out is the caller's, to be deinited; otherwise err says why there is none. */
enum answer_status answer_fetch(const struct config *config, const struct status *status,
                                int64_t timeout_ms, struct result *out, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

#endif
