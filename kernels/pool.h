/* A pool: the threads that run the CPU device's kernels.
 *
 * Design. A run has tile_count tiles. The caller and the pool's own threads claim whole tiles, one
 * at a time, by lowering an atomic counter; whoever comes late finds none and harms nobody, so a
 * thread that lost its core delays a run by at most the tile it holds. Own threads spin briefly for
 * the next run, then park on a futex; the caller does the same for the last tiles of others.
 * With one thread no other thread exists and a run is a loop.
 *
 * Threads: pool_run from one thread at a time. Memory: one allocation, at pool_open. Refuses to
 * know what tiles compute; tiles of a run must not depend on each other. Each of its threads sets
 * MXCSR to 0x1F80 (round to nearest even, nothing flushed, nothing trapped); the caller uses
 * pool_enter_thread for itself. */
#ifndef SOLFLEET_KERNELS_POOL_H
#define SOLFLEET_KERNELS_POOL_H

#include <stdbool.h>
#include <stdint.h>

#define POOL_THREADS_MAX 256u

struct pool;

/* worker: 0 is the caller, others 1 .. threads - 1; a worker runs one tile at a time. */
typedef void pool_tile_fn(void *context, uint32_t tile, uint32_t worker);

/* threads counts the caller: 1 .. POOL_THREADS_MAX. NULL when memory or threads ran out. */
struct pool *pool_open(uint32_t threads);
void pool_close(struct pool *pool); /* accepts NULL; no run may be under way */

uint32_t pool_threads(const struct pool *pool);

/* Returns when every tile is done; what they wrote is visible to the caller. */
void pool_run(struct pool *pool, pool_tile_fn *fn, void *context, uint32_t tile_count);

typedef void pool_range_fn(void *context, uint32_t begin, uint32_t end, uint32_t worker);

/* Covers 0 .. items - 1 with ranges: long enough to be worth handing over, and enough of them that
 * threads end together. cost: of one item, in about nanoseconds. */
void pool_run_ranges(struct pool *pool, pool_range_fn *fn, void *context, uint32_t items,
                     uint64_t cost);

/* Floating-point mode of the calling thread. */
void pool_enter_thread(void);

#endif
