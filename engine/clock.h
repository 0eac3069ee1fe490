/* A clock: monotonic nanoseconds to measure by, unix milliseconds to report; real or virtual.
 *
 * Threads: any; a virtual clock may be advanced by one thread and read by others. The caller's
 * memory, nothing to free. NULL stands for the real clock everywhere. Refuses to know what is
 * waited for: it tells the time and never sleeps. */
#ifndef SOLFLEET_ENGINE_CLOCK_H
#define SOLFLEET_ENGINE_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CLOCK_NS_PER_US 1000LL
#define CLOCK_NS_PER_MS 1000000LL
#define CLOCK_NS_PER_S 1000000000LL

struct clock {
    bool is_virtual;
    _Atomic int64_t virtual_ns; /* monotonic time of a virtual clock */
    int64_t start_unix_ms;      /* unix time of a virtual clock at virtual_ns 0 */
};

void clock_init(struct clock *clock);
/* A clock that moves only by clock_advance: tests then depend on no sleep. */
void clock_init_virtual(struct clock *clock, int64_t monotonic_ns, int64_t start_unix_ms);
void clock_advance(struct clock *clock, int64_t ns);

int64_t clock_monotonic_ns(const struct clock *clock);
int64_t clock_unix_ms(const struct clock *clock);

#endif
