#include "engine/clock.h"

#include <assert.h>
#include <stddef.h>
#include <time.h>

void clock_init(struct clock *clock) {
    clock->is_virtual = false;
    atomic_init(&clock->virtual_ns, 0);
    clock->start_unix_ms = 0;
}

void clock_init_virtual(struct clock *clock, int64_t monotonic_ns, int64_t start_unix_ms) {
    clock->is_virtual = true;
    atomic_init(&clock->virtual_ns, monotonic_ns);
    clock->start_unix_ms = start_unix_ms;
}

void clock_advance(struct clock *clock, int64_t ns) {
    assert(clock->is_virtual && ns >= 0);
    atomic_fetch_add(&clock->virtual_ns, ns);
}

static int64_t clock_read_ns(clockid_t id) {
    struct timespec now;
    int status = clock_gettime(id, &now);
    assert(status == 0);
    return (int64_t)now.tv_sec * CLOCK_NS_PER_S + now.tv_nsec;
}

int64_t clock_monotonic_ns(const struct clock *clock) {
    if (clock != NULL && clock->is_virtual) {
        return atomic_load(&clock->virtual_ns);
    }
    return clock_read_ns(CLOCK_MONOTONIC);
}

int64_t clock_unix_ms(const struct clock *clock) {
    if (clock != NULL && clock->is_virtual) {
        return clock->start_unix_ms + atomic_load(&clock->virtual_ns) / CLOCK_NS_PER_MS;
    }
    return clock_read_ns(CLOCK_REALTIME) / CLOCK_NS_PER_MS;
}
