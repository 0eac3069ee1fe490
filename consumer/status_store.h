/* The status store: the worker's connection to Redis, asynchronous in the worker's poll(2).
 *
 * Calls are gathered and go out as one script call for all keys at status_store_send. Every claim,
 * seal and finish gets exactly one answer, in no promised order (a claim perhaps a second one,
 * which says is_late); a renewal gets one only where it says something; an advance and a release
 * get none.
 *
 * With Redis away the worker is not held up. A claim is answered NEW, not reached, at once, or when
 * it stays unanswered for claim_timeout_ms; after two such calls in a row claims are not even sent
 * for a pause that grows (status_breaker). A seal of a dead link is answered unreached. A finish is
 * answered at once and kept in a bounded backlog that is replayed in order when Redis is back, and
 * dropped oldest first beyond its bound; so is a release, which has no answer. A server that
 * answers, but refuses to write (out of memory, a replica, still loading, busy), counts as away
 * until it writes again. The store reconnects by itself.
 *
 * What stands under an id, and who may change it, is decided by the scripts (status_script): a
 * terminal state stays, the first seal stays, a lease is looked at by the server's clock.
 *
 * One thread. Texts are borrowed for the call only. Host names are resolved while reconnecting, on
 * this thread. Refuses to know Kafka, the engine, and what a result holds. */
#ifndef SOLFLEET_CONSUMER_STATUS_STORE_H
#define SOLFLEET_CONSUMER_STATUS_STORE_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "consumer/record.h"
#include "schemas/status.h"

struct status_store;
struct clock;
struct log;

struct status_store_options {
    const char *address; /* as redis_address_parse takes it */
    const char *prefix;  /* "solfleet:" */
    const char *worker;
    const char *incarnation; /* 16 hex digits, new for each process; owner = WORKER/INCARNATION */
    int64_t lease_ms;        /* a claim holds so long, and so long again after each renewal */
    int64_t ttl_s;
    int64_t claim_timeout_ms;
    int64_t link_timeout_ms; /* a server that answers nothing for so long is away */
    uint32_t backlog_max;    /* finishes and releases */
    size_t result_bytes_max; /* a larger result does not stay in the status once it is terminal */
    struct clock *clock;     /* borrowed; NULL = the real one */
    struct log *log;         /* borrowed; NULL = silent */
};

enum status_store_claimed {
    STATUS_STORE_NEW,      /* ours to work on; of a suspect (deaths > 0): alone */
    STATUS_STORE_DONE,     /* this very record has been answered before */
    STATUS_STORE_CONFLICT, /* the id belongs to another record */
    STATUS_STORE_NONE,     /* asked for a queued id: none stands there; or the key is unusable */
    STATUS_STORE_SEALED,   /* ours, and computed before: publish `sealed` */
    STATUS_STORE_RUNNING_HERE,      /* this process holds it under another record */
    STATUS_STORE_RUNNING_ELSEWHERE, /* claim again when lease_left_ms have passed */
    STATUS_STORE_POISON             /* ours; so many owners died while they ran it */
};

enum status_store_sealed {
    STATUS_STORE_SEALED_NOW,
    STATUS_STORE_SEALED_BEFORE, /* publish `sealed` instead */
    STATUS_STORE_SEAL_TERMINAL, /* it has been finished: settle, publish nothing */
    STATUS_STORE_SEAL_CONFLICT  /* the id belongs to another record: dead letter only */
};

enum status_store_kind {
    STATUS_STORE_CLAIM,
    STATUS_STORE_RENEW, /* only when `lost` or `cancel_requested` */
    STATUS_STORE_SEAL,
    STATUS_STORE_FINISH
};

/* How a job ended, as it stands under its id. */
struct status_store_outcome {
    enum status_state state; /* terminal */
    int64_t finished_unix_ms;
    int64_t prompt_tokens, completion_tokens; /* -1 = unknown */
    const char *error_code, *error_message;   /* NULL = none */
    const char *text;                         /* NULL = not kept in the status */
    const char *result;                       /* with a NUL behind it */
    size_t result_bytes;
};

struct status_store_answer {
    uint64_t ticket;
    enum status_store_kind kind;
    bool reached; /* Redis said so */
    /* CLAIM: the ticket was answered NEW, not reached, before. DONE, CONFLICT, SEALED, POISON: stop
     * it if nothing is published yet. NEW: its attempt is known now. No other verdict comes late. A
     * ticket that is gone may still be answered: let go of an attempt that it was given. */
    bool is_late;

    enum status_store_claimed claimed; /* CLAIM */
    uint32_t attempt;                  /* CLAIM that is ours or HERE: from 1; 0 = not reached */
    uint32_t deaths;                   /* CLAIM that is ours */
    int64_t lease_left_ms;             /* CLAIM, RUNNING_ELSEWHERE: > 0 */
    bool cancel_requested;             /* CLAIM that is ours, RENEW */
    bool lost;                         /* RENEW: another owns it now, or it is terminal */
    bool applied;                      /* FINISH: by this call; else it was terminal before */
    enum status_store_sealed seal;     /* SEAL; not reached: publish all the same */
    /* CLAIM: SEALED; SEAL: SEALED_BEFORE. Borrowed until the next take. */
    const struct status_store_outcome *sealed;
};

struct status_store_claim {
    const char *request_id;
    struct source_ref source; /* the same again is answered as before */
    const char *fingerprint;  /* hex sha256 of the record's value */
    int64_t queued_unix_ms;
    bool only_if_queued; /* NONE unless the state `queued` stands there */
};

struct status_store_advance {
    const char *request_id;
    uint32_t attempt;        /* 0 = the claim was not reached */
    int64_t started_unix_ms; /* -1 = leave */
    uint32_t prompt_tokens, completion_tokens;
    const char *text; /* NULL = leave */
};

/* For a seal and for the finish behind it. */
struct status_store_finish {
    const char *request_id;
    const char *fingerprint; /* NULL = unknown */
    enum status_state state;
    uint32_t attempt;        /* 0 = unknown */
    int64_t started_unix_ms; /* SEAL: of a job that no advance told of; -1 = leave */
    int64_t finished_unix_ms;
    int64_t prompt_tokens, completion_tokens; /* -1 = leave */
    const char *error_code, *error_message;   /* NULL = none */
    const char *text;                         /* NULL = leave */
    const char *result;                       /* JSON */
    size_t result_bytes;

    /* FINISH only. */
    bool is_sealed;           /* this outcome stands sealed in Redis, as an answer said */
    const char *result_topic; /* NULL = nothing was published */
    int32_t result_partition;
    int64_t result_offset;
};

struct status_store_stats {
    bool is_up;                 /* connected, and the server writes */
    uint64_t claims_unanswered; /* counted as NEW without Redis */
    uint64_t late_answers;      /* of those, answered in the end */
    uint64_t seals_unanswered;
    uint64_t breaker_opened_total;
    uint64_t refused_total; /* calls that the server refused */
    uint32_t backlog_count;
    uint64_t dropped_total;    /* finishes and releases lost to the backlog's bound */
    uint64_t links_total;      /* connections made */
    const char *eviction;      /* the server's maxmemory-policy; "" = unknown */
    bool is_eviction_harmless; /* noeviction, or unknown */
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

/* RUNNING_HERE of a job that is not here any more: release (answer.attempt), then claim again. */
void status_store_claim(struct status_store *store, uint64_t ticket,
                        const struct status_store_claim *claim);
void status_store_advance(struct status_store *store, const struct status_store_advance *advance);
/* Due at each third of lease_ms, from the claim until the finish. */
void status_store_renew(struct status_store *store, uint64_t ticket, const char *request_id,
                        uint32_t attempt);
/* Gives the job back: nobody's, and its attempt counts as no death. */
void status_store_release(struct status_store *store, const char *request_id, uint32_t attempt);
/* Puts outcome and result under the id; the state stays. The first wins, whatever its attempt. */
void status_store_seal(struct status_store *store, uint64_t ticket,
                       const struct status_store_finish *finish);
/* Makes the state terminal. The first one wins, whatever its attempt. */
void status_store_finish(struct status_store *store, uint64_t ticket,
                         const struct status_store_finish *finish);
/* The same for a result that was read from its topic, where it came at finished_unix_ms: of a job
 * that was sent again, neither is a later answer lost to an earlier failure, nor the new run
 * stopped. */
void status_store_repair(struct status_store *store, uint64_t ticket,
                         const struct status_store_finish *finish);
/* Sends what was gathered: releases first, claims last. */
void status_store_flush(struct status_store *store);
/* The same, but as much as the server is to have at a time: the rest gathers until it has answered.
 * To be called again after each status_store_handle. */
void status_store_send(struct status_store *store);

/* The next answer; false when there is none now. */
bool status_store_take(struct status_store *store, struct status_store_answer *answer);

void status_store_stats(const struct status_store *store, struct status_store_stats *out);

/* Drops what is not sent. Accepts NULL. */
void status_store_close(struct status_store *store);

#endif
