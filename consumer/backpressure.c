#include "consumer/backpressure.h"

bool backpressure_update(struct backpressure *pressure, const struct backpressure_load *load) {
    if (load->engine_is_busy || load->jobs >= pressure->jobs_high ||
        load->bytes >= pressure->bytes_high) {
        pressure->paused = true;
    } else if (load->jobs <= pressure->jobs_low && load->bytes <= pressure->bytes_low) {
        pressure->paused = false;
    }
    return pressure->paused;
}

uint32_t backpressure_room(const struct backpressure *pressure, uint32_t jobs) {
    return pressure->paused || jobs >= pressure->jobs_high ? 0 : pressure->jobs_high - jobs;
}
