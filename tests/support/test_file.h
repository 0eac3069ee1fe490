/* A file in memory, for tests that read goldens. Not for threads; the caller frees. */
#ifndef SOLFLEET_TESTS_SUPPORT_TEST_FILE_H
#define SOLFLEET_TESTS_SUPPORT_TEST_FILE_H

#include <stddef.h>
#include <stdint.h>

/* Of a path from the root of the repository, where tests run. Missing is an assert. */
uint8_t *test_file_read(const char *path, size_t *size);

#endif
