/* What a pipeline benchmark needs around it: a broker with its topics, and a Redis.
 *
 * What the user names is used; what he does not is started here (the in-process broker, a
 * redis-server found in PATH on a socket in a temporary folder) and stopped and removed again. One
 * thread. Owns all it starts. Refuses to know what is measured. */
#ifndef SOLFLEET_CONSUMER_BENCH_SERVICES_H
#define SOLFLEET_CONSUMER_BENCH_SERVICES_H

#include <stddef.h>

#include "consumer/bench_child.h"
#include "consumer/config.h"

struct kafka_broker;

struct bench_services {
    struct config config; /* the caller's, shallow, with the addresses of what was started */
    char folder[64];
    char redis_socket[128], redis_log[128];
    struct bench_child redis;
    struct kafka_broker *broker;
};

/* brokers and redis: NULL = start one. Makes the topics where they are missing. Returns a
 * command_exit; err says what went wrong. Whatever it returns, close is due. */
int bench_services_open(struct bench_services *services, const struct config *config,
                        const char *brokers, const char *redis, int partitions, char *err,
                        size_t err_bytes);
void bench_services_close(struct bench_services *services); /* accepts zeroed */

#endif
