/* Shutdown: the wish to end, as SIGTERM or SIGINT brings it, and the watch that it comes true.
 *
 * The first signal makes a descriptor readable and sets the watch; the second ends the process at
 * once. When the watch runs out the process ends, too: closing a Kafka client can hang. The
 * one place with state of the whole process, for signals have no other; one of these may be open.
 * Refuses to know what is to be finished before the end. */
#ifndef SOLFLEET_CONSUMER_SHUTDOWN_H
#define SOLFLEET_CONSUMER_SHUTDOWN_H

#include <stdbool.h>

/* Catches the signals from now on. `exit_code` is that of an end at once. From the first signal on
 * the process has `seconds` to end by itself, whatever it is doing then; 0 = no bound. */
void shutdown_open(int exit_code, unsigned seconds);
/* Readable from the first signal on. */
int shutdown_fd(void);
bool shutdown_is_wanted(void);
/* As a signal does it, the watch included: for ends of our own. */
void shutdown_want(void);
/* Sets the watch anew: the process ends with the exit code of an end at once when `seconds` have
 * passed; 0 = no watch. */
void shutdown_watch(unsigned seconds);
/* Back to what signals did before. */
void shutdown_close(void);

#endif
