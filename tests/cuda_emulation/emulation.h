/* The controls of the emulated CUDA device, for tests: its seed, its size, what went wrong on it,
 * and calls that are made to fail. What kernels and launchers see is in include/.
 *
 * One thread. Work is queued by stream and runs when the host waits: an order of streams, blocks
 * and threads drawn from the seed. The first fault of a kernel stops the launch, is printed with
 * kernel, block and thread, and stays, as on a card: every later call returns its error until
 * emulation_reset. Compiles as C11 and C++17. */
#ifndef SOLFLEET_TESTS_CUDA_EMULATION_EMULATION_H
#define SOLFLEET_TESTS_CUDA_EMULATION_EMULATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum emulation_fault {
    EMULATION_NO_FAULT,
    EMULATION_OUT_OF_BOUNDS, /* outside every allocation, or host memory */
    EMULATION_UNINITIALISED, /* a read of bytes that nothing wrote */
    EMULATION_RACE,          /* two threads, one of them writing, no barrier between */
    EMULATION_DIVERGENT,     /* a barrier or warp operation that not every thread reaches */
    EMULATION_MISALIGNED,
    EMULATION_RED_ZONE, /* bytes around an allocation changed: code that is not watched did it */
    EMULATION_HOST,     /* host code of a .cu file touches device memory */
    EMULATION_SUBSET    /* what the emulation does not cover: a partial mask, too much memory */
};

/* False where tests run on a real card, which knows nothing of what follows. */
bool emulation_is_there(void);
/* A fresh device: frees everything, forgets faults and injected failures, prints the seed. */
void emulation_reset(uint64_t seed);
void emulation_set_memory(size_t total_bytes);

enum emulation_fault emulation_last_fault(void);
const char *emulation_last_report(void); /* "" = none; valid until the next reset */
/* Allocations, streams, events, graphs and cuBLASLt objects that are not freed. */
size_t emulation_live_objects(void);

/* A call of the runtime or of cuBLASLt. */
struct emulation_noted {
    const char *name; /* "launch" for a kernel's */
    int stream;   /* that something was put on, by the order in which streams were made; or -1 */
    size_t bytes; /* of a copy */
};
/* The calls since the last reset, in their order, those included that failed; valid until the next
 * call. */
const struct emulation_noted *emulation_trace(size_t *count);

/* `hook` is told of every call from now on before it does anything; NULL: no longer. */
void emulation_watch_calls(void (*hook)(void *context, const char *name), void *context);
/* From now on every call fails, as on a card that has fallen off its bus. */
void emulation_lose_device(void);

/* From now on the stream made as `number` (from 0) does its work as late as events allow: when the
 * host waits and no other stream can go on. -1: none, the seed decides. */
void emulation_hold_stream(int number);
/* SOLFLEET_CUDA_SHUFFLES, or `usual`: how many orders a test is to run in. */
unsigned emulation_shuffles(unsigned usual);

/* The nth (from 1) call of `name` from now on returns `status`, without doing anything; NULL means
 * any call. Launches go by "launch". Later calls work again. */
void emulation_fail_call(const char *name, unsigned nth, int status);

/* Whatever is asked, every algorithm that cuBLASLt offers for an FP16 product splits K into so many
 * parts, until the next reset; 0 = as asked. */
void emulation_set_split_k(int parts);

#ifdef __cplusplus
}
#endif

#endif
