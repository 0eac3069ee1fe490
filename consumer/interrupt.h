/* An interrupt: a descriptor that becomes readable when the user (SIGINT) or the system (SIGTERM)
 * asks a command to stop.
 *
 * Opening blocks both signals for the thread and all it starts afterwards, so open it before any
 * library starts threads. The caller's memory, main thread. Refuses to know what stopping means. */
#ifndef SOLFLEET_CONSUMER_INTERRUPT_H
#define SOLFLEET_CONSUMER_INTERRUPT_H

#include <signal.h>
#include <stdbool.h>

struct interrupt {
    int fd;
    sigset_t before; /* the mask to go back to */
};

/* False when the system has no descriptor to give: *interrupt is then closed. */
bool interrupt_open(struct interrupt *interrupt) __attribute__((warn_unused_result));
void interrupt_close(struct interrupt *interrupt);

/* The number of a signal that has come, 0 when none has. Takes it. */
int interrupt_take(struct interrupt *interrupt);

/* Waits until a signal comes and returns its number. */
int interrupt_wait(struct interrupt *interrupt);

#endif
