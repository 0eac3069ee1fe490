#include "consumer/command_bench.h"

#include <stdio.h>
#include <string.h>

#include "consumer/command.h"

static void command_bench_print_help(FILE *to) {
    fprintf(to, "usage: solfleet bench engine|pipeline [OPTION...]\n\n"
                "  engine    the model alone: tokens a second at given batch sizes\n"
                "  pipeline  jobs through broker, worker and Redis: jobs a second, latencies\n\n"
                "'solfleet bench engine --help' and 'solfleet bench pipeline --help' explain.\n\n"
                "example:\n  solfleet bench engine --model FILE --batch 1,8,32 --json\n");
}

static int command_bench_run(int argc, char **argv) {
    const char *which = argc > 1 ? argv[1] : "";
    if (strcmp(which, "engine") == 0) {
        return command_bench_engine_run(argc - 1, argv + 1);
    }
    if (strcmp(which, "pipeline") == 0) {
        return command_bench_pipeline_run(argc - 1, argv + 1);
    }
    if (strcmp(which, "--help") == 0 || strcmp(which, "-h") == 0) {
        command_bench_print_help(stdout);
        return COMMAND_EXIT_OK;
    }
    if (which[0] != '\0') {
        fprintf(stderr, "solfleet bench: '%s' is neither engine nor pipeline\n", which);
    }
    command_bench_print_help(stderr);
    return COMMAND_EXIT_USAGE;
}

const struct command command_bench_entry = {"bench", "measure the engine, or the whole pipeline",
                                            command_bench_run};
