/* Redis addresses as people write them. */
#include "consumer/redis_address.h"

#include <string.h>

#include "tests/support/test.h"

static struct redis_address parsed(const char *text) {
    struct redis_address address;
    char err[256] = "";
    assert_true(redis_address_parse(text, &address, err, sizeof err));
    return address;
}

static void takes_host_port_and_database(void **state) {
    struct redis_address address = parsed("redis://cache.local:7000/3");
    assert_string_equal(address.host, "cache.local");
    assert_int_equal(address.port, 7000);
    assert_int_equal(address.database, 3);
    assert_string_equal(address.user, "");
    assert_string_equal(address.socket_path, "");
}

static void fills_in_the_usual_port_and_database(void **state) {
    const char *forms[] = {"redis://localhost", "redis://localhost/", "localhost"};
    for (size_t i = 0; i < 3; i++) {
        struct redis_address address = parsed(forms[i]);
        assert_string_equal(address.host, "localhost");
        assert_int_equal(address.port, 6379);
        assert_int_equal(address.database, 0);
    }
}

static void decodes_user_and_password(void **state) {
    struct redis_address address = parsed("redis://bo%62:p%40ss:w@h:1");
    assert_string_equal(address.user, "bob");
    assert_string_equal(address.password, "p@ss:w");
    address = parsed("redis://:only@h");
    assert_string_equal(address.user, "");
    assert_string_equal(address.password, "only");
}

static void takes_ipv6_hosts_and_socket_paths(void **state) {
    struct redis_address address = parsed("redis://[::1]:6400/1");
    assert_string_equal(address.host, "::1");
    assert_int_equal(address.port, 6400);
    char printed[300];
    redis_address_print(&address, printed, sizeof printed);
    assert_string_equal(printed, "redis://[::1]:6400/1");
    address = parsed("/run/redis.sock");
    assert_string_equal(address.socket_path, "/run/redis.sock");
}

static void never_prints_secrets(void **state) {
    struct redis_address address = parsed("redis://user:secret@h:1");
    char printed[300], err[256];
    redis_address_print(&address, printed, sizeof printed);
    assert_string_equal(printed, "redis://h:1");
    assert_false(redis_address_parse("redis://u:secret@h:99999999", &address, err, sizeof err));
    assert_null(strstr(err, "secret"));
}

static void refuses_what_is_malformed(void **state) {
    char long_path[200];
    memset(long_path, 'a', sizeof long_path);
    long_path[0] = '/';
    long_path[sizeof long_path - 1] = '\0';
    const char *bad[] = {"",
                         "redis://",
                         "redis://:6379",
                         "redis://h:",
                         "redis://h:0",
                         "redis://h:65536",
                         "redis://h:12x",
                         "redis://h:1/x",
                         "redis://h:1/99999",
                         "redis://[::1",
                         "redis://[::1]6379",
                         "rediss://h",
                         "redis://a%4:p@h",
                         "redis://a%00:p@h",
                         "redis://h:99999999999999999999",
                         long_path};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct redis_address address;
        char err[256] = "";
        if (redis_address_parse(bad[i], &address, err, sizeof err)) {
            fail_msg("accepted %s", bad[i]);
        }
        assert_true(err[0]);
    }
}

TEST_MAIN(cmocka_unit_test(takes_host_port_and_database),
          cmocka_unit_test(fills_in_the_usual_port_and_database),
          cmocka_unit_test(decodes_user_and_password),
          cmocka_unit_test(takes_ipv6_hosts_and_socket_paths),
          cmocka_unit_test(never_prints_secrets), cmocka_unit_test(refuses_what_is_malformed))
