/* Engines on the tiny random Llama: its file for the length of a test binary, the options that
 * tests of answers begin from, and jobs run to their end. One thread. */
#ifndef SOLFLEET_TESTS_SUPPORT_TINY_ENGINE_H
#define SOLFLEET_TESTS_SUPPORT_TINY_ENGINE_H

#include "engine/engine.h"
#include "tests/support/engine_run.h"

/* Set-up and tear-down of a group: write and forget the file. The small one has a single layer, for
 * an emulated device that computes slowly. */
int tiny_engine_write_model(void **state);
int tiny_engine_write_small_model(void **state);
int tiny_engine_free_model(void **state);

/* The file, on the reference kernels and one thread, batches cut at once, KV pages poisoned. */
struct engine_options tiny_engine_options(void);
/* Fails the case with the engine's words when it does not open. */
struct engine *tiny_engine_open(const struct engine_options *options);

/* A job whose prompt of `length` bytes goes round, so that guesses are made; each `i` has its own
 * prompt and id. */
struct job tiny_engine_round_job(uint32_t i, uint32_t length, uint32_t tokens);

/* Job i under ticket i, made by `make`; all at once, or one after the other under ticket 0. Their
 * ends are written to finished[count], for engine_run_free. */
void tiny_engine_run(struct engine *engine, struct job (*make)(uint32_t i), uint32_t count,
                     bool is_alone, struct engine_event *finished);

#endif
