/* A queue of librdkafka events with a descriptor for poll(2), fed by one or two handles.
 *
 * The descriptor is readable when events may be waiting. One thread takes; librdkafka's own threads
 * add. Owns the descriptor and its references to librdkafka's queues. Only for kafka_*.c. */
#ifndef SOLFLEET_CONSUMER_KAFKA_QUEUE_H
#define SOLFLEET_CONSUMER_KAFKA_QUEUE_H

#include <librdkafka/rdkafka.h>
#include <stddef.h>

#define KAFKA_QUEUE_SOURCES_MAX 2

struct kafka_queue {
    int fd;
    rd_kafka_queue_t *sources[KAFKA_QUEUE_SOURCES_MAX];
    size_t source_count;
};

void kafka_queue_open(struct kafka_queue *queue);

/* Moves a reference such as rd_kafka_queue_get_main gives. */
void kafka_queue_add(struct kafka_queue *queue, rd_kafka_queue_t *source);

/* Clears the descriptor; before polling. */
void kafka_queue_clear(struct kafka_queue *queue);

/* The next event and, in *source (may be NULL), whose it is: 0 for the first that was added, whose
 * events come first. NULL when there is none within wait_ms. */
rd_kafka_event_t *kafka_queue_poll(struct kafka_queue *queue, int wait_ms, size_t *source);

/* Gives the sources up, so that their handles can be destroyed; the descriptor stays. */
void kafka_queue_empty(struct kafka_queue *queue);
/* The same, and closes. */
void kafka_queue_close(struct kafka_queue *queue);

#endif
