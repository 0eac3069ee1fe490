/* The in-flight table: every record received and not settled, by ticket, with what is needed of it
 * until it is settled; and which ticket holds an id.
 *
 * Bounded; finding, adding and removing take constant time. A ticket names one stay in the table:
 * a later one in the same place has another ticket. One thread. The table owns its entries, an
 * entry what it points to, save the record, which goes back to its source first. Refuses to know
 * what happens to a job and when (job_life). */
#ifndef SOLFLEET_CONSUMER_INFLIGHT_H
#define SOLFLEET_CONSUMER_INFLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "consumer/carried_headers.h"
#include "consumer/job_life.h"
#include "consumer/record.h"
#include "schemas/job.h"
#include "schemas/result.h"
#include "schemas/status.h"

#define INFLIGHT_CAPACITY_MAX (1u << 21)

/* Where a ticket came from; one ticket may answer several records. */
struct inflight_source {
    struct source_ref ref;
    struct inflight_source *next; /* owned */
};

/* How a job ended, from then on until it is settled. */
struct inflight_outcome {
    enum status_state state;
    int64_t finished_unix_ms;
    int64_t prompt_tokens, completion_tokens; /* -1 = unknown */
    char *text;                               /* owned; NULL = not kept in the status */
    char *result;                             /* owned: the record's value */
    size_t result_bytes;
    bool is_sealed;                    /* it stands so in Redis, as an answer said */
    uint32_t result_cuts, letter_cuts; /* how often it was made smaller */
    bool result_unsent, letter_unsent; /* to be handed to the sink */
    bool result_sent, letter_sent;     /* handed over, no report yet */
    char result_topic[JOB_TOPIC_BYTES_MAX + 1];
    int32_t result_partition; /* where it lies */
    int64_t result_offset;
};

struct inflight_list;

struct inflight_job {
    uint64_t ticket;
    struct job_life life;
    struct inflight_source source;
    struct record record; /* as long as there is one, a dead letter or another try can be made */
    size_t value_bytes;   /* of the record */
    int64_t timestamp_unix_ms, started_unix_ms; /* started: -1 = not */
    int64_t deadline_ns;                        /* of the monotonic clock; 0 = none */

    /* The claim. */
    bool is_claimed;       /* Redis said that it is ours, in `attempt` */
    bool has_no_status;    /* the key is unusable: nothing can be said of it in Redis */
    uint32_t attempt;      /* 0 = Redis was not reached */
    uint32_t deaths;       /* of owners while they ran it */
    bool id_is_key;        /* its own cannot be read: ours only where that is queued */
    bool is_foretold;      /* its status says `running` since before the engine had it */
    uint32_t times_parked; /* in a row */
    int64_t lease_left_ms; /* of the worker that has it */
    uint32_t engine_failures;
    enum finish_reason called_off; /* why it is to end early; FINISH_STOP = it is not */
    bool is_queued;                /* in the worker's wait queue */
    bool stop_is_unsent;           /* the engine has not taken the wish to end it */

    /* What its status does not say yet: sent once a step. */
    uint32_t prompt_tokens, completion_tokens;
    char *progress_text; /* owned; NULL = leave */

    char request_id[JOB_ID_BYTES_MAX + 1]; /* "" = none can be read */
    char fingerprint[SHA256_HEX_BYTES];
    bool is_malformed;      /* the record is no job: `error` says why */
    bool has_job;           /* `job` is to be submitted */
    struct job job;         /* until the engine has it */
    struct job_error error; /* of a malformed record, a conflict or a rejected job */

    /* For the result. */
    struct job_params params; /* owns its stop strings */
    bool has_params;
    bool is_problem;                             /* so that the answer is a solution */
    char code_language[JOB_CODE_LANGUAGE_BYTES]; /* asked for */
    char *metadata, *reply_topic;                /* owned */
    enum job_progress progress;
    struct carried_headers headers;

    struct inflight_outcome outcome;
    struct inflight_list *list; /* of its user's, that it is in; NULL = none */
    struct inflight_job *next, *previous;

    bool is_holder; /* found by its id */
    uint32_t hash;  /* of the id, where it is */
};

/* A first-in first-out list of entries; an entry is in one list at most. */
struct inflight_list {
    struct inflight_job *head, *tail;
    uint32_t count;
};

struct inflight {
    struct inflight_job *jobs; /* [capacity] */
    uint32_t *free_slots;      /* stack [capacity] */
    uint32_t *generations;     /* [capacity] */
    uint32_t *holders;         /* hash table [holders_size], a power of two: slot + 1 */
    uint32_t holders_size;
    uint32_t capacity, count;
    size_t value_bytes; /* sum over the entries */
};

/* False when memory ran out. */
bool inflight_init(struct inflight *inflight, uint32_t capacity)
    __attribute__((warn_unused_result));
void inflight_deinit(struct inflight *inflight);

/* An entry zeroed but for its ticket (never 0) and source; NULL when the table is full. */
struct inflight_job *inflight_add(struct inflight *inflight, const struct source_ref *ref,
                                  size_t value_bytes);
/* NULL when the ticket has left the table. */
struct inflight_job *inflight_find(struct inflight *inflight, uint64_t ticket);
/* The entry's place in the table. */
uint32_t inflight_slot(const struct inflight *inflight, const struct inflight_job *job);
/* The entry after this one in no meaningful order, the first after NULL; NULL at the end. The one
 * given may have been removed meanwhile. */
struct inflight_job *inflight_next(struct inflight *inflight, const struct inflight_job *job);

/* Makes the ticket the holder of its id, until it is removed or lets go. False, and no change, when
 * another holds it. */
bool inflight_hold(struct inflight *inflight, struct inflight_job *job);
void inflight_let_go(struct inflight *inflight, struct inflight_job *job);
/* NULL when nobody holds the id. */
struct inflight_job *inflight_holder(const struct inflight *inflight, const char *request_id);

/* Takes one more record as answered by this ticket. */
void inflight_join(struct inflight_job *job, const struct source_ref *ref);
/* The record must have been released. */
void inflight_remove(struct inflight *inflight, struct inflight_job *job);

/* Copies params, stop strings included. */
void inflight_copy_params(struct inflight_job *job, const struct job_params *params);

/* An entry that is in another list leaves it. */
void inflight_list_append(struct inflight_list *list, struct inflight_job *job);
struct inflight_job *inflight_list_take(struct inflight_list *list); /* NULL when empty */
/* Takes the entry out of the list that it is in, if any. */
void inflight_list_remove(struct inflight_job *job);

#endif
