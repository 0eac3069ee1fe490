/* The thread pool: every tile once, no lost wake-up, the floating-point mode. */
#include "tests/support/test.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "kernels/pool.h"

#define TILES_MAX 5000u

struct counts {
    uint32_t threads;
    uint32_t runs[TILES_MAX]; /* plain: a tile belongs to one thread */
    atomic_uint wrong_workers;
    atomic_uint busy[POOL_THREADS_MAX];
};

static void count_tile(void *context, uint32_t tile, uint32_t worker) {
    struct counts *counts = context;
    counts->runs[tile]++;
    if (worker >= counts->threads || atomic_fetch_add(&counts->busy[worker], 1) != 0) {
        atomic_fetch_add(&counts->wrong_workers, 1);
    }
    atomic_fetch_sub(&counts->busy[worker], 1);
}

static void runs_every_tile_once_on_one_worker(void **state) {
    static struct counts counts;
    for (uint32_t threads = 1; threads <= 8; threads++) {
        struct pool *pool = pool_open(threads);
        assert_non_null(pool);
        assert_int_equal(pool_threads(pool), threads);
        const uint32_t tiles[] = {0, 1, 2, 3, 7, 64, TILES_MAX};
        for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
            memset(&counts, 0, sizeof counts);
            counts.threads = threads;
            pool_run(pool, count_tile, &counts, tiles[i]);
            for (uint32_t t = 0; t < TILES_MAX; t++) {
                assert_int_equal(counts.runs[t], t < tiles[i] ? 1 : 0);
            }
            assert_int_equal(atomic_load(&counts.wrong_workers), 0);
        }
        pool_close(pool);
    }
    pool_close(NULL);
}

struct sums {
    uint64_t part[64];
    uint64_t base;
};

static void sum_tile(void *context, uint32_t tile, uint32_t worker) {
    (void)worker;
    struct sums *sums = context;
    sums->part[tile] = sums->base + tile;
}

/* Many short runs back to back, with pauses in which threads park: a lost wake-up would hang, a
 * tile left behind would show in the sums. */
static void loses_no_wake_up_over_many_short_runs(void **state) {
    uint64_t random = test_seed();
    struct pool *pool = pool_open(4);
    for (uint64_t run = 0; run < 6000; run++) {
        struct sums sums = {.base = run};
        uint32_t tiles = 1 + (uint32_t)(test_random(&random) % 64);
        pool_run(pool, sum_tile, &sums, tiles);
        for (uint32_t t = 0; t < tiles; t++) {
            assert_true(sums.part[t] == run + t);
        }
        for (uint64_t pause = run % 16 == 0 ? 30 : 0; pause > 0; pause--) {
            sched_yield(); /* long enough for idle threads to park now and then */
        }
    }
    pool_close(pool);
}

static void opens_and_closes_without_a_run(void **state) {
    for (uint32_t i = 0; i < 40; i++) {
        struct pool *pool = pool_open(1 + i % 5);
        assert_non_null(pool);
        pool_close(pool);
    }
}

struct seen_threads {
    pthread_t caller;
    atomic_uint elsewhere;
};

static void note_thread(void *context, uint32_t tile, uint32_t worker) {
    (void)tile;
    struct seen_threads *seen = context;
    if (worker != 0 || !pthread_equal(pthread_self(), seen->caller)) {
        atomic_fetch_add(&seen->elsewhere, 1);
    }
}

static void one_thread_means_no_other_thread(void **state) {
    struct pool *pool = pool_open(1);
    struct seen_threads seen = {.caller = pthread_self()};
    pool_run(pool, note_thread, &seen, 1000);
    assert_int_equal(atomic_load(&seen.elsewhere), 0);
    pool_close(pool);
}

struct rendezvous {
    atomic_uint arrived;
    atomic_uint workers; /* bit set */
    uint32_t wanted;
};

/* Each tile waits until all have been claimed: only possible if every thread takes one. */
static void meet(void *context, uint32_t tile, uint32_t worker) {
    (void)tile;
    struct rendezvous *all = context;
    atomic_fetch_or(&all->workers, 1u << worker);
    atomic_fetch_add(&all->arrived, 1);
    while (atomic_load(&all->arrived) < all->wanted) {
        sched_yield();
    }
}

static void wakes_every_thread_it_needs(void **state) {
    struct pool *pool = pool_open(4);
    for (uint32_t wanted = 2; wanted <= 4; wanted++) {
        for (uint32_t run = 0; run < 50; run++) {
            struct rendezvous all = {.wanted = wanted};
            pool_run(pool, meet, &all, wanted);
            assert_int_equal(atomic_load(&all.arrived), wanted);
            assert_int_equal(__builtin_popcount(atomic_load(&all.workers)), wanted);
        }
    }
    pool_close(pool);
}

static void cover(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    (void)worker;
    uint8_t *covered = context;
    for (uint32_t i = begin; i < end; i++) {
        covered[i]++;
    }
}

static void ranges_cover_all_items_once(void **state) {
    static uint8_t covered[3000];
    for (uint32_t threads = 1; threads <= 3; threads++) {
        struct pool *pool = pool_open(threads);
        const uint64_t costs[] = {0, 1, 100, 5000, UINT64_MAX / 2};
        for (size_t c = 0; c < sizeof costs / sizeof costs[0]; c++) {
            for (uint32_t items = 0; items <= 3000; items = items * 3 + 1) {
                memset(covered, 0, sizeof covered);
                pool_run_ranges(pool, cover, covered, items, costs[c]);
                for (uint32_t i = 0; i < 3000; i++) {
                    assert_int_equal(covered[i], i < items);
                }
            }
        }
        pool_close(pool);
    }
}

#if defined(__x86_64__)
static void check_mode(void *context, uint32_t tile, uint32_t worker) {
    meet(context, tile, worker);
    struct rendezvous *all = context;
    if ((_mm_getcsr() & 0xFFC0u) != 0x1F80u) { /* all but the sticky flags */
        atomic_fetch_or(&all->workers, 1u << 31);
    }
}
#endif

static void every_thread_rounds_to_nearest_and_flushes_nothing(void **state) {
#if defined(__x86_64__)
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040u); /* flush to zero, denormals are zero: new threads inherit it */
    struct pool *pool = pool_open(3);
    pool_enter_thread();
    struct rendezvous all = {.wanted = 3};
    pool_run(pool, check_mode, &all, 3);
    assert_int_equal(atomic_load(&all.workers), 7);
    pool_close(pool);
    _mm_setcsr(before);
#else
    skip();
#endif
}

TEST_MAIN(cmocka_unit_test(runs_every_tile_once_on_one_worker),
          cmocka_unit_test(loses_no_wake_up_over_many_short_runs),
          cmocka_unit_test(opens_and_closes_without_a_run),
          cmocka_unit_test(one_thread_means_no_other_thread),
          cmocka_unit_test(wakes_every_thread_it_needs),
          cmocka_unit_test(ranges_cover_all_items_once),
          cmocka_unit_test(every_thread_rounds_to_nearest_and_flushes_nothing))
