#include "tests/support/test.h"

#include <arpa/inet.h>
#include <assert.h>
#include <fnmatch.h>
#include <ftw.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static size_t test_count_matches(const struct CMUnitTest *tests, size_t tests_count,
                                 const char *pattern) {
    size_t count = 0;
    for (size_t i = 0; i < tests_count; i++) {
        count += fnmatch(pattern, tests[i].name, 0) == 0;
    }
    return count;
}

int test_run(const struct CMUnitTest *tests, size_t tests_count, CMFixtureFunction setup,
             CMFixtureFunction teardown, int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0); /* what was said before a crash must not be lost */
    const char *slash = strrchr(argv[0], '/');
    const char *group = slash ? slash + 1 : argv[0];
    if (argc > 1 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; i < tests_count; i++) {
            puts(tests[i].name);
        }
        return 0;
    }
    if (argc > 1) {
        if (test_count_matches(tests, tests_count, argv[1]) == 0) {
            fprintf(stderr, "%s: no case matches '%s'\n", group, argv[1]);
            return 2;
        }
        cmocka_set_test_filter(argv[1]);
    }
    return _cmocka_run_group_tests(group, tests, tests_count, setup, teardown) == 0 ? 0 : 1;
}

void test_note_skip(const char *test_case, const char *reason) {
    fprintf(stderr, "[skip] %s: %s\n", test_case, reason);
}

static char test_tmpdir_path[256];
static pid_t test_tmpdir_owner;

static int test_remove_entry(const char *path, const struct stat *info, int type,
                             struct FTW *where) {
    (void)info, (void)type, (void)where;
    return remove(path);
}

static void test_remove_tmpdir(void) {
    if (getpid() == test_tmpdir_owner) { /* a forked child must not take the folder along */
        nftw(test_tmpdir_path, test_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    }
}

const char *test_tmpdir(void) {
    if (test_tmpdir_path[0] == '\0') {
        const char *base = getenv("TMPDIR");
        snprintf(test_tmpdir_path, sizeof test_tmpdir_path, "%s/solfleet-test-XXXXXX",
                 base && base[0] ? base : "/tmp");
        char *made = mkdtemp(test_tmpdir_path);
        assert(made != NULL);
        test_tmpdir_owner = getpid();
        atexit(test_remove_tmpdir);
    }
    return test_tmpdir_path;
}

char *test_tmp_path(const char *name) {
    char *path = NULL;
    int length = asprintf(&path, "%s/%s", test_tmpdir(), name);
    assert(length > 0);
    return path;
}

static bool is_free_port(uint16_t port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert(fd >= 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    int bound = bind(fd, (struct sockaddr *)&address, sizeof address);
    close(fd);
    return bound == 0;
}

/* Below the range that the kernel gives to outgoing connections: such a one could take the port
 * before the server is up, or while it is restarted. */
int test_free_port(void) {
    enum { FIRST = 10000, COUNT = 20000, TRIES_MAX = 100 };
    for (int i = 0; i < TRIES_MAX; i++) {
        uint16_t random = 0;
        ssize_t read_bytes = getrandom(&random, sizeof random, 0);
        assert(read_bytes == sizeof random);
        uint16_t port = (uint16_t)(FIRST + random % COUNT);
        if (is_free_port(port)) {
            return port;
        }
    }
    assert(!"a free port was found");
    return -1;
}

uint64_t test_seed(void) {
    static uint64_t seed;
    static int known;
    if (!known) {
        const char *given = getenv("SOLFLEET_TEST_SEED");
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        seed = given ? strtoull(given, NULL, 0)
                     : (uint64_t)now.tv_sec * 1000003u + (uint64_t)now.tv_nsec;
        known = 1;
        fprintf(stderr, "[seed] SOLFLEET_TEST_SEED=%llu\n", (unsigned long long)seed);
    }
    return seed;
}

uint64_t test_random(uint64_t *state) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}
