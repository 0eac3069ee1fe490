/* A model's configuration, read from a checkpoint's metadata and held to limits.
 *
 * Pure functions; any thread; nothing kept. Refuses to know weights' values, policies, devices. */
#ifndef SOLFLEET_ENGINE_MODEL_CONFIG_H
#define SOLFLEET_ENGINE_MODEL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/gguf.h"
#include "engine/model.h"

enum {
    MODEL_CONFIG_HEADS_MAX = 1024,
    MODEL_CONFIG_HEAD_DIM_MAX = 512,
    MODEL_CONFIG_CONTEXT_TOKENS_MAX = 1 << 24,
};

/* False: err says which key holds what, and what is expected of it. The configuration's
 * vocabulary and tied_head come from the tensors' presence and shape. */
bool model_config_read(const struct gguf *gguf, struct model_config *config, char *err,
                       size_t err_bytes) __attribute__((warn_unused_result));

/* Checks that the file holds the tensors of such a model, each of the right shape and of a format
 * that can be read, and no tensor besides. */
bool model_config_check_tensors(const struct gguf *gguf, const struct model_config *config,
                                char *err, size_t err_bytes) __attribute__((warn_unused_result));

#endif
