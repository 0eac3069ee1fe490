/* What this processor can do at best, in registers and from memory: the measure of our kernels.
 *
 * Each function runs for a fixed number of rounds on the calling thread and returns what it did:
 * operations (a multiply-add is two) or bytes. Needs the instructions that its name says. */
#ifndef SOLFLEET_TESTS_BENCH_LIMITS_H
#define SOLFLEET_TESTS_BENCH_LIMITS_H

#include <stddef.h>
#include <stdint.h>

/* vpdpbusd on 512 bits: exact with one operand unsigned. */
double limits_int8_vnni(void);
/* Exact INT8 of AVX2, four ways: vpsignb or an exclusive or, then vpmaddubsw, vpmaddwd, vpaddd;
 * inputs and weights widened to 16 bits, vpmaddwd and vpaddd; or, where both are small enough, four
 * vpmaddubsw added at 16 bits before one vpmaddwd and vpaddd. */
double limits_int8_sign(void);
double limits_int8_xor(void);
double limits_int8_wide(void);
double limits_int8_group(void);
double limits_fma_256(void);
double limits_fma_512(void);
/* Reads `bytes` (a multiple of 128) once. */
double limits_read(const void *memory, size_t bytes);

#endif
