/* Processor time of this process's threads, by what they are for.
 *
 * From /proc, by the names that threads have; a thread without a name of its own belongs to the
 * load, as does one that has ended. One thread; the caller's memory. */
#ifndef SOLFLEET_CONSUMER_BENCH_THREADS_H
#define SOLFLEET_CONSUMER_BENCH_THREADS_H

#include <stdint.h>

#define BENCH_THREADS_WORKER "worker"

struct bench_threads {
    int64_t worker_ns, engine_ns;
    int64_t kafka_ns; /* of all Kafka clients: the worker's and the load's */
    int64_t load_ns;
};

/* Since the process began. */
void bench_threads_read(struct bench_threads *threads);

#endif
