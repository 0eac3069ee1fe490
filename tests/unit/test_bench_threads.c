#include "consumer/bench_threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "tests/support/test.h"

#define BUSY_NS 20000000 /* of processor time: more than a scheduler's tick */

static _Atomic bool may_end;

static void *be_busy(void *name) {
    struct timespec now = {0};
    pthread_setname_np(pthread_self(), name);
    while (now.tv_nsec < BUSY_NS && now.tv_sec == 0) {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    }
    while (!may_end) {
        sched_yield();
    }
    return NULL;
}

static void tells_threads_apart_by_their_names(void **state) {
    char *names[] = {BENCH_THREADS_WORKER, "engine", "rdk:main", "another"};
    pthread_t threads[4];
    struct bench_threads before, now;
    bench_threads_read(&before);
    may_end = false;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, be_busy, names[i]), 0);
    }
    do {
        bench_threads_read(&now);
    } while (now.worker_ns < BUSY_NS || now.engine_ns < BUSY_NS || now.kafka_ns < BUSY_NS ||
             now.load_ns - before.load_ns < BUSY_NS);
    may_end = true;
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
}

TEST_MAIN(cmocka_unit_test(tells_threads_apart_by_their_names))
