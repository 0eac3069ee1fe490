/* The status store: the worker's connection to Redis, asynchronous in the worker's poll(2).
 *
 * Calls are gathered and go out as one script call for all keys at status_store_flush. Every claim
 * and every finish gets exactly one answer, in no promised order; an advance gets none. With Redis
 * away the worker is not held up: a claim is answered NEW (`reached` false) at once, or when it
 * stays unanswered for claim_timeout_ms; a finish is answered at once and kept in a bounded backlog
 * that is replayed, oldest first, when Redis is back, and dropped oldest first beyond its bound.
 * The store reconnects by itself, with a growing pause.
 *
 * One thread. Texts are borrowed for the call only. Host names are resolved while reconnecting, on
 * this thread. Refuses to know Kafka, the engine, and what a result holds. */
#ifndef SOLFLEET_CONSUMER_STATUS_STORE_H
#define SOLFLEET_CONSUMER_STATUS_STORE_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/status.h"

struct status_store;
struct clock;
struct log;

struct status_store_options {
    const char *address; /* as redis_address_parse takes it */
    const char *prefix;  /* "solfleet:" */
    const char *worker;
    int64_t ttl_s;
    int64_t claim_timeout_ms;
    int64_t link_timeout_ms; /* a server that answers nothing for so long is away */
    uint32_t backlog_max;    /* finishes */
    struct clock *clock;     /* borrowed; NULL = the real one */
    struct log *log;         /* borrowed; NULL = silent */
};

enum status_store_claimed {
    STATUS_STORE_NEW,
    STATUS_STORE_DONE,     /* this very record has been answered before */
    STATUS_STORE_CONFLICT, /* the id belongs to another record */
    STATUS_STORE_NONE      /* asked for a queued id: none stands there; or the key is unusable */
};

enum status_store_kind { STATUS_STORE_CLAIM, STATUS_STORE_FINISH };

struct status_store_answer {
    uint64_t ticket;
    enum status_store_kind kind;
    enum status_store_claimed claimed; /* CLAIM */
    uint32_t attempt;                  /* CLAIM, NEW: from 1; 0 when Redis was not reached */
    bool reached;                      /* Redis said so */
};

struct status_store_claim {
    const char *request_id;
    const char *fingerprint; /* hex sha256 of the record's value */
    int64_t queued_unix_ms;
    bool only_if_queued; /* NONE unless the state `queued` stands there */
};

struct status_store_advance {
    const char *request_id;
    uint32_t attempt;
    int64_t started_unix_ms; /* -1 = leave */
    uint32_t prompt_tokens, completion_tokens;
    const char *text; /* NULL = leave */
};

struct status_store_finish {
    const char *request_id;
    const char *fingerprint;
    enum status_state state;
    uint32_t attempt; /* 0 = unknown */
    int64_t finished_unix_ms;
    int64_t prompt_tokens, completion_tokens; /* -1 = leave */
    const char *error_code, *error_message;   /* NULL = none */
    const char *result_topic;                 /* NULL = nothing was published */
    int32_t result_partition;
    int64_t result_offset;
    const char *text;   /* NULL = leave */
    const char *result; /* JSON; NULL = not kept in the status */
    size_t result_bytes;
};

struct status_store_stats {
    bool is_up;
    uint64_t claims_unanswered; /* counted as NEW without Redis */
    uint32_t backlog_count;
    uint64_t dropped_total; /* finishes lost to the backlog's bound */
    uint64_t links_total;   /* connections made */
};

/* False with the reason when the address is malformed; an unreachable server is no failure. */
bool status_store_open(const struct status_store_options *options, struct status_store **out,
                       char *err, size_t err_bytes) __attribute__((warn_unused_result));

/* What poll(2) is to watch; fd -1 while there is no connection. */
struct pollfd status_store_pollfd(const struct status_store *store);
/* When status_store_handle is due at the latest (monotonic ns); INT64_MAX = no time. */
int64_t status_store_deadline_ns(const struct status_store *store);
/* Reads, writes, times out, reconnects: whatever is due now. */
void status_store_handle(struct status_store *store, short revents);

void status_store_claim(struct status_store *store, uint64_t ticket,
                        const struct status_store_claim *claim);
void status_store_advance(struct status_store *store, const struct status_store_advance *advance);
void status_store_finish(struct status_store *store, uint64_t ticket,
                         const struct status_store_finish *finish);
/* Sends what was gathered. */
void status_store_flush(struct status_store *store);

/* The next answer; false when there is none now. */
bool status_store_take(struct status_store *store, struct status_store_answer *answer);

void status_store_stats(const struct status_store *store, struct status_store_stats *out);

/* Drops what is not sent. Accepts NULL. */
void status_store_close(struct status_store *store);

#endif
