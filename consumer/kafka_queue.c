#include "consumer/kafka_queue.h"

#include <assert.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

void kafka_queue_open(struct kafka_queue *queue) {
    *queue = (struct kafka_queue){.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    assert(queue->fd >= 0);
}

void kafka_queue_add(struct kafka_queue *queue, rd_kafka_queue_t *source) {
    static const uint64_t one = 1;
    assert(queue->source_count < KAFKA_QUEUE_SOURCES_MAX);
    queue->sources[queue->source_count++] = source;
    rd_kafka_queue_io_event_enable(source, queue->fd, &one, sizeof one);
}

void kafka_queue_clear(struct kafka_queue *queue) {
    uint64_t count;
    ssize_t size = read(queue->fd, &count, sizeof count);
    (void)size; /* nothing to read is as good */
}

rd_kafka_event_t *kafka_queue_poll(struct kafka_queue *queue, int wait_ms, size_t *source) {
    for (size_t i = 0; i < queue->source_count; i++) {
        rd_kafka_event_t *event = rd_kafka_queue_poll(queue->sources[i], wait_ms);
        if (event != NULL) {
            if (source != NULL) {
                *source = i;
            }
            return event;
        }
    }
    return NULL;
}

void kafka_queue_empty(struct kafka_queue *queue) {
    for (size_t i = 0; i < queue->source_count; i++) {
        rd_kafka_queue_io_event_enable(queue->sources[i], -1, NULL, 0);
        rd_kafka_queue_destroy(queue->sources[i]);
    }
    queue->source_count = 0;
}

void kafka_queue_close(struct kafka_queue *queue) {
    kafka_queue_empty(queue);
    close(queue->fd);
}
