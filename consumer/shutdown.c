#include "consumer/shutdown.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static const char shutdown_late[] = "solfleet: the shutdown took too long; ending at once\n";
static const char shutdown_twice[] = "solfleet: second signal; ending at once\n";

/* Written by signal handlers. */
static volatile sig_atomic_t shutdown_wanted;
static volatile sig_atomic_t shutdown_code;
static volatile sig_atomic_t shutdown_seconds;
static volatile sig_atomic_t shutdown_event = -1;
static struct sigaction shutdown_before[3];
static const int shutdown_signals[3] = {SIGTERM, SIGINT, SIGALRM};

static void shutdown_end(const char *why, size_t size) {
    ssize_t written = write(STDERR_FILENO, why, size);
    (void)written;
    _exit(shutdown_code);
}

static void shutdown_on_signal(int number) {
    int saved = errno;
    if (number == SIGALRM) {
        shutdown_end(shutdown_late, sizeof shutdown_late - 1);
    }
    if (shutdown_wanted) {
        shutdown_end(shutdown_twice, sizeof shutdown_twice - 1);
    }
    shutdown_want();
    errno = saved;
}

void shutdown_want(void) {
    static const uint64_t one = 1;
    if (!shutdown_wanted && shutdown_seconds > 0) {
        alarm((unsigned)shutdown_seconds);
    }
    shutdown_wanted = 1;
    ssize_t written = write(shutdown_event, &one, sizeof one);
    (void)written;
}

void shutdown_open(int exit_code, unsigned seconds) {
    assert(shutdown_event == -1);
    shutdown_wanted = 0;
    shutdown_code = exit_code;
    shutdown_seconds = (sig_atomic_t)seconds;
    shutdown_event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert(shutdown_event >= 0);
    struct sigaction action = {.sa_handler = shutdown_on_signal, .sa_flags = SA_RESTART};
    for (int i = 0; i < 3; i++) {
        sigaction(shutdown_signals[i], &action, &shutdown_before[i]);
    }
}

int shutdown_fd(void) {
    return shutdown_event;
}

bool shutdown_is_wanted(void) {
    return shutdown_wanted != 0;
}

void shutdown_watch(unsigned seconds) {
    alarm(seconds);
}

void shutdown_close(void) {
    alarm(0);
    for (int i = 0; i < 3; i++) {
        sigaction(shutdown_signals[i], &shutdown_before[i], NULL);
    }
    close(shutdown_event);
    shutdown_event = -1;
}
