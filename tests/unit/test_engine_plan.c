/* engine/engine_plan and engine_fit: what is reserved, on a tiny Llama of any depth, and what is
 * said when there is not enough. */
#include "engine/engine_plan.h"

#include <stdlib.h>
#include <string.h>

#include "engine/engine_fit.h"
#include "kernels/backend.h"
#include "tests/support/test.h"
#include "tests/support/tiny_llama.h"

static struct device *device;

static int open_device(void **state) {
    struct device_options options = {.spec = "cpu", .tier = "reference", .threads = 1};
    char err[256];
    return device_open(&options, &device, err, sizeof err) != KERNELS_OK;
}

static int close_device(void **state) {
    device_close(device);
    return 0;
}

/* The CPU's device, told to be one with memory of its own that wants few shapes. */
static const struct backend *cpu_backend;
static struct backend card_backend;

static void describe_card(const struct device *card, struct device_info *info) {
    cpu_backend->describe(card, info);
    info->memory_is_host = false;
    info->fixed_row_shapes = true;
    info->has_graphs = true;
}

static void become_card(void) {
    cpu_backend = device->backend;
    card_backend = *cpu_backend;
    card_backend.describe = describe_card;
    device->backend = &card_backend;
}

static void become_cpu(void) {
    device->backend = cpu_backend;
}

static struct model_config config_of(uint32_t layers, uint32_t context_tokens) {
    struct tiny_llama_options options = {.layers = layers, .context_tokens = context_tokens};
    char *path = tiny_llama_write(&options);
    const struct model_options file = {.path = path};
    struct model_config config;
    struct model_plan plan;
    char err[256] = "";
    if (model_describe(&file, device_ops(device), &config, &plan, err, sizeof err) != MODEL_OK) {
        fail_msg("%s", err);
    }
    free(path);
    return config;
}

static void make(struct engine_plan *plan, struct engine_options options,
                 const struct model_config *config, size_t free_bytes) {
    enum model_policy policy;
    char err[256] = "";
    options.model_path = "unread";
    engine_plan_fill_defaults(&options);
    assert_int_equal(engine_plan_check(&options, &policy, err, sizeof err), ENGINE_OK);
    assert_int_equal(
        engine_plan_make(plan, &options, policy, config, device, free_bytes, err, sizeof err),
        ENGINE_OK);
}

static void reserves_one_set_of_activations_for_any_depth(void **state) {
    struct model_config shallow = config_of(2, 1024), deep = config_of(6, 1024);
    struct engine_plan two, six;
    make(&two, (struct engine_options){0}, &shallow, SIZE_MAX);
    make(&six, (struct engine_options){0}, &deep, SIZE_MAX);
    assert_true(two.forward.activation_bytes > 0);
    assert_int_equal(two.forward.activation_bytes, six.forward.activation_bytes);
    assert_int_equal(two.forward.workspace_bytes, six.forward.workspace_bytes);
    assert_int_equal(two.forward.batch_bytes, six.forward.batch_bytes);
    assert_int_equal(3 * two.forward.kv_bytes, six.forward.kv_bytes); /* these do */
    assert_int_equal(3 * two.model.block_weight_bytes, six.model.block_weight_bytes);
}

static void reserves_activations_for_the_largest_step(void **state) {
    struct model_config config = config_of(2, 1024);
    struct engine_plan one, two;
    make(&one, (struct engine_options){.max_batch_size = 32, .prefill_chunk_tokens = 224}, &config,
         SIZE_MAX);
    make(&two, (struct engine_options){.max_batch_size = 64, .prefill_chunk_tokens = 448}, &config,
         SIZE_MAX);
    assert_int_equal(one.forward_options.limits.rows_max, 256);
    assert_int_equal(two.forward_options.limits.rows_max, 512);
    assert_int_equal(two.forward.activation_bytes, 2 * one.forward.activation_bytes);
}

static void plans_pages_for_whole_contexts_within_a_share_of_what_is_free(void **state) {
    struct model_config config = config_of(2, 1024);
    struct engine_options options = {.max_running = 4, .max_model_len = 512};
    struct engine_plan plan;
    make(&plan, options, &config, SIZE_MAX);
    assert_int_equal(plan.forward_options.page_count, 1 + 4 * 32);
    make(&plan, options, &config, 4 * 100 * plan.model.page_bytes);
    assert_int_equal(plan.forward_options.page_count, 100);
    make(&plan, options, &config, 0); /* one context at least: the caller finds it does not fit */
    assert_int_equal(plan.forward_options.page_count, 1 + 32);
    options.kv_cache_bytes = 7 * plan.model.page_bytes;
    make(&plan, options, &config, 0);
    assert_int_equal(plan.forward_options.page_count, 7);
    options.kv_cache_bytes = 1000 * plan.model.page_bytes; /* room for prompts that come again */
    make(&plan, options, &config, 0);
    assert_int_equal(plan.forward_options.page_count, 1000);
    options.prefix_cache_off = true;
    make(&plan, options, &config, 0);
    assert_int_equal(plan.forward_options.page_count, 1 + 4 * 32);
}

static void takes_what_is_left_of_its_share_of_a_card(void **state) {
    struct model_config config = config_of(2, 1024);
    struct engine_options options = {.max_running = 4, .max_model_len = 512};
    struct engine_plan plan, half;
    become_card();
    make(&plan, options, &config, (size_t)64 << 20);
    assert_int_equal(plan.budget_bytes, (size_t)((64 << 20) * 0.9));
    assert_true(plan.total_bytes <= plan.budget_bytes);
    assert_true(plan.total_bytes + plan.model.page_bytes > plan.budget_bytes);
    assert_true(plan.forward_options.page_count > 1 + 4 * 32);
    options.gpu_memory_utilization = 0.5;
    make(&half, options, &config, (size_t)64 << 20);
    assert_int_equal(half.budget_bytes, 32 << 20);
    assert_true(half.total_bytes <= half.budget_bytes);
    options.prefix_cache_off = true; /* more pages could never be used */
    make(&plan, options, &config, (size_t)64 << 20);
    assert_int_equal(plan.forward_options.page_count, 1 + 4 * 32);
    make(&plan, options, &config, SIZE_MAX);
    assert_int_equal(plan.forward_options.page_count, 1 + 4 * 32);
    make(&plan, options, &config, 0); /* one context at least */
    assert_int_equal(plan.forward_options.page_count, 1 + 32);
    become_cpu();
}

static void explain(struct engine_options options, const struct model_config *config,
                    size_t free_bytes, char *err, size_t err_bytes) {
    struct engine_plan plan;
    options.model_path = "some.gguf";
    engine_plan_fill_defaults(&options);
    make(&plan, options, config, free_bytes);
    assert_true(plan.total_bytes > plan.budget_bytes);
    engine_fit_explain(&plan, &options, config, device, free_bytes, err, err_bytes);
}

/* Bytes that a plan with the fewest pages takes. */
static size_t least_bytes(const char *policy, uint32_t max_model_len,
                          const struct model_config *config) {
    struct engine_options options = {
        .policy = policy, .max_model_len = max_model_len, .gpu_memory_utilization = 1};
    struct engine_plan plan;
    make(&plan, options, config, 0);
    return plan.total_bytes;
}

static void names_the_nearest_policy_and_length_that_fit(void **state) {
    struct model_config config = config_of(6, 1024);
    struct engine_options options = {
        .policy = "f16", .max_model_len = 1024, .gpu_memory_utilization = 1};
    char err[512] = "";
    become_card();
    explain(options, &config, least_bytes("latency", 1024, &config), err, sizeof err);
    assert_non_null(strstr(err, "policy latency would fit, or max_model_len "));
    assert_non_null(strstr(err, "some.gguf needs "));
    explain(options, &config, least_bytes("f16", 512, &config), err, sizeof err);
    assert_non_null(strstr(err, "max_model_len 512 would fit"));
    explain(options, &config, least_bytes("f16", 512, &config) - 1, err, sizeof err);
    assert_non_null(strstr(err, "max_model_len 496 would fit"));
    options.max_model_len = 16;
    explain(options, &config, least_bytes("int8", 16, &config), err, sizeof err);
    assert_non_null(strstr(err, "free: policy int8 would fit"));
    explain(options, &config, 1000, err, sizeof err);
    assert_non_null(strstr(err, "no other policy or length would fit"));
    become_cpu();
}

static void adds_up(void **state) {
    struct model_config config = config_of(3, 1024);
    struct engine_plan plan;
    make(&plan, (struct engine_options){0}, &config, SIZE_MAX);
    const struct model_plan *model = &plan.model;
    const struct forward_plan *forward = &plan.forward;
    assert_int_equal(plan.total_bytes,
                     model->block_weight_bytes + model->embedding_bytes + model->head_bytes +
                         model->sketch_bytes + model->norm_bytes + model->rope_bytes +
                         forward->kv_bytes + forward->activation_bytes + forward->workspace_bytes +
                         forward->batch_bytes + forward->pinned_bytes);
    assert_int_equal(forward->pinned_bytes, forward->batch_bytes); /* nothing is sent ahead */
    assert_int_equal(forward->ahead_bytes + forward->graph_bytes, 0);
    assert_int_equal(forward->kv_bytes, model->page_bytes * plan.forward_options.page_count);
}

/* The host's copies take nothing of a card; inputs of the step after, and graphs, do. */
static void adds_up_on_a_card(void **state) {
    struct model_config config = config_of(3, 1024);
    struct engine_plan plan, plain;
    become_card();
    make(&plan, (struct engine_options){0}, &config, SIZE_MAX);
    make(&plain, (struct engine_options){.graphs_off = true}, &config, SIZE_MAX);
    const struct forward_plan *forward = &plan.forward;
    assert_int_equal(plan.total_bytes, plan.model.total_bytes + forward->kv_bytes +
                                           forward->activation_bytes + forward->workspace_bytes +
                                           forward->batch_bytes + forward->ahead_bytes +
                                           forward->graph_bytes);
    assert_int_equal(forward->pinned_bytes, forward->batch_bytes + 2 * forward->ahead_bytes);
    assert_in_range(forward->ahead_bytes, 1, forward->batch_bytes);
    assert_true(forward->graph_bytes > 0);
    assert_int_equal(plain.forward.graph_bytes, 0);
    assert_int_equal(plain.total_bytes, plan.total_bytes - forward->graph_bytes);
    become_cpu();
}

static void refuses_more_context_than_the_model_has(void **state) {
    struct model_config config = config_of(2, 256);
    struct engine_options options = {.model_path = "unread", .max_model_len = 257};
    struct engine_plan plan;
    char err[256] = "";
    engine_plan_fill_defaults(&options);
    assert_int_equal(
        engine_plan_make(&plan, &options, MODEL_POLICY_INT8, &config, device, 0, err, sizeof err),
        ENGINE_BAD_OPTION);
    assert_non_null(strstr(err, "257"));
}

static size_t no_page_bytes(const struct kv_form *form) {
    (void)form;
    return 0;
}

static void names_the_width_of_heads_that_the_kernels_do_not_take(void **state) {
    struct model_config config = config_of(2, 256);
    struct engine_options options = {.model_path = "unread"};
    struct engine_plan plan;
    char err[256] = "";
    engine_plan_fill_defaults(&options);
    const struct kernel_ops *whole = device->ops;
    struct kernel_ops less = *whole;
    less.page_bytes = no_page_bytes;
    device->ops = &less;
    enum engine_status status =
        engine_plan_make(&plan, &options, MODEL_POLICY_INT8, &config, device, 0, err, sizeof err);
    device->ops = whole;
    assert_int_equal(status, ENGINE_BAD_MODEL);
    assert_non_null(strstr(err, "reference kernels take no heads of width 16"));
}

TEST_MAIN_WITH(open_device, close_device,
               cmocka_unit_test(reserves_one_set_of_activations_for_any_depth),
               cmocka_unit_test(reserves_activations_for_the_largest_step),
               cmocka_unit_test(plans_pages_for_whole_contexts_within_a_share_of_what_is_free),
               cmocka_unit_test(takes_what_is_left_of_its_share_of_a_card),
               cmocka_unit_test(names_the_nearest_policy_and_length_that_fit),
               cmocka_unit_test(adds_up), cmocka_unit_test(adds_up_on_a_card),
               cmocka_unit_test(names_the_width_of_heads_that_the_kernels_do_not_take),
               cmocka_unit_test(refuses_more_context_than_the_model_has))
