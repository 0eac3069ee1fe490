/* A private, real redis-server for component tests: no persistence, one folder, one free port and
 * a unix socket. Dies with the test. Knows nothing of keys.
 *
 * Everything here asserts: a test that cannot have its server has failed. One thread. */
#ifndef SOLFLEET_TESTS_SUPPORT_REDIS_SERVER_H
#define SOLFLEET_TESTS_SUPPORT_REDIS_SERVER_H

#include <sys/types.h>

struct redis_server {
    pid_t pid;             /* 0 when not running */
    int port;              /* kept over a restart */
    char socket_path[108]; /* as long as sockaddr_un allows */
    char url[64];          /* redis://127.0.0.1:PORT */
};

/* Starts a server and waits until it answers. */
void redis_server_open(struct redis_server *server);

/* Ends it, if it runs, and zeroes the struct. Accepts a zeroed struct. */
void redis_server_close(struct redis_server *server);

/* kill -9: clients see a reset connection, all keys and scripts are gone. */
void redis_server_kill(struct redis_server *server);

/* Starts a killed server again on the same port, empty. */
void redis_server_restart(struct redis_server *server);

/* SIGSTOP and SIGCONT: a server that accepts but does not answer, and its recovery. */
void redis_server_pause(const struct redis_server *server);
void redis_server_resume(const struct redis_server *server);

#endif
