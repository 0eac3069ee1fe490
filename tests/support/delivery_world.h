/* A delivery world: what stands around workers in the model of delivery, and the rules of it.
 *
 * The jobs log with its group, the results log, the dead letters, and Redis: the C model of the
 * scripts, a key for each id. Every change of them is looked at; the first rule that is broken is
 * kept as `violation`. Time is a number that only the test moves. Plain values; one thread. Refuses
 * to know how a worker works: it judges by what has reached the logs and the keys. */
#ifndef SOLFLEET_TESTS_SUPPORT_DELIVERY_WORLD_H
#define SOLFLEET_TESTS_SUPPORT_DELIVERY_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "consumer/record.h"
#include "tests/support/status_model.h"

enum {
    DELIVERY_WORKERS = 3,
    DELIVERY_PARTITIONS = 2,
    DELIVERY_RECORDS = 4, /* at most, of a partition */
    DELIVERY_IDS = 5,
    DELIVERY_CONTENTS = 2, /* records of one id that differ */
    DELIVERY_INCARNATIONS_MAX = 128,
    DELIVERY_LEASE_MS = 100,
    DELIVERY_METADATA_BYTES = 64,
    DELIVERY_NOBODY = -1
};

/* Rules that the model can be told to break, so that a test sees them caught. */
enum delivery_mutation {
    DELIVERY_SOUND = 0,
    DELIVERY_COMMITS_BEFORE_THE_ACKNOWLEDGEMENT,
    DELIVERY_COMMITS_PAST_THE_UNSETTLED,
    DELIVERY_CALLS_THE_UNSETTLED_SETTLED, /* in a commit's metadata */
    DELIVERY_SETTLES_WHAT_ANOTHER_RUNS,
    DELIVERY_FINISHES_BEFORE_PUBLISHING,
    DELIVERY_PUBLISHES_UNSEALED,
    DELIVERY_PUBLISHES_ITS_OWN_OVER_THE_SEALED,
    DELIVERY_WRITES_OVER_A_TERMINAL_STATE,
    DELIVERY_FORGETS_WITHOUT_RELEASING,
    DELIVERY_RUNS_SUSPECTS_WITH_OTHERS,
    DELIVERY_NEVER_ASKS_AGAIN,
    DELIVERY_MUTATION_COUNT
};

struct delivery_record {
    int64_t offset;
    uint8_t id, content;
    bool is_malformed;
};

struct delivery_partition {
    struct delivery_record log[DELIVERY_RECORDS];
    int count;
    int owner; /* a worker, or DELIVERY_NOBODY */
    uint64_t generation;
    int64_t end; /* of the log: what no record stands for may be before it */
    /* Of the group: the offset to read next, or -1, and what is settled beyond, as a text. */
    int64_t committed;
    char metadata[DELIVERY_METADATA_BYTES];
};

/* One life of a worker. */
struct delivery_incarnation {
    char worker[8], owner[STATUS_MODEL_TEXT_MAX]; /* as Redis knows it */
    bool is_dead;
    uint32_t begun; /* ids, as bits, whose run had begun, and not ended for Redis, at its death */
    int64_t last_renewed_ms;
};

/* A call of one script for one key, and its answer. */
struct delivery_call {
    enum status_script script;
    uint64_t ticket;
    uint8_t id, content;
    int64_t attempt;
    struct source_ref source;
    enum status_state state;
    char result[STATUS_MODEL_TEXT_MAX];
    bool is_applied;
    bool is_late; /* a claim that was answered without the server */
    struct status_model_answer answer;
};

struct delivery_world {
    enum delivery_mutation mutation;
    uint64_t random;
    int64_t now_ms;
    bool is_redis_up, has_lost_keys;
    struct delivery_partition partitions[DELIVERY_PARTITIONS];
    struct status_model keys[DELIVERY_IDS];
    bool is_open[DELIVERY_IDS]; /* Redis lost it, or was not reached: outcomes may differ */
    bool has_letter[DELIVERY_IDS][DELIVERY_CONTENTS];
    bool has_result[DELIVERY_IDS][DELIVERY_CONTENTS];
    char result[DELIVERY_IDS][DELIVERY_CONTENTS][STATUS_MODEL_TEXT_MAX]; /* the first one */
    struct delivery_incarnation incarnations[DELIVERY_INCARNATIONS_MAX];
    uint32_t incarnation_count;
    int poison; /* an id that kills whoever runs it, or DELIVERY_NOBODY */
    const char *violation;
    bool is_told; /* every change is printed */
};

void delivery_world_init(struct delivery_world *world, uint64_t seed,
                         enum delivery_mutation mutation);
uint32_t delivery_world_below(struct delivery_world *world, uint32_t bound); /* a random number */
void delivery_world_violate(struct delivery_world *world, const char *rule);
void delivery_world_tell(const struct delivery_world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The broker takes a commit. False: the partition is not that worker's in that generation. */
bool delivery_world_commit(struct delivery_world *world, int number, int worker,
                           uint64_t generation, int64_t offset, const char *metadata);
/* The broker appends. `result` is "ANSWER|MAKER": the answer is what the id determines. */
void delivery_world_append_result(struct delivery_world *world, int id, int content,
                                  const char *result);
void delivery_world_append_letter(struct delivery_world *world, int id, int content);

/* Begins a life of a worker; its number, from 1. */
uint32_t delivery_world_begin(struct delivery_world *world, int worker);

/* Redis runs a call of that incarnation. */
void delivery_world_apply(struct delivery_world *world, uint32_t incarnation,
                          struct delivery_call *call);
void delivery_world_empty_redis(struct delivery_world *world);

/* Whether the record has an answer in the logs: what a commit may step over. */
bool delivery_world_is_answered(const struct delivery_world *world, int number, int index);

#endif
