/* The entry point of a fuzz target: called once per input by libFuzzer (`make fuzz`), and by
 * replay_main.c for each file of tests/fuzz/corpus/<name>/ (`make test`). Must accept any bytes. */
#ifndef SOLFLEET_TESTS_FUZZ_FUZZ_H
#define SOLFLEET_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_bytes);

#endif
