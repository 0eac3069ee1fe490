/* The intake share: which partitions of several topics may go on being consumed, so that none takes
 * the room of a more urgent one.
 *
 * Half of the slots (records in flight) is reserved, as much for each topic, and of that as much
 * for each of its partitions, one at least: a partition always has room for so many. The other half
 * is common. Of n topics, the most urgent the first (0), topic i goes beyond its own only while
 * fewer than (n - i) / n of the common ones are in use. What was shut for that opens when it is
 * within its own again, or an eighth less is in use.
 *
 * Pure; no memory; any thread. Refuses to know topics by name, and how consuming is stopped. */
#ifndef SOLFLEET_CONSUMER_INTAKE_SHARE_H
#define SOLFLEET_CONSUMER_INTAKE_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INTAKE_SHARE_TOPICS_MAX 8

struct intake_share_partition {
    uint32_t topic; /* its place in the list of topics */
    uint32_t held;  /* records in flight */
    bool is_shut;   /* in: so far; out: from now on */
};

void intake_share_decide(struct intake_share_partition *partitions, size_t count,
                         uint32_t topic_count, uint32_t slots);

#endif
