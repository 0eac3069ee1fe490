/* The harness itself: what other tests lean on. */
#include "tests/support/test.h"

#include <sys/stat.h>
#include <unistd.h>

static void gives_one_scratch_folder_a_process(void **state) {
    const char *folder = test_tmpdir();
    assert_ptr_equal(folder, test_tmpdir());
    struct stat info;
    assert_int_equal(stat(folder, &info), 0);
    assert_true(S_ISDIR(info.st_mode));
}

static void gives_ports_that_can_be_bound(void **state) {
    int port = test_free_port();
    assert_in_range(port, 1024, 65535);
}

static void gives_the_same_random_stream_for_the_same_seed(void **state) {
    uint64_t a = 7, b = 7, c = 8;
    assert_true(test_random(&a) == test_random(&b));
    assert_true(test_random(&a) == test_random(&b));
    assert_true(test_random(&a) != test_random(&c));
    assert_true(test_seed() == test_seed());
}

TEST_MAIN(cmocka_unit_test(gives_one_scratch_folder_a_process),
          cmocka_unit_test(gives_ports_that_can_be_bound),
          cmocka_unit_test(gives_the_same_random_stream_for_the_same_seed))
