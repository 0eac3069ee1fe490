/* A model's plan: its bytes on a device, by purpose, before anything is reserved.
 *
 * Pure functions of configuration, policy and back end; any thread. Refuses to know files. */
#ifndef SOLFLEET_ENGINE_MODEL_PLAN_H
#define SOLFLEET_ENGINE_MODEL_PLAN_H

#include "engine/model.h"

/* The form of the embedding and of the head. */
struct weight_form model_plan_table_form(const struct model_config *config,
                                         enum model_policy policy);
struct kv_form model_plan_kv_form(const struct model_config *config, enum model_policy policy);

/* Bytes that a piece takes of the one device allocation that holds them all. */
size_t model_plan_align(size_t bytes);

/* 0 stands for the default. BAD_OPTION: longer than the checkpoint's context. */
enum model_status model_plan_length(const struct model_config *config, uint32_t *max_model_len,
                                    char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

/* The form of the INT8 copy of the head. */
struct weight_form model_plan_sketch_form(const struct model_config *config);

/* Whether a back end can compute under a policy at all. */
bool model_plan_has_policy(const struct kernel_ops *ops, enum model_policy policy);

/* For options whose max_model_len is no longer 0. UNSUPPORTED: the back end lacks the policy;
 * BAD_FILE: it lacks a form that the model needs; err names it. */
enum model_status model_plan_make(const struct model_config *config,
                                  const struct model_options *options, const struct kernel_ops *ops,
                                  struct model_plan *plan, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

#endif
