/* The subcommands that open a device, from command line to exit code, on the emulated card: what
 * each says there, and that `fast` is taken where it makes sense. Each runs in a process, and so on
 * a device, of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/command.h"
#include "tests/cuda_emulation/emulation.h"
#include "tests/support/run_command.h"
#include "tests/support/test.h"
#include "tests/support/tiny_llama.h"

static char *model;
static struct run_command run;

enum { DEVICE_BYTES = 4 << 20, CUDA_LAUNCH_FAILURE = 719 };

/* What each child finds. */
static void reset_device(void) {
    emulation_reset(test_seed());
    emulation_set_memory(DEVICE_BYTES);
}

/* What a command complains of is told. */
static void run_well(const char *const *words) {
    int code = run_command_finish(run_command_start(words), &run);
    if (code != COMMAND_EXIT_OK) {
        fail_msg("%s: exit code %d: %s", words[0], code, run.said);
    }
}

#define RUN_WELL(...) run_well((const char *const[]){__VA_ARGS__, NULL})

#define ON_CARD "--device", "cuda:0", "--max-model-len", "64"

/* ---------------------------------------------------------------- cases */

static void generates_under_fast_and_says_by_whose_arithmetic(void **state) {
    RUN_WELL("generate", "--model", model, "--prompt", "abcabc", "--max-tokens", "2",
             "--weight-cache", "off", "--policy", "fast", "--json", ON_CARD);
    run_command_assert_out(&run, "\"completion_tokens\":2");
    run_command_assert_out(&run, "\"numerics\":\"cuda-sm80-1-fast-cublaslt130100-");
}

static void sizes_a_model_under_fast_among_the_others(void **state) {
    RUN_WELL("model", model, "--policy", "fast", ON_CARD);
    run_command_assert_out(&run, "precision under policy fast\n");
    run_command_assert_out(&run, "\n  fast ");
    RUN_WELL("model", model, "--device", "cpu");
    assert_null(strstr(run.out, "fast"));
}

static void measures_the_engine_for_several_batches(void **state) {
    for (size_t i = 0; i < 2; i++) {
        RUN_WELL("bench", "engine", "--model", model, "--batch", "1,2", "--prefill-chunk-tokens",
                 "16", "--prompt-tokens", "6", "--completion-tokens", "3", "--repetitions", "1",
                 "--weight-cache", "off", "--policy", i == 0 ? "int8" : "fast", "--json", ON_CARD);
        run_command_assert_out(&run, i == 0 ? "\"precision\":\"int8\"" : "\"precision\":\"fast\"");
        run_command_assert_out(&run, "{\"batch\":1,");
        run_command_assert_out(&run, "{\"batch\":2,");
        run_command_assert_out(&run, "\"tier\":\"cuda\"");
    }
}

/* As a worker launches them; a child finds the failure that is set here. */
static void measures_decode_steps_by_graphs_unless_told_otherwise(void **state) {
    const char *const words[] = {"bench",
                                 "engine",
                                 "--model",
                                 model,
                                 "--batch",
                                 "1",
                                 "--prefill-chunk-tokens",
                                 "16",
                                 "--prompt-tokens",
                                 "6",
                                 "--completion-tokens",
                                 "2",
                                 "--repetitions",
                                 "1",
                                 "--weight-cache",
                                 "off",
                                 "--json",
                                 ON_CARD,
                                 NULL};
    const char *without[sizeof words / sizeof words[0] + 1];
    memcpy(without, words, sizeof words);
    without[sizeof words / sizeof words[0] - 1] = "--no-graphs";
    without[sizeof words / sizeof words[0]] = NULL;
    emulation_fail_call("cudaGraphLaunch", 1, CUDA_LAUNCH_FAILURE);
    assert_int_equal(run_command_finish(run_command_start(words), &run), COMMAND_EXIT_NO_DEVICE);
    run_command_assert_said(&run, "graph: the device failed");
    run_well(without);
    reset_device();
}

static char *write_text(void) {
    char *path = test_tmp_path("text.txt");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("the sum of two numbers and the product of three", file);
    fclose(file);
    return path;
}

static void compares_a_policy_with_fast(void **state) {
    char *text = write_text();
    RUN_WELL("compare", model, "--policy", "int8", "--policy", "fast", "--text", text, "--json",
             ON_CARD);
    run_command_assert_out(&run, "\"policy_b\":\"fast\"");
    run_command_assert_out(&run, "\"windows\":1}");
    assert_null(strstr(run.out, "\"max_abs_logit_difference\":0,")); /* another arithmetic */
    free(text);
}

static void finds_the_card_equal_to_the_cpu(void **state) {
    RUN_WELL("verify", model, "--tokens", "40", "--device", "cuda:0", "--json");
    run_command_assert_out(&run, "\"tier\":\"cuda\"");
    run_command_assert_out(&run, "\"against_tier\":\"reference\"");
    run_command_assert_out(&run, "\"tokens\":40,");
    run_command_assert_out(&run, "\"equal\":true}");
}

static void refuses_fast_on_a_cpu_by_its_exit_code(void **state) {
    char *text = write_text();
    const char *const commands[][10] = {
        {"generate", "--model", model, "--prompt", "a", "--policy", "fast", "--device", "cpu"},
        {"model", model, "--policy", "fast", "--device", "cpu"},
        {"bench", "engine", "--model", model, "--batch=1", "--policy", "fast", "--device", "cpu"},
        {"compare", model, "--policy=int8", "--policy=fast", "--text", text, "--device", "cpu"},
        {"worker", "--model", model, "--policy", "fast", "--device", "cpu"}};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        assert_int_equal(run_command_finish(run_command_start(commands[i]), &run),
                         COMMAND_EXIT_NO_DEVICE);
        run_command_assert_said(&run, "policy fast needs a CUDA device");
    }
    free(text);
}

static int write_model(void **state) {
    reset_device();
    model = tiny_llama_write(&(struct tiny_llama_options){.layers = 1});
    return model == NULL;
}

static int free_model(void **state) {
    free(model);
    return 0;
}

TEST_MAIN_WITH(write_model, free_model,
               cmocka_unit_test(generates_under_fast_and_says_by_whose_arithmetic),
               cmocka_unit_test(sizes_a_model_under_fast_among_the_others),
               cmocka_unit_test(measures_the_engine_for_several_batches),
               cmocka_unit_test(measures_decode_steps_by_graphs_unless_told_otherwise),
               cmocka_unit_test(compares_a_policy_with_fast),
               cmocka_unit_test(finds_the_card_equal_to_the_cpu),
               cmocka_unit_test(refuses_fast_on_a_cpu_by_its_exit_code))
