#include "consumer/status_breaker.h"

#include "engine/clock.h"

bool status_breaker_allows(const struct status_breaker *breaker, int64_t now_ns) {
    return !breaker->is_open || (!breaker->is_probing && now_ns >= breaker->open_until_ns);
}

bool status_breaker_begin(struct status_breaker *breaker) {
    breaker->is_probing = breaker->is_open;
    return breaker->is_open;
}

void status_breaker_answered(struct status_breaker *breaker, bool is_probe) {
    if (!breaker->is_open || is_probe) {
        status_breaker_reset(breaker);
    }
}

static void status_breaker_open(struct status_breaker *breaker, int64_t pause_ms, int64_t now_ns) {
    breaker->is_open = true;
    breaker->is_probing = false;
    breaker->pause_ms =
        pause_ms < STATUS_BREAKER_PAUSE_MS_MAX ? pause_ms : STATUS_BREAKER_PAUSE_MS_MAX;
    breaker->open_until_ns = now_ns + breaker->pause_ms * CLOCK_NS_PER_MS;
}

void status_breaker_missed(struct status_breaker *breaker, bool is_probe, int64_t now_ns) {
    if (breaker->is_open) {
        if (is_probe) {
            status_breaker_open(breaker, 2 * breaker->pause_ms, now_ns);
        }
    } else if (++breaker->misses >= breaker->misses_max) {
        breaker->opened_total++;
        status_breaker_open(breaker, STATUS_BREAKER_PAUSE_MS_MIN, now_ns);
    }
}

int64_t status_breaker_deadline_ns(const struct status_breaker *breaker) {
    return breaker->is_open && !breaker->is_probing ? breaker->open_until_ns : INT64_MAX;
}

void status_breaker_reset(struct status_breaker *breaker) {
    *breaker = (struct status_breaker){.misses_max = breaker->misses_max,
                                       .opened_total = breaker->opened_total};
}
