/* A topic list: the topics that jobs come from, the most urgent first, and one
 * number for each of their partitions.
 *
 * With one topic a partition's number is its own. Plain values, no memory, any
 * thread. Refuses to know the client library. */
#ifndef SOLFLEET_CONSUMER_TOPIC_LIST_H
#define SOLFLEET_CONSUMER_TOPIC_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOPIC_LIST_MAX 8
#define TOPIC_LIST_NAME_BYTES 250 /* Kafka's own limit, with the NUL */

struct topic_list {
    int32_t count;
    char names[TOPIC_LIST_MAX][TOPIC_LIST_NAME_BYTES];
};

/* Names with commas between. False with the reason: none, too many, one twice,
 * one too long. */
bool topic_list_read(struct topic_list *list, const char *text, char *err, size_t err_bytes);

/* The place of a topic in the list; -1: it is not in it. */
int32_t topic_list_find(const struct topic_list *list, const char *name);

int32_t topic_list_number(const struct topic_list *list, int32_t index, int32_t partition);
int32_t topic_list_index(const struct topic_list *list, int32_t number);
int32_t topic_list_partition(const struct topic_list *list, int32_t number);
const char *topic_list_name(const struct topic_list *list, int32_t number);

#endif
