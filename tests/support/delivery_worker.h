/* A delivery worker: the worker's part in the model of delivery, without Kafka, Redis, engine.
 *
 * The pure parts are the real ones: job_life decides what is done to a job, partition_table what
 * may be committed. Around them stands the least that makes a worker: calls that go out in order
 * until the connection breaks (delivery_link), an engine (delivery_engine), a producer that keeps
 * order and one commit under way (delivery_broker). Plain values; one thread. */
#ifndef SOLFLEET_TESTS_SUPPORT_DELIVERY_WORKER_H
#define SOLFLEET_TESTS_SUPPORT_DELIVERY_WORKER_H

#include "consumer/job_life.h"
#include "consumer/partition_table.h"
#include "tests/support/delivery_world.h"

enum {
    DELIVERY_JOBS = 12,  /* in one worker */
    DELIVERY_REFS = 8,   /* records of one job */
    DELIVERY_QUEUE = 64, /* calls, or records to be published */
    DELIVERY_ANSWERS = 9 /* 0 .. -STATUS_SCRIPT_ELSEWHERE */
};

struct delivery_job {
    bool is_used;
    uint64_t ticket;
    struct job_life life;
    uint8_t id, content;
    bool is_malformed;
    struct source_ref refs[DELIVERY_REFS];
    int ref_count;
    int64_t attempt; /* 0: Redis was not reached */
    int64_t deaths;
    int64_t due_ms;
    bool is_suspect; /* was known to be one when the engine took it */
    bool has_begun, is_called_off;
    bool needs_letter, needs_result, has_letter, has_result; /* has: acknowledged */
    enum status_state state;
    char result[STATUS_MODEL_TEXT_MAX];
};

/* A record under way to the broker. */
struct delivery_send {
    uint64_t ticket;
    bool is_letter, is_appended;
    uint8_t id, content;
    char result[STATUS_MODEL_TEXT_MAX];
};

struct delivery_commit {
    bool is_under_way, is_answered, is_taken;
    int number;
    char metadata[DELIVERY_METADATA_BYTES];
    uint64_t generation;
    int64_t offset;
    uint64_t epoch; /* of the table */
};

/* What has happened, over many schedules: where a model never gets, it proves nothing. */
struct delivery_coverage {
    uint64_t claims[DELIVERY_ANSWERS], late_claims[DELIVERY_ANSWERS]; /* by -code */
    uint64_t seals[DELIVERY_ANSWERS + 1];                             /* so; the last: it holds */
    uint64_t actions[JOB_LIFE_ACTION_COUNT];
    uint64_t known_records; /* settled by an earlier owner: no work */
};

struct delivery_worker {
    struct delivery_world *world;
    struct delivery_coverage *coverage;
    int number;
    bool is_alive, is_frozen, is_linked;
    uint32_t incarnation;
    uint64_t tickets;
    struct partition_table table; /* of partitions it believes it has */
    uint64_t generation[DELIVERY_PARTITIONS];
    int64_t position[DELIVERY_PARTITIONS];
    struct delivery_job jobs[DELIVERY_JOBS];
    struct delivery_call calls[DELIVERY_QUEUE]; /* under way, oldest first; answered in order */
    int call_count;
    struct delivery_call backlog[DELIVERY_QUEUE]; /* kept for a server that is away */
    int backlog_count;
    struct delivery_send sends[DELIVERY_QUEUE]; /* oldest first */
    int send_count;
    struct delivery_commit commit;
};

void delivery_worker_init(struct delivery_worker *worker, struct delivery_world *world, int number,
                          struct delivery_coverage *coverage);
void delivery_worker_deinit(struct delivery_worker *worker);

bool delivery_worker_receive(struct delivery_worker *worker); /* false: not now */
bool delivery_worker_crash(struct delivery_worker *worker);
bool delivery_worker_start(struct delivery_worker *worker);
bool delivery_worker_is_idle(const struct delivery_worker *worker);

/* For the other files of the worker. */
bool delivery_worker_is(const struct delivery_worker *worker, enum delivery_mutation mutation);
bool delivery_worker_acts(const struct delivery_worker *worker); /* alive, and not frozen */
struct delivery_job *delivery_worker_find(struct delivery_worker *worker, uint64_t ticket);
/* Any job that fits; NULL when none does. */
struct delivery_job *delivery_worker_pick(struct delivery_worker *worker,
                                          bool (*fits)(const struct delivery_job *job));
/* Another job of the same content that has been claimed. */
struct delivery_job *delivery_worker_other(struct delivery_worker *worker,
                                           const struct delivery_job *job);
/* Moves a job's life on and does what it says. */
void delivery_worker_take(struct delivery_worker *worker, struct delivery_job *job,
                          enum job_life_event event);
void delivery_worker_do(struct delivery_worker *worker, struct delivery_job *job,
                        enum job_life_action action);
/* After partitions went. */
void delivery_worker_look_over(struct delivery_worker *worker);

#endif
