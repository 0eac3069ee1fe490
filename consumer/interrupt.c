#include "consumer/interrupt.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

bool interrupt_open(struct interrupt *interrupt) {
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGINT);
    sigaddset(&wanted, SIGTERM);
    interrupt->fd = -1;
    if (sigprocmask(SIG_BLOCK, &wanted, &interrupt->before) != 0) {
        return false;
    }
    interrupt->fd = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    if (interrupt->fd < 0) {
        sigprocmask(SIG_SETMASK, &interrupt->before, NULL);
        return false;
    }
    return true;
}

void interrupt_close(struct interrupt *interrupt) {
    if (interrupt->fd >= 0) {
        close(interrupt->fd);
        interrupt->fd = -1;
        sigprocmask(SIG_SETMASK, &interrupt->before, NULL);
    }
}

int interrupt_take(struct interrupt *interrupt) {
    struct signalfd_siginfo info;
    return read(interrupt->fd, &info, sizeof info) == (ssize_t)sizeof info ? (int)info.ssi_signo
                                                                           : 0;
}

int interrupt_wait(struct interrupt *interrupt) {
    int signal = 0;
    while (signal == 0) {
        struct pollfd ready = {.fd = interrupt->fd, .events = POLLIN};
        poll(&ready, 1, -1);
        signal = interrupt_take(interrupt);
    }
    return signal;
}
