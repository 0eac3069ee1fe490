/* A status refusal: what an error that Redis answers to a call means for the caller.
 *
 * Static data, any thread. Refuses to know connections and keys. */
#ifndef SOLFLEET_CONSUMER_STATUS_REFUSAL_H
#define SOLFLEET_CONSUMER_STATUS_REFUSAL_H

enum status_refusal_kind {
    STATUS_REFUSAL_NO_SCRIPT, /* it lost its scripts: load and ask again */
    STATUS_REFUSAL_PASSING,   /* it cannot write now: ask again later */
    STATUS_REFUSAL_LASTING    /* nobody but its operator can help: say so, ask again later */
};

struct status_refusal {
    enum status_refusal_kind kind;
    const char *advice; /* what to do, to be read behind the error; "" = none */
};

/* `error` as the server says it, its code first. */
struct status_refusal status_refusal_of(const char *error);

#endif
