/* A worker on a rig: librdkafka's in-process cluster, a private redis-server, an engine (without a
 * model unless a case gives one), and a client that produces jobs and reads what comes out. All on
 * the test's thread, the worker stepped by hand; everything asserts. */
#ifndef SOLFLEET_TESTS_SUPPORT_WORKER_RIG_H
#define SOLFLEET_TESTS_SUPPORT_WORKER_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "consumer/config.h"
#include "consumer/worker.h"
#include "engine/engine.h"
#include "engine/log.h"
#include "tests/support/redis_server.h"

#define WORKER_RIG_PARTITIONS 4
#define WORKER_RIG_WAIT_MS_MAX 20000

struct worker_rig_cluster;
struct worker_rig_reader;

/* What a reader found; owned by the caller. */
struct worker_rig_record {
    char *key, *value; /* with a NUL behind; NULL = null */
    size_t key_bytes, value_bytes;
    char headers[4096]; /* "name=value\n" each */
    int32_t partition;
    int64_t offset;
};

struct worker_rig {
    struct redis_server redis;
    struct worker_rig_cluster *cluster;
    struct worker_rig_reader *results, *letters;
    char brokers[64];
    char jobs_topic[64]; /* one for each group, so that cases do not see each other's jobs */
    struct config config;
    struct log log;
    struct engine *engine;
    bool holds_engine; /* set before the start: jobs stay in the engine until released */
    const struct engine_options *model; /* set before the start: an engine with a model; borrowed */
    struct worker *worker;
};

/* Cluster, Redis, readers. */
void worker_rig_open(struct worker_rig *rig);
/* A worker in `group`; `words` are options ended by NULL, may be NULL. Not joined. */
void worker_rig_prepare(struct worker_rig *rig, const char *group, const char *const *words,
                        const struct engine_null_options *engine);
/* The same, joined, not yet assigned. */
void worker_rig_start(struct worker_rig *rig, const char *group, const char *const *words,
                      const struct engine_null_options *engine);
/* Closes the worker and the engine. */
void worker_rig_stop(struct worker_rig *rig);
void worker_rig_close(struct worker_rig *rig);

void worker_rig_step(struct worker_rig *rig);
/* Lets an engine that was held work on. */
void worker_rig_release(struct worker_rig *rig);
/* Steps until the worker has partitions. */
void worker_rig_until_ready(struct worker_rig *rig);
/* Steps until nothing is in flight and all is committed. */
void worker_rig_until_drained(struct worker_rig *rig);
struct worker_stats worker_rig_stats(const struct worker_rig *rig);

/* Produces a record of the jobs topic; -1 = any partition. NULL value or key = null. Headers are
 * pairs ended by NULL, may be NULL. Returns when the cluster has it. */
void worker_rig_produce(struct worker_rig *rig, int32_t partition, const char *key,
                        const void *value, size_t value_bytes, const char *const *headers);
/* A value, keyed by nothing, with a timestamp of its own. Does not wait: worker_rig_flush does. */
void worker_rig_produce_at(struct worker_rig *rig, int64_t timestamp_unix_ms, const char *value);
void worker_rig_flush(struct worker_rig *rig);
/* One more topic of the cluster, with as many partitions; before the worker starts. */
void worker_rig_make_topic(struct worker_rig *rig, const char *topic);
/* {"request_id": ID, "prompt": "hello"} to a topic; does not wait. */
void worker_rig_produce_to(struct worker_rig *rig, const char *topic, int32_t partition,
                           const char *id);
/* {"request_id": ID, "prompt": "hello"} keyed by the id. */
void worker_rig_produce_job(struct worker_rig *rig, const char *id);

/* Steps until the next record is on the topic. */
struct worker_rig_record worker_rig_next_result(struct worker_rig *rig);
struct worker_rig_record worker_rig_next_letter(struct worker_rig *rig);
/* True when nothing more is there now. */
bool worker_rig_has_no_result(struct worker_rig *rig);
bool worker_rig_has_no_letter(struct worker_rig *rig);
void worker_rig_free(struct worker_rig_record *record);
bool worker_rig_has_header(const struct worker_rig_record *record, const char *name,
                           const char *value);

/* The committed offset of a partition in the group; -1 = none. */
int64_t worker_rig_committed(struct worker_rig *rig, const char *group, int32_t partition);
/* A field of a job's status; NULL = absent. Owned by the caller. */
char *worker_rig_status(struct worker_rig *rig, const char *id, const char *field);

/* One command for Redis, as redisCommand takes it. */
void worker_rig_redis(struct worker_rig *rig, const char *format, ...);

/* As a client does it before it produces. */
void worker_rig_queue(struct worker_rig *rig, const char *id);

/* A second member of the group, librdkafka's own, to make partitions go. The caller polls, closes
 * and destroys it. */
struct rd_kafka_s *worker_rig_join(const struct worker_rig *rig, const char *group);

void worker_rig_broker_down(struct worker_rig *rig);
void worker_rig_broker_up(struct worker_rig *rig);

#endif
