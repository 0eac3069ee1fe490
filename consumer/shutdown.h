/* Shutdown: the wish to end, as SIGTERM or SIGINT brings it, and the watch that it comes true.
 *
 * The first signal makes a descriptor readable; the second ends the process at once. Once the watch
 * is set the process ends by itself when it takes too long: closing a Kafka client can hang. The
 * one place with state of the whole process, for signals have no other; one of these may be open.
 * Refuses to know what is to be finished before the end. */
#ifndef SOLFLEET_CONSUMER_SHUTDOWN_H
#define SOLFLEET_CONSUMER_SHUTDOWN_H

#include <stdbool.h>

/* Catches the signals from now on. `exit_code` is that of an end at once. */
void shutdown_open(int exit_code);
/* Readable from the first signal on. */
int shutdown_fd(void);
bool shutdown_is_wanted(void);
/* As a signal does it, for tests and for ends of our own. */
void shutdown_want(void);
/* Ends the process with the exit code of an end at once when `seconds` have passed; 0 = no
 * watch. */
void shutdown_watch(unsigned seconds);
/* Back to what signals did before. */
void shutdown_close(void);

#endif
