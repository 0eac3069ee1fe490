/* What to do about a missing topic: the sentence with the command that makes it. Any thread; no
 * state. Refuses to know who misses it. */
#ifndef SOLFLEET_CONSUMER_TOPICS_HINT_H
#define SOLFLEET_CONSUMER_TOPICS_HINT_H

#include <stddef.h>

struct config;

/* "topic 'x' does not exist; make it with: solfleet topics create --brokers ...", ready to be
 * copied: topics that are not called as usual are named. */
void topics_hint_missing(const struct config *config, const char *topic, char *out,
                         size_t out_bytes);

#endif
