/* Why an answer ended: the word that results carry and that answer digests cover.
 *
 * Plain values, static storage, any thread. Knows no result and no engine. */
#ifndef SOLFLEET_SCHEMAS_FINISH_REASON_H
#define SOLFLEET_SCHEMAS_FINISH_REASON_H

enum finish_reason {
    FINISH_STOP, /* an end token, a stop string or a stop token */
    FINISH_LENGTH,
    FINISH_REPETITION,
    FINISH_DEADLINE,
    FINISH_CANCELLED,
    FINISH_ERROR
};

#define FINISH_REASON_COUNT 6

const char *finish_reason_name(enum finish_reason reason);

#endif
