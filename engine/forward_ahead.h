/* What is sent ahead: a guess of the next step's inputs, copied on the copy stream while the step
 * before it computes.
 *
 * DESIGN. Of the next step's inputs only the tokens being drawn are unknown while a step computes;
 * page tables, positions, sampling parameters and the chunks of prompts follow from the step that
 * runs, unless a job ends, joins or is cancelled meanwhile. So the engine guesses the next batch,
 * and the guess goes to a region of its own. When the real batch is there, the device copies the
 * guess to the inputs' fixed addresses, and then only the bytes in which the real batch differs
 * follow from the host: the tokens, and whatever the guess got wrong. A bad guess costs bytes and
 * never an answer, since it is compared and not trusted.
 *
 * The copy within the device takes what is some hundred kilobytes at the worst from memory to
 * memory; in return kernels and captured graphs know one set of addresses. Two sets would need each
 * graph twice. Reading tokens where they were drawn would save the host nothing: it waits for them
 * anyway, to see which jobs end, before it can launch.
 *
 *     copy stream      wait(taken)  guess -> region  record(sent)
 *     compute stream   wait(sent)  region -> inputs  record(taken)  differences -> inputs  the pass
 *
 * The host waits for the compute stream only, so a guess under way never delays a token. Pinned
 * guesses take turns: when a third is written, the step that took the first has ended.
 *
 * One thread. Owns region, guesses and events; borrows the device. Refuses to know what is
 * guessed. */
#ifndef SOLFLEET_ENGINE_FORWARD_AHEAD_H
#define SOLFLEET_ENGINE_FORWARD_AHEAD_H

#include "engine/forward_inputs.h"

enum { FORWARD_AHEAD_GUESSES = 2 };

struct forward_ahead {
    struct device *device; /* borrowed; NULL: nothing is sent ahead */
    unsigned char *region;
    size_t fixed_bytes;           /* from its begin on, the penalty lists left out */
    struct forward_inputs placed; /* in the region */
    void *pinned[FORWARD_AHEAD_GUESSES];
    struct forward_inputs guesses[FORWARD_AHEAD_GUESSES]; /* in those */
    struct device_event *sent, *taken;
    size_t seen_bytes; /* of each list of the last guess */
    unsigned last;     /* where the last guess lies */
    bool is_under_way; /* no step has taken it yet */
};

/* The bytes of the region, and of each of the pinned guesses. */
size_t forward_ahead_bytes(const struct batch_limits *limits);

/* NO_MEMORY, or FAILED: what was reserved is closed again. */
enum kernels_status forward_ahead_open(struct forward_ahead *ahead, struct device *device,
                                       const struct batch_limits *limits)
    __attribute__((warn_unused_result));
void forward_ahead_close(struct forward_ahead *ahead); /* accepts zeroed */

/* Sends a guess, which a step has to take before the next one is sent. */
enum kernels_status forward_ahead_send(struct forward_ahead *ahead, const struct batch *guess,
                                       const struct forward_pass *pass)
    __attribute__((warn_unused_result));

/* Brings the inputs `to` to what is staged for a pass over the batch: the guess under way, and from
 * the host what differs from it. */
enum kernels_status forward_ahead_take(struct forward_ahead *ahead, const struct forward_inputs *to,
                                       const struct forward_inputs *staged,
                                       const struct batch *batch, const struct forward_pass *pass)
    __attribute__((warn_unused_result));

#endif
