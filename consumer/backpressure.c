#include "consumer/backpressure.h"

static bool backpressure_is_full(const struct backpressure *pressure,
                                 const struct backpressure_load *load) {
    if (load->engine_is_busy || load->jobs >= pressure->jobs_high ||
        load->bytes >= pressure->bytes_high) {
        return true;
    }
    bool is_low = load->jobs <= pressure->jobs_low && load->bytes <= pressure->bytes_low;
    return !is_low && pressure->advice != BACKPRESSURE_TAKE;
}

enum backpressure_advice backpressure_update(struct backpressure *pressure,
                                             const struct backpressure_load *load, int64_t now_ns) {
    if (!backpressure_is_full(pressure, load)) {
        pressure->advice = BACKPRESSURE_TAKE;
    } else if (pressure->advice == BACKPRESSURE_TAKE) {
        pressure->advice = BACKPRESSURE_HOLD;
        pressure->full_since_ns = now_ns;
    } else if (now_ns >= backpressure_deadline_ns(pressure)) {
        pressure->advice = BACKPRESSURE_PAUSE;
    }
    return pressure->advice;
}

int64_t backpressure_deadline_ns(const struct backpressure *pressure) {
    return pressure->advice == BACKPRESSURE_HOLD ? pressure->full_since_ns + pressure->hold_ns
                                                 : INT64_MAX;
}
