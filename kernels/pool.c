#include "kernels/pool.h"

#include <assert.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* About 20 us: the next op of a step comes sooner, the next step may not. */
#define POOL_SPINS 500u
/* Handing a tile to a thread that spins costs some 200 ns; this is worth it several times over. */
#define POOL_TILE_COST_MIN 1500u
#define POOL_TILES_PER_THREAD 4u

struct pool_worker {
    struct pool *pool;
    pthread_t thread;
    uint32_t index;
};

struct pool {
    uint32_t threads;
    atomic_bool stopping;

    /* Written by pool_run only while no tile is claimed or left; read only by holders of a tile. */
    pool_tile_fn *fn;
    void *context;
    uint32_t tile_count;

    _Alignas(64) _Atomic uint32_t tiles_left; /* claimed by lowering it */
    _Alignas(64) _Atomic uint32_t tiles_done; /* futex of the caller */
    _Atomic uint32_t caller_parked;           /* 1 while the caller may sleep on tiles_done */
    _Alignas(64) _Atomic uint32_t run_number; /* futex of the own threads */
    _Atomic uint32_t workers_parked;

    struct pool_worker workers[]; /* [threads - 1] */
};

static void pool_futex_wait(_Atomic uint32_t *word, uint32_t while_equal) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, while_equal, NULL, NULL, 0);
}

static void pool_futex_wake(_Atomic uint32_t *word, uint32_t count) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static void pool_pause(void) {
#if defined(__x86_64__)
    _mm_pause();
#endif
}

void pool_enter_thread(void) {
#if defined(__x86_64__)
    _mm_setcsr(0x1F80u);
#endif
}

/* Takes a tile, or says that none is left. The acquire makes the run's fields readable; they stay
 * until this tile is counted done. */
static bool pool_claim(struct pool *pool, uint32_t *tile) {
    uint32_t left = atomic_load_explicit(&pool->tiles_left, memory_order_relaxed);
    while (left > 0) {
        if (atomic_compare_exchange_weak_explicit(&pool->tiles_left, &left, left - 1,
                                                  memory_order_acquire, memory_order_relaxed)) {
            *tile = pool->tile_count - left;
            return true;
        }
    }
    return false;
}

static void pool_work(struct pool *pool, uint32_t worker) {
    uint32_t tile;
    while (pool_claim(pool, &tile)) {
        uint32_t tile_count = pool->tile_count;
        pool->fn(pool->context, tile, worker);
        /* Sequentially consistent with caller_parked: either the caller sees the last count before
         * it sleeps, or this thread sees that it sleeps. */
        if (atomic_fetch_add(&pool->tiles_done, 1) + 1 == tile_count &&
            atomic_load(&pool->caller_parked) != 0) {
            pool_futex_wake(&pool->tiles_done, 1);
        }
    }
}

/* Waits for a run other than `seen`: spins, then parks. The futex compares run_number again inside
 * the kernel, and pool_run reads workers_parked after raising run_number: no wake-up is lost. */
static void pool_wait_for_run(struct pool *pool, uint32_t seen) {
    for (uint32_t spin = 0; spin < POOL_SPINS; spin++) {
        if (atomic_load_explicit(&pool->run_number, memory_order_acquire) != seen) {
            return;
        }
        pool_pause();
    }
    atomic_fetch_add(&pool->workers_parked, 1);
    while (atomic_load(&pool->run_number) == seen) {
        pool_futex_wait(&pool->run_number, seen);
    }
    atomic_fetch_sub(&pool->workers_parked, 1);
}

static void *pool_thread(void *argument) {
    const struct pool_worker *self = argument;
    struct pool *pool = self->pool;
    pool_enter_thread();
    uint32_t seen = 0;
    for (;;) {
        pool_wait_for_run(pool, seen);
        seen = atomic_load(&pool->run_number);
        if (atomic_load(&pool->stopping)) {
            return NULL;
        }
        pool_work(pool, self->index);
    }
}

static void pool_announce(struct pool *pool, uint32_t wanted) {
    atomic_fetch_add(&pool->run_number, 1);
    if (atomic_load(&pool->workers_parked) > 0) {
        pool_futex_wake(&pool->run_number, wanted);
    }
}

static void pool_wait_done(struct pool *pool) {
    for (uint32_t spin = 0; spin < POOL_SPINS; spin++) {
        if (atomic_load_explicit(&pool->tiles_done, memory_order_acquire) == pool->tile_count) {
            return;
        }
        pool_pause();
    }
    atomic_store(&pool->caller_parked, 1);
    for (;;) {
        uint32_t done = atomic_load(&pool->tiles_done);
        if (done == pool->tile_count) {
            break;
        }
        pool_futex_wait(&pool->tiles_done, done);
    }
    atomic_store(&pool->caller_parked, 0);
}

void pool_run(struct pool *pool, pool_tile_fn *fn, void *context, uint32_t tile_count) {
    if (pool->threads == 1 || tile_count <= 1) {
        for (uint32_t tile = 0; tile < tile_count; tile++) {
            fn(context, tile, 0);
        }
        return;
    }
    pool->fn = fn;
    pool->context = context;
    pool->tile_count = tile_count;
    atomic_store_explicit(&pool->tiles_done, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->tiles_left, tile_count, memory_order_release);
    uint32_t others = pool->threads - 1;
    pool_announce(pool, others < tile_count - 1 ? others : tile_count - 1);
    pool_work(pool, 0);
    pool_wait_done(pool);
}

struct pool_ranges {
    pool_range_fn *fn;
    void *context;
    uint32_t items;
    uint32_t length;
};

static void pool_range_tile(void *context, uint32_t tile, uint32_t worker) {
    const struct pool_ranges *ranges = context;
    uint32_t begin = tile * ranges->length; /* < items: no overflow */
    uint32_t left = ranges->items - begin;
    ranges->fn(ranges->context, begin, begin + (left < ranges->length ? left : ranges->length),
               worker);
}

/* Tiles for work of `cost` in all: as many as are worth handing over, at most a few for each thread
 * (whoever is slowed down then gets fewer), and as many for each thread where there are enough. */
static uint32_t pool_tiles_for(const struct pool *pool, uint32_t items, double cost) {
    double worth = cost / POOL_TILE_COST_MIN;
    uint32_t most = pool->threads * POOL_TILES_PER_THREAD;
    uint32_t tiles = worth < most ? (uint32_t)worth : most;
    tiles = tiles > pool->threads ? tiles - tiles % pool->threads : tiles;
    tiles = tiles < items ? tiles : items;
    return tiles > 0 ? tiles : 1;
}

void pool_run_ranges(struct pool *pool, pool_range_fn *fn, void *context, uint32_t items,
                     uint64_t cost) {
    if (items == 0) {
        return;
    }
    uint32_t tiles = pool_tiles_for(pool, items, (double)cost * items);
    struct pool_ranges ranges = {fn, context, items, (items - 1) / tiles + 1};
    pool_run(pool, pool_range_tile, &ranges, (items - 1) / ranges.length + 1);
}

uint32_t pool_threads(const struct pool *pool) {
    return pool->threads;
}

/* Ends the first `started` own threads and frees the pool. */
static void pool_stop(struct pool *pool, uint32_t started) {
    atomic_store(&pool->stopping, true);
    pool_announce(pool, INT_MAX);
    for (uint32_t i = 0; i < started; i++) {
        int joined = pthread_join(pool->workers[i].thread, NULL);
        assert(joined == 0);
        (void)joined;
    }
    free(pool);
}

struct pool *pool_open(uint32_t threads) {
    assert(threads >= 1 && threads <= POOL_THREADS_MAX);
    size_t bytes = sizeof(struct pool) + (threads - 1) * sizeof(struct pool_worker);
    struct pool *pool = aligned_alloc(64, (bytes + 63u) & ~(size_t)63u);
    if (pool == NULL) {
        return NULL;
    }
    *pool = (struct pool){.threads = threads};
    for (uint32_t i = 0; i < threads - 1; i++) {
        pool->workers[i] = (struct pool_worker){.pool = pool, .index = i + 1};
        if (pthread_create(&pool->workers[i].thread, NULL, pool_thread, &pool->workers[i]) != 0) {
            pool_stop(pool, i);
            return NULL;
        }
    }
    return pool;
}

void pool_close(struct pool *pool) {
    if (pool != NULL) {
        pool_stop(pool, pool->threads - 1);
    }
}
