#include "tests/support/redis_server.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/test.h"

enum { REDIS_SERVER_START_MS_MAX = 10000 };

static void redis_server_exec(const struct redis_server *server, const char *log_path) {
    char port[16];
    snprintf(port, sizeof port, "%d", server->port);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int log = open(log_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    closefrom(STDERR_FILENO + 1); /* a copy of a socket of ours would keep its connection open */
    execlp("redis-server", "redis-server", "--port", port, "--bind", "127.0.0.1", "--unixsocket",
           server->socket_path, "--dir", test_tmpdir(), "--save", "", "--appendonly", "no",
           "--maxmemory-policy", "noeviction", (char *)NULL);
    fprintf(stderr, "redis-server: %s\n", strerror(errno));
    _exit(127);
}

/* 1 if the server answers PING on its socket. */
static int redis_server_answers(const struct redis_server *server) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", server->socket_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert(fd >= 0);
    char reply[8] = {0};
    int answers = connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
                  write(fd, "PING\r\n", 6) == 6 && read(fd, reply, 5) == 5 &&
                  memcmp(reply, "+PONG", 5) == 0;
    close(fd);
    return answers;
}

static void redis_server_start(struct redis_server *server) {
    char *log_path = test_tmp_path("redis.log");
    pid_t child = fork();
    assert(child >= 0);
    if (child == 0) {
        redis_server_exec(server, log_path);
    }
    server->pid = child;
    for (int waited_ms = 0; !redis_server_answers(server); waited_ms += 5) {
        int status;
        if (waitpid(child, &status, WNOHANG) == child || waited_ms > REDIS_SERVER_START_MS_MAX) {
            fprintf(stderr, "redis-server did not start; see %s\n", log_path);
            abort();
        }
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    free(log_path);
}

void redis_server_open(struct redis_server *server) {
    *server = (struct redis_server){.port = test_free_port()};
    snprintf(server->socket_path, sizeof server->socket_path, "%s/redis-%d.sock", test_tmpdir(),
             server->port);
    snprintf(server->url, sizeof server->url, "redis://127.0.0.1:%d", server->port);
    redis_server_start(server);
}

void redis_server_kill(struct redis_server *server) {
    assert(server->pid > 0);
    kill(server->pid, SIGKILL);
    pid_t ended = waitpid(server->pid, NULL, 0);
    assert(ended == server->pid);
    server->pid = 0;
    unlink(server->socket_path);
}

void redis_server_restart(struct redis_server *server) {
    assert(server->pid == 0);
    redis_server_start(server);
}

void redis_server_close(struct redis_server *server) {
    if (server->pid > 0) {
        redis_server_kill(server);
    }
    *server = (struct redis_server){0};
}

void redis_server_pause(const struct redis_server *server) {
    assert(server->pid > 0);
    kill(server->pid, SIGSTOP);
    int status; /* a signal is delivered later: wait until it has */
    pid_t stopped = waitpid(server->pid, &status, WUNTRACED);
    assert(stopped == server->pid && WIFSTOPPED(status));
}

void redis_server_resume(const struct redis_server *server) {
    assert(server->pid > 0);
    kill(server->pid, SIGCONT);
}
