#include "engine/forward_ahead.h"

#include <assert.h>
#include <string.h>

#include "engine/forward_pass.h"

enum {
    FORWARD_AHEAD_GRAIN_BYTES = 64, /* compared at a time */
    FORWARD_AHEAD_GAP_BYTES = 2048  /* less of what is right is sent again: a copy costs more */
};

/* ---------------------------------------------------------------- open and close */

static size_t forward_ahead_place(const struct batch_limits *limits, void *base,
                                  struct forward_inputs *in, size_t *fixed_bytes) {
    struct forward_layout layout = {.base = base};
    *fixed_bytes = forward_inputs_place(&layout, limits, in);
    return layout.bytes;
}

size_t forward_ahead_bytes(const struct batch_limits *limits) {
    struct forward_inputs in;
    size_t fixed_bytes;
    return forward_ahead_place(limits, NULL, &in, &fixed_bytes);
}

enum kernels_status forward_ahead_open(struct forward_ahead *ahead, struct device *device,
                                       const struct batch_limits *limits) {
    size_t bytes = forward_ahead_bytes(limits);
    void *region = NULL;
    memset(ahead, 0, sizeof *ahead);
    ahead->device = device;
    enum kernels_status status = device_alloc(device, DEVICE_MEMORY, bytes, &region);
    ahead->region = region;
    for (int i = 0; i < FORWARD_AHEAD_GUESSES && status == KERNELS_OK; i++) {
        status = device_alloc(device, DEVICE_MEMORY_PINNED, bytes, &ahead->pinned[i]);
        if (status == KERNELS_OK) {
            memset(ahead->pinned[i], 0, bytes);
            forward_ahead_place(limits, ahead->pinned[i], &ahead->guesses[i], &ahead->fixed_bytes);
        }
    }
    if (status == KERNELS_OK) {
        forward_ahead_place(limits, region, &ahead->placed, &ahead->fixed_bytes);
        status = device_event_open(device, &ahead->sent);
    }
    if (status == KERNELS_OK) {
        status = device_event_open(device, &ahead->taken);
    }
    if (status != KERNELS_OK) {
        forward_ahead_close(ahead);
    }
    return status;
}

/* A guess that nobody took may still be read from pinned memory. */
void forward_ahead_close(struct forward_ahead *ahead) {
    char ignored[64];
    if (ahead->device == NULL) {
        return;
    }
    if (ahead->is_under_way) {
        enum kernels_status status = device_sync(ahead->device, ignored, sizeof ignored);
        (void)status; /* nothing is left to be told */
    }
    device_event_close(ahead->device, ahead->sent);
    device_event_close(ahead->device, ahead->taken);
    for (int i = 0; i < FORWARD_AHEAD_GUESSES; i++) {
        device_free(ahead->device, DEVICE_MEMORY_PINNED, ahead->pinned[i]);
    }
    device_free(ahead->device, DEVICE_MEMORY, ahead->region);
    memset(ahead, 0, sizeof *ahead);
}

/* ---------------------------------------------------------------- send */

static enum kernels_status forward_ahead_copy_guess(struct forward_ahead *ahead,
                                                    const struct forward_inputs *guess) {
    struct device *device = ahead->device;
    enum kernels_status status =
        device_copy_in(device, DEVICE_STREAM_COPY, ahead->region, guess->token, ahead->fixed_bytes);
    if (status == KERNELS_OK) {
        status = device_copy_in(device, DEVICE_STREAM_COPY, ahead->placed.seen_id, guess->seen_id,
                                ahead->seen_bytes);
    }
    return status == KERNELS_OK
               ? device_copy_in(device, DEVICE_STREAM_COPY, ahead->placed.seen_count,
                                guess->seen_count, ahead->seen_bytes)
               : status;
}

enum kernels_status forward_ahead_send(struct forward_ahead *ahead, const struct batch *guess,
                                       const struct forward_pass *pass) {
    assert(!ahead->is_under_way);
    ahead->last = (ahead->last + 1) % FORWARD_AHEAD_GUESSES;
    ahead->seen_bytes = (size_t)guess->seen_begin[guess->sampled_count] * sizeof *guess->seen_id;
    const struct forward_inputs *staged = &ahead->guesses[ahead->last];
    forward_inputs_stage(staged, guess, pass);
    enum kernels_status status = device_event_wait(ahead->device, ahead->taken, DEVICE_STREAM_COPY);
    if (status == KERNELS_OK) {
        status = forward_ahead_copy_guess(ahead, staged);
    }
    if (status == KERNELS_OK) {
        status = device_event_record(ahead->device, ahead->sent, DEVICE_STREAM_COPY);
    }
    ahead->is_under_way = true; /* some of it, should it have failed */
    return status;
}

/* ---------------------------------------------------------------- take */

static enum kernels_status forward_ahead_move(struct forward_ahead *ahead,
                                              const struct forward_inputs *to) {
    struct device *device = ahead->device;
    enum kernels_status status = device_copy_within(device, DEVICE_STREAM_COMPUTE, to->token,
                                                    ahead->region, ahead->fixed_bytes);
    if (status == KERNELS_OK) {
        status = device_copy_within(device, DEVICE_STREAM_COMPUTE, to->seen_id,
                                    ahead->placed.seen_id, ahead->seen_bytes);
    }
    return status == KERNELS_OK ? device_copy_within(device, DEVICE_STREAM_COMPUTE, to->seen_count,
                                                     ahead->placed.seen_count, ahead->seen_bytes)
                                : status;
}

/* Bytes of the inputs that are to follow, and what has been sent of them so far. */
struct forward_ahead_patch {
    struct device *device;
    unsigned char *to;
    const unsigned char *staged, *guess;
    size_t begin, end; /* not yet sent; empty at first */
    enum kernels_status status;
};

static void forward_ahead_flush(struct forward_ahead_patch *patch) {
    if (patch->status == KERNELS_OK) {
        patch->status =
            device_copy_in(patch->device, DEVICE_STREAM_COMPUTE, patch->to + patch->begin,
                           patch->staged + patch->begin, patch->end - patch->begin);
    }
}

static void forward_ahead_add(struct forward_ahead_patch *patch, size_t begin, size_t bytes) {
    if (patch->end > 0 && begin - patch->end <= FORWARD_AHEAD_GAP_BYTES) {
        patch->end = begin + bytes;
        return;
    }
    forward_ahead_flush(patch);
    patch->begin = begin;
    patch->end = begin + bytes;
}

/* Of an array only the first `guessed` bytes were sent. */
static void forward_ahead_compare(struct forward_ahead_patch *patch,
                                  const struct forward_inputs_part *part, size_t guessed) {
    size_t end = part->begin + part->bytes;
    size_t known_end = part->begin + (guessed < part->bytes ? guessed : part->bytes);
    for (size_t at = part->begin; at < known_end; at += FORWARD_AHEAD_GRAIN_BYTES) {
        size_t left = known_end - at;
        size_t bytes = left < FORWARD_AHEAD_GRAIN_BYTES ? left : FORWARD_AHEAD_GRAIN_BYTES;
        if (memcmp(patch->staged + at, patch->guess + at, bytes) != 0) {
            forward_ahead_add(patch, at, bytes);
        }
    }
    if (known_end < end) {
        forward_ahead_add(patch, known_end, end - known_end);
    }
}

static enum kernels_status forward_ahead_correct(const struct forward_ahead *ahead,
                                                 const struct forward_inputs *to,
                                                 const struct forward_inputs *staged,
                                                 const struct batch *batch,
                                                 const struct forward_pass *pass) {
    struct forward_inputs_part parts[FORWARD_INPUTS_PARTS];
    struct forward_ahead_patch patch = {
        .device = ahead->device,
        .to = (unsigned char *)to->token,
        .staged = (const unsigned char *)staged->token,
        .guess = (const unsigned char *)ahead->guesses[ahead->last].token};
    forward_inputs_list(staged, batch, pass, parts);
    for (int i = 0; i < FORWARD_INPUTS_PARTS; i++) {
        forward_ahead_compare(&patch, &parts[i],
                              i < FORWARD_INPUTS_FIXED ? parts[i].bytes : ahead->seen_bytes);
    }
    forward_ahead_flush(&patch);
    return patch.status;
}

enum kernels_status forward_ahead_take(struct forward_ahead *ahead, const struct forward_inputs *to,
                                       const struct forward_inputs *staged,
                                       const struct batch *batch, const struct forward_pass *pass) {
    assert(ahead->is_under_way);
    enum kernels_status status =
        device_event_wait(ahead->device, ahead->sent, DEVICE_STREAM_COMPUTE);
    if (status == KERNELS_OK) {
        status = forward_ahead_move(ahead, to);
    }
    if (status == KERNELS_OK) {
        status = device_event_record(ahead->device, ahead->taken, DEVICE_STREAM_COMPUTE);
    }
    if (status == KERNELS_OK) {
        ahead->is_under_way = false;
        status = forward_ahead_correct(ahead, to, staged, batch, pass);
    }
    return status;
}
