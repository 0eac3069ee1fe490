/* A model's weights on their way from a checkpoint to a device.
 *
 * Reads tensor after tensor, converts each row to what its policy stores, packs, uploads. One
 * thread. Host scratch is that of the largest weight, freed before it returns; device memory comes
 * from one allocation that the model owns. Refuses to know metadata and text. */
#ifndef SOLFLEET_ENGINE_MODEL_WEIGHTS_H
#define SOLFLEET_ENGINE_MODEL_WEIGHTS_H

#include "engine/gguf.h"
#include "engine/model.h"

/* Fills the weights, norms and rotary tables of a model whose configuration, policy, plan, device
 * and layers are set, and which owns plan.total_bytes at `memory`. The tensors have been checked by
 * model_config_check_tensors. On an error err names the tensor, and model_close frees what there
 * is. */
enum model_status model_weights_load(struct model *model, const struct gguf *gguf,
                                     const struct model_options *options, char *err,
                                     size_t err_bytes) __attribute__((warn_unused_result));

/* Hands all plans back; accepts a model that was loaded in part. */
void model_weights_release(struct model *model);

#endif
