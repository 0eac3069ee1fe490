/* Two CPU devices: the best tier's, and the reference's, spoilt where a case wants it. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "engine/score.h"
#include "engine/verify.h"
#include "kernels/op_outputs.h"
#include "tests/support/tiny_llama.h"

enum { TOKENS = SCORE_ROWS_MAX + 3, OPS_MAX = 256, NOWHERE = -1 };

/* What stands between the second device and the verification. */
struct spoiler {
    int at;      /* index of the op whose result has one bit changed; NOWHERE: none */
    bool breaks; /* that op fails instead */
    int count;
    char names[OPS_MAX][OP_WATCH_NAME_BYTES_MAX];
    uint32_t rows[OPS_MAX];
};

static struct device *devices[2], *spoilt;
static struct spoiler spoiler;
static char *path;

/* The last bit of what the op wrote. */
static void spoil(const struct watched_op *seen) {
    struct op_output outputs[OP_OUTPUTS_MAX];
    size_t count = op_outputs(seen, outputs);
    assert_true(count >= 1 && count <= OP_OUTPUTS_MAX);
    const struct op_output *last = &outputs[count - 1];
    uint8_t *end = (uint8_t *)(uintptr_t)last->data + (last->rows - 1) * last->stride_bytes;
    end[last->row_bytes - 1] ^= 1;
}

static enum kernels_status see(void *context, struct device *device,
                               const struct watched_op *seen) {
    struct spoiler *at = context;
    assert_true(at->count < OPS_MAX);
    op_watch_name(seen, at->names[at->count], sizeof at->names[0]);
    at->rows[at->count] = seen->rows;
    if (at->count++ == at->at) {
        if (at->breaks) {
            return KERNELS_FAILED;
        }
        spoil(seen);
    }
    return KERNELS_OK;
}

static int open_devices(void **state) {
    char err[256];
    const struct device_options best = {.spec = "cpu", .threads = 2},
                                reference = {.spec = "cpu", .tier = "reference", .threads = 1};
    const struct op_watcher watcher = {.context = &spoiler, .see = see};
    path = tiny_llama_write(NULL);
    return device_open(&best, &devices[0], err, sizeof err) != KERNELS_OK ||
           device_open(&reference, &devices[1], err, sizeof err) != KERNELS_OK ||
           op_watch_open(devices[1], &watcher, &spoilt, err, sizeof err) != KERNELS_OK;
}

static int close_devices(void **state) {
    device_close(spoilt);
    device_close(devices[1]);
    device_close(devices[0]);
    free(path);
    return 0;
}

static enum model_status run(struct verify_options options, int at, struct verify_report *report,
                             char err[512]) {
    struct device *const sides[2] = {devices[0], spoilt};
    options.path = options.path != NULL ? options.path : path;
    options.text = options.text != NULL ? options.text : "the sum of two numbers, 两数之和";
    options.tokens = options.tokens != 0 ? options.tokens : TOKENS;
    spoiler.at = at;
    spoiler.count = 0;
    err[0] = '\0';
    return verify_run(&options, sides, report, err, 512);
}

static void run_well(enum model_policy policy, int at, struct verify_report *report) {
    char err[512];
    if (run((struct verify_options){.policy = policy}, at, report, err) != MODEL_OK) {
        fail_msg("%s", err);
    }
}

/* ---------------------------------------------------------------- cases */

static void finds_a_tier_equal_to_the_reference_under_every_policy(void **state) {
    for (int policy = 0; policy < MODEL_POLICY_FAST; policy++) {
        struct verify_report report;
        run_well((enum model_policy)policy, NOWHERE, &report);
        assert_true(report.is_equal);
        assert_int_equal(report.tokens, TOKENS);
        assert_int_equal(report.ops, spoiler.count);
        assert_true(report.ops > 0 && report.bytes > 4 * report.ops);
        assert_string_equal(report.op, "");
    }
}

/* Every op of a model under a policy, one after the other: what each wrote is looked at. */
static void assert_names_each_op(enum model_policy policy) {
    struct verify_report report;
    run_well(policy, NOWHERE, &report);
    const struct spoiler all = spoiler;
    uint32_t position = 0;
    for (int i = 0, begin = 0; i < all.count; i++) {
        uint32_t call = 0;
        if (i > begin && strcmp(all.names[i], all.names[0]) == 0) { /* the next pass */
            position += all.rows[begin];
            begin = i;
        }
        for (int k = begin; k <= i; k++) {
            call += strcmp(all.names[k], all.names[i]) == 0;
        }
        run_well(policy, i, &report);
        assert_false(report.is_equal);
        assert_string_equal(report.op, all.names[i]);
        assert_int_equal(report.call, call);
        assert_int_equal(report.position, position);
        assert_int_equal(report.rows, all.rows[begin]);
        assert_int_equal(report.ops, i + 1);
    }
    assert_int_equal(position + all.rows[all.count - 1], TOKENS);
}

static void names_the_first_op_that_differs(void **state) {
    assert_names_each_op(MODEL_POLICY_INT8);
    assert_names_each_op(MODEL_POLICY_F32);
}

static void tells_of_a_device_that_fails(void **state) {
    struct verify_report report;
    char err[512];
    spoiler.breaks = true;
    enum model_status status = run((struct verify_options){0}, 5, &report, err);
    spoiler.breaks = false;
    assert_int_equal(status, MODEL_FAILED);
    assert_string_not_equal(err, "");
}

static void refuses_what_it_cannot_compute(void **state) {
    struct verify_report report;
    char err[512];
    assert_int_equal(run((struct verify_options){.path = "/nonexistent"}, NOWHERE, &report, err),
                     MODEL_BAD_FILE);
    assert_int_equal(run((struct verify_options){.text = ""}, NOWHERE, &report, err),
                     MODEL_BAD_OPTION);
    assert_non_null(strstr(err, "no tokens"));
    assert_int_equal(run((struct verify_options){.tokens = 1025}, NOWHERE, &report, err),
                     MODEL_BAD_OPTION);
    assert_non_null(strstr(err, "1025"));
}

TEST_MAIN_WITH(open_devices, close_devices,
               cmocka_unit_test(finds_a_tier_equal_to_the_reference_under_every_policy),
               cmocka_unit_test(names_the_first_op_that_differs),
               cmocka_unit_test(tells_of_a_device_that_fails),
               cmocka_unit_test(refuses_what_it_cannot_compute))
