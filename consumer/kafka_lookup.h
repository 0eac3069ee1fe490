/* Lookups of the Kafka source: what the group has of partitions that have just come, the offset and
 * the metadata beside it.
 *
 * Asked without waiting, for all partitions that are not started; they are held until the answer is
 * there. A failed one is asked again, for as long as it takes. Private to the Kafka source. */
#ifndef SOLFLEET_CONSUMER_KAFKA_LOOKUP_H
#define SOLFLEET_CONSUMER_KAFKA_LOOKUP_H

struct kafka_source;

/* Asks about what is not known, if there is any and nothing is under way. */
void kafka_lookup_ask(struct kafka_source *source);
/* Takes the answer, if it has come: starts the partitions. Asks again when that is due. */
void kafka_lookup_step(struct kafka_source *source);

#endif
