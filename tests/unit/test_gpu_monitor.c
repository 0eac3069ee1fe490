/* The monitor of a card, over a library that stands in for NVIDIA's (tests/fake/nvml.c). */
#include "consumer/gpu_monitor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/test.h"

#define START_MS 1000

static char library[4096], err[512];

/* Beside this program: ../fake/libnvidia-ml.so.1. */
static int find_library(void **state) {
    ssize_t bytes = readlink("/proc/self/exe", library, sizeof library - 64);
    assert_true(bytes > 0);
    library[bytes] = '\0';
    snprintf(strrchr(library, '/'), 64, "/../fake/libnvidia-ml.so.1");
    return access(library, R_OK);
}

static struct gpu_monitor *open_card(uint32_t index, const char *name, const char *visible,
                                     const char *refused) {
    visible != NULL ? setenv("CUDA_VISIBLE_DEVICES", visible, 1) : unsetenv("CUDA_VISIBLE_DEVICES");
    refused != NULL ? setenv("FAKE_NVML_REFUSES", refused, 1) : unsetenv("FAKE_NVML_REFUSES");
    err[0] = '\0';
    return gpu_monitor_open(library, index, name, err, sizeof err);
}

/* Three samples, and one that comes too early to ask. */
static struct gpu_monitor_report watch(struct gpu_monitor *monitor) {
    struct gpu_monitor_report report;
    assert_non_null(monitor);
    for (int i = 0; i < 3; i++) {
        gpu_monitor_sample(monitor, START_MS + i * GPU_MONITOR_PAUSE_MS);
    }
    gpu_monitor_sample(monitor, START_MS + 3 * GPU_MONITOR_PAUSE_MS - 1);
    gpu_monitor_report(monitor, &report);
    gpu_monitor_close(monitor);
    return report;
}

static void tells_averages_and_peaks_of_its_samples(void **state) {
    struct gpu_monitor_report report = watch(open_card(0, "Card A", NULL, NULL));
    assert_int_equal(report.utilization_samples, 3);
    assert_true(report.utilization_percent > 59.999 && report.utilization_percent < 60.001);
    assert_int_equal(report.memory_used_bytes_max, 3000);
    assert_int_equal(report.memory_total_bytes, 8000);
    assert_int_equal(report.temperature_celsius_max, 63);
    assert_true(report.power_watts > 100.999 && report.power_watts < 101.001);
}

static void leaves_out_what_a_card_does_not_tell(void **state) {
    struct gpu_monitor_report report = watch(open_card(0, "Card A", NULL, "power"));
    assert_int_equal(report.power_samples, 0);
    assert_int_equal(report.temperature_samples, 3);
    report = watch(open_card(0, "Card A", NULL, "utilization"));
    assert_int_equal(report.utilization_samples, 0);
    assert_int_equal(report.memory_samples, 3);
}

static void finds_the_card_that_cuda_counts(void **state) {
    gpu_monitor_close(open_card(1, "Card B", NULL, NULL));
    assert_string_equal(err, "");
    static const struct {
        const char *visible;
        uint32_t index;
        const char *name;
    } cases[] = {{"1", 0, "Card B"},
                 {"1,0", 1, "Card A"},
                 {"GPU-bbbb", 0, "Card B"},
                 {"0,GPU-bbbb", 1, "Card B"},
                 {"GPU-aaaa,1", 0, "Card A"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gpu_monitor *monitor =
            open_card(cases[i].index, cases[i].name, cases[i].visible, NULL);
        assert_non_null(monitor);
        gpu_monitor_close(monitor);
    }
}

static void asks_no_card_of_another_name(void **state) {
    assert_null(open_card(0, "Card B", NULL, NULL));
    assert_string_equal(err, "cuda:0 is a Card B, and NVML's card of that number a Card A: "
                             "set CUDA_DEVICE_ORDER=PCI_BUS_ID");
}

static void says_why_there_is_nothing_to_ask(void **state) {
    assert_null(open_card(2, "Card A", NULL, NULL));
    assert_string_equal(err, "NVML answers 6 about cuda:2");
    assert_null(open_card(1, "Card A", "0", NULL)); /* no such entry */
    assert_string_equal(err, "NVML answers 6 about cuda:1");
    assert_null(open_card(0, "Card A", NULL, "init"));
    assert_non_null(strstr(err, "nvmlInit_v2 answers 3"));
    assert_null(gpu_monitor_open("/nowhere/libnvidia-ml.so.1", 0, "Card A", err, sizeof err));
    assert_non_null(strstr(err, "/nowhere/libnvidia-ml.so.1"));
    assert_null(gpu_monitor_open("libm.so.6", 0, "Card A", err, sizeof err));
    assert_string_equal(err, "libm.so.6 lacks nvmlInit_v2");
}

static void is_nothing_without_a_card(void **state) {
    struct gpu_monitor_report report;
    gpu_monitor_sample(NULL, START_MS);
    gpu_monitor_report(NULL, &report);
    assert_int_equal(report.memory_samples, 0);
    gpu_monitor_close(NULL);
}

TEST_MAIN_WITH(find_library, NULL, cmocka_unit_test(tells_averages_and_peaks_of_its_samples),
               cmocka_unit_test(leaves_out_what_a_card_does_not_tell),
               cmocka_unit_test(finds_the_card_that_cuda_counts),
               cmocka_unit_test(asks_no_card_of_another_name),
               cmocka_unit_test(says_why_there_is_nothing_to_ask),
               cmocka_unit_test(is_nothing_without_a_card))
