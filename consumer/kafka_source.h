/* The Kafka source: records of the jobs topic from the partitions that the group gives this worker,
 * and the way back: which of them are settled, committed as the contiguous prefix.
 *
 * One thread, except that librdkafka has threads of its own. A record is borrowed until
 * kafka_source_release. Assignments come and go inside kafka_source_receive; a settle of a record
 * from an assignment that is gone is ignored. At most one commit is under way; its result, not what
 * was hoped, decides what counts as committed and whose a partition is. Refuses to know jobs and
 * tickets. */
#ifndef SOLFLEET_CONSUMER_KAFKA_SOURCE_H
#define SOLFLEET_CONSUMER_KAFKA_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "consumer/record.h"

struct kafka_source;
struct config;
struct clock;
struct log;

enum kafka_source_status {
    KAFKA_SOURCE_OK = 0,
    KAFKA_SOURCE_BAD_SETTING,
    KAFKA_SOURCE_MISSING,     /* the topic: make it and ask again */
    KAFKA_SOURCE_UNREACHABLE, /* no broker answers: ask again */
    KAFKA_SOURCE_REFUSED      /* the broker says no */
};

struct kafka_source_stats {
    uint64_t received_total, settled_total, stale_total; /* stale: settled after a revoke */
    uint64_t known_total;        /* came again, settled already by the commit's metadata */
    uint64_t lost_records_total; /* deleted by the topic's retention before they were read */
    uint64_t restarts_total;     /* of a partition whose log was made anew or cut */
    uint64_t commits_total, commits_failed_total;
    uint64_t assignments_total, lost_total;
    uint32_t partition_count; /* assigned now */
};

/* Time after which the group gives up a member that it does not hear of. */
int64_t kafka_source_session_ms(const struct config *config);

/* Borrows all it is given until close; clock and log may be NULL. Connects in the background. */
enum kafka_source_status kafka_source_open(const struct config *config, struct clock *clock,
                                           struct log *log, struct kafka_source **out, char *err,
                                           size_t err_bytes) __attribute__((warn_unused_result));

/* Asks for the topics of jobs; blocks up to timeout_ms for each. *name: the one that the answer is
 * about. */
enum kafka_source_status kafka_source_find_topics(struct kafka_source *source, int timeout_ms,
                                                  const char **name, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

/* Joins the group. */
enum kafka_source_status kafka_source_subscribe(struct kafka_source *source, char *err,
                                                size_t err_bytes)
    __attribute__((warn_unused_result));

/* Readable when kafka_source_receive has something to do: to be called until it gives nothing. */
int kafka_source_fd(const struct kafka_source *source);
/* Clears the readiness; before receiving. */
void kafka_source_clear_fd(struct kafka_source *source);

/* The next record, if there is one now. Also serves assignments and commits. */
bool kafka_source_receive(struct kafka_source *source, struct record *record);
/* Accepts a released or zeroed record. */
void kafka_source_release(struct record *record);
/* Up to `max` of the record's headers, as long as it is not released. */
size_t kafka_source_headers(const struct record *record, struct record_header *headers, size_t max);

void kafka_source_pause(struct kafka_source *source, bool paused);
/* With several topics: of `slots` records in flight each has its share (intake_share.h). */
void kafka_source_share(struct kafka_source *source, uint32_t slots);
bool kafka_source_is_shared(const struct kafka_source *source); /* there are several topics */

/* Where a record lies: its topic, and its partition there. */
const char *kafka_source_place(const struct kafka_source *source, const struct source_ref *ref,
                               int32_t *partition);

/* The record needs nothing more from us. One of an assignment that is gone is only counted. */
void kafka_source_settle(struct kafka_source *source, const struct source_ref *ref);

/* True while the partition is ours by the assignment that delivered the record: a settle counts. */
bool kafka_source_owns(const struct kafka_source *source, const struct source_ref *ref);
/* True once after partitions have gone, or begun anew: ask kafka_source_owns about each record in
 * flight. What was settled of them was committed before. */
bool kafka_source_take_revoked(struct kafka_source *source);

/* Leaves the group: its settled prefixes are committed, and nothing more is received. Returns at
 * once; the partitions go in a later kafka_source_receive (see kafka_source_take_revoked), which is
 * to be called on. Until then a settle still counts. May be called twice. */
void kafka_source_leave(struct kafka_source *source);
/* True when, after kafka_source_leave, no partition is ours and the last commit has been answered.
 * With the brokers away that takes as long as they are: bound the wait. */
bool kafka_source_has_left(const struct kafka_source *source);

/* Commits what is due by time or count; `all` makes everything due. */
void kafka_source_commit(struct kafka_source *source, bool all);
/* True when every settled prefix is committed, as far as it can be. */
bool kafka_source_is_committed(const struct kafka_source *source);
/* When kafka_source_commit has something to do (monotonic ns); INT64_MAX = nothing. */
int64_t kafka_source_deadline_ns(const struct kafka_source *source);

/* True once the group has answered, even if it gave no partition. */
bool kafka_source_is_assigned(const struct kafka_source *source);
/* True after a fatal error; err says why. Close and exit: what is not committed comes again. */
bool kafka_source_has_failed(const struct kafka_source *source, char *err, size_t err_bytes);
void kafka_source_stats(const struct kafka_source *source, struct kafka_source_stats *out);

/* Leaves the group and frees everything; release all records before. Blocks, about a session
 * timeout at most. Accepts NULL. */
void kafka_source_close(struct kafka_source *source);

#endif
