/* The in-flight table: every record received and not settled, by ticket, with what is needed of it
 * after the engine has taken the job.
 *
 * Bounded; finding, adding and removing take constant time. A ticket names one stay in the table:
 * a later one in the same place has another ticket. One thread. The table owns its entries, an
 * entry what it points to, save the record, which goes back to its source first. Refuses to know
 * what happens to a job and when. */
#ifndef SOLFLEET_CONSUMER_INFLIGHT_H
#define SOLFLEET_CONSUMER_INFLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "consumer/carried_headers.h"
#include "consumer/record.h"
#include "schemas/job.h"
#include "schemas/result.h"
#include "schemas/status.h"

#define INFLIGHT_CAPACITY_MAX (1u << 21)

/* What a job waits for. */
enum inflight_state {
    INFLIGHT_CLAIMING,   /* Redis: whose is the id? */
    INFLIGHT_WAITING,    /* room in the engine */
    INFLIGHT_RUNNING,    /* the engine */
    INFLIGHT_PUBLISHING, /* the brokers: is it on its topics? */
    INFLIGHT_FINISHING,  /* Redis: the terminal status */
    INFLIGHT_STATE_COUNT
};

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
    uint32_t result_cuts, letter_cuts; /* how often it was made smaller */
    bool result_unsent, letter_unsent; /* to be handed to the sink */
    bool result_sent, letter_sent;     /* handed over, no report yet */
    char result_topic[JOB_TOPIC_BYTES_MAX + 1];
    int32_t result_partition; /* where it lies */
    int64_t result_offset;
};

struct inflight_job {
    uint64_t ticket;
    enum inflight_state state;
    struct inflight_source source;
    struct record record; /* until the engine has the job, or its dead letter is on the topic */
    size_t value_bytes;   /* of the record */
    int64_t timestamp_unix_ms, started_unix_ms;

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
    uint32_t attempt; /* 0 = Redis was not reached */

    struct inflight_outcome outcome;
    struct inflight_job *next; /* in one list of its user's */
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
/* Takes one more record as answered by this ticket. */
void inflight_join(struct inflight_job *job, const struct source_ref *ref);
/* The record must have been released. */
void inflight_remove(struct inflight *inflight, struct inflight_job *job);

/* Copies params, stop strings included. */
void inflight_copy_params(struct inflight_job *job, const struct job_params *params);

void inflight_list_append(struct inflight_list *list, struct inflight_job *job);
struct inflight_job *inflight_list_take(struct inflight_list *list); /* NULL when empty */

#endif
