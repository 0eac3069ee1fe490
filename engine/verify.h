/* A verification: one checkpoint on two devices, and every result of every op compared bit by bit.
 *
 * Both are given the same tokens in passes of several sizes, one row among them, so that kernels
 * for few and for many rows are seen; results are compared by SHA-256, pass after pass, until one
 * differs. What is not equal bit by bit is not the same `numerics`. One thread, which both devices
 * may be used by; everything is freed before verify_run returns. Refuses to know command lines and
 * JSON, and which of the two is right. */
#ifndef SOLFLEET_ENGINE_VERIFY_H
#define SOLFLEET_ENGINE_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/model.h"
#include "kernels/op_watch.h"

enum { VERIFY_TOKENS_MAX = 4096 };

struct verify_options {
    const char *path;
    enum model_policy policy;
    const char *text; /* UTF-8; begun again where it is shorter than `tokens` */
    uint32_t tokens;  /* 1..VERIFY_TOKENS_MAX, within the model's context */
};

struct verify_report {
    uint64_t tokens, ops, bytes; /* that were compared */
    bool is_equal;
    /* The first difference, in the order in which a pass computes. */
    char op[OP_WATCH_NAME_BYTES_MAX]; /* "linear_i8 int8 [576, 1536]" */
    uint32_t call;                    /* which of those of its name in the pass, from 1 on */
    uint32_t position, rows;          /* of the pass */
};

/* MODEL_BAD_OPTION: a text without tokens, or more tokens than the context; MODEL_FAILED: a device,
 * a NaN, or devices that make a pass of other ops. */
enum model_status verify_run(const struct verify_options *options, struct device *const devices[2],
                             struct verify_report *report, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

#endif
