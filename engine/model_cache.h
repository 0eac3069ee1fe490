/* A cache of packed weights: what the loader made of a checkpoint, kept on disk, so that the next
 * start reads it instead of converting the checkpoint again.
 *
 * A file holds the bytes of the model's device memory up to the rotary tables, behind a header with
 * a key and the SHA-256 of those bytes. The key covers all that they depend on: the checkpoint's
 * content, the policy, the tier, its packing_version and the plan. What is not exactly as expected
 * is passed over, and written anew: a cache can be deleted at any time, and never makes a start
 * fail. It lies beside the checkpoint, one file for a policy and tier, or where that cannot be
 * written in a folder given for it. Written under another name first, so that no reader sees half.
 *
 * One thread. Private to model_weights. Refuses to know what the bytes mean. */
#ifndef SOLFLEET_ENGINE_MODEL_CACHE_H
#define SOLFLEET_ENGINE_MODEL_CACHE_H

#include "engine/model_loader.h"

/* True when the model's memory holds the weights now. Otherwise its contents are undefined. Says
 * what it found in model->cache. */
bool model_cache_read(struct model_loader *loader);

/* Keeps the bytes that the loader has given out so far. Says what came of it in model->cache. */
void model_cache_write(struct model_loader *loader);

#endif
