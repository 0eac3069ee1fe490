#include "consumer/bench_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/clock.h"

#define BENCH_CHILD_POLL_MS 5

/* In the child; only what is safe after a fork beside other threads. */
static void bench_child_become(char *const *argv, int log_fd) {
    sigset_t none;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0); /* Ctrl-C is for us; we then end the child in our order */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    if (dup2(log_fd, 1) >= 0 && dup2(log_fd, 2) >= 0) {
        execvp(argv[0], argv);
    }
    _exit(127);
}

bool bench_child_start(struct bench_child *child, char *const *argv, const char *log_path,
                       char *err, size_t err_bytes) {
    *child = (struct bench_child){.log_path = log_path};
    int log_fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_fd < 0) {
        snprintf(err, err_bytes, "cannot write %s: %s", log_path, strerror(errno));
        return false;
    }
    pid_t pid = fork();
    if (pid == 0) {
        bench_child_become(argv, log_fd);
    }
    if (pid < 0) {
        snprintf(err, err_bytes, "cannot start %s: %s", argv[0], strerror(errno));
    }
    close(log_fd);
    child->pid = pid > 0 ? pid : 0;
    return pid > 0;
}

bool bench_child_is_running(struct bench_child *child) {
    if (child->pid > 0 && waitpid(child->pid, &child->status, WNOHANG) != 0) {
        child->pid = 0;
    }
    return child->pid > 0;
}

int bench_child_stop(struct bench_child *child, int64_t timeout_ms) {
    int64_t deadline_ns = clock_monotonic_ns(NULL) + timeout_ms * CLOCK_NS_PER_MS;
    if (bench_child_is_running(child)) {
        kill(child->pid, SIGTERM);
    }
    while (bench_child_is_running(child)) {
        if (clock_monotonic_ns(NULL) > deadline_ns) {
            kill(child->pid, SIGKILL);
        }
        poll(NULL, 0, BENCH_CHILD_POLL_MS);
    }
    return WIFSIGNALED(child->status) ? 128 + WTERMSIG(child->status) : WEXITSTATUS(child->status);
}

char *bench_child_read_log(const char *path, size_t bytes_max) {
    FILE *file = fopen(path, "r");
    char *text = calloc(1, bytes_max + 1);
    if (file && text) {
        if (fseek(file, 0, SEEK_END) == 0 && ftell(file) > (long)bytes_max) {
            fseek(file, -(long)bytes_max, SEEK_END);
        } else {
            rewind(file);
        }
        text[fread(text, 1, bytes_max, file)] = '\0';
    }
    if (!file) {
        free(text);
        return NULL;
    }
    fclose(file);
    return text;
}
