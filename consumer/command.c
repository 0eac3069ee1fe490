#include "consumer/command.h"

#include <stdarg.h>
#include <string.h>

#include "consumer/config.h"
#include "consumer/config_value.h"
#include "consumer/interrupt.h"

/* A command adds its two lines here when it lands. */
extern const struct command command_batch_entry;
extern const struct command command_bench_entry;
extern const struct command command_broker_entry;
extern const struct command command_cancel_entry;
extern const struct command command_compare_entry;
extern const struct command command_config_entry;
extern const struct command command_generate_entry;
extern const struct command command_model_entry;
extern const struct command command_repair_entry;
extern const struct command command_replay_entry;
extern const struct command command_results_entry;
extern const struct command command_status_entry;
extern const struct command command_submit_entry;
extern const struct command command_topics_entry;
extern const struct command command_verify_entry;
extern const struct command command_wait_entry;
extern const struct command command_worker_entry;

static const struct command *const command_table[] = {
    &command_worker_entry,   //
    &command_submit_entry,   //
    &command_batch_entry,    //
    &command_status_entry,   //
    &command_wait_entry,     //
    &command_results_entry,  //
    &command_repair_entry,   //
    &command_cancel_entry,   //
    &command_replay_entry,   //
    &command_topics_entry,   //
    &command_broker_entry,   //
    &command_generate_entry, //
    &command_model_entry,    //
    &command_config_entry,   //
    &command_compare_entry,  //
    &command_verify_entry,   //
    &command_bench_entry,    //
    NULL,
};

const struct command *command_at(size_t index) {
    size_t count = sizeof command_table / sizeof command_table[0] - 1;
    return index < count ? command_table[index] : NULL;
}

const struct command *command_find(const char *name) {
    for (size_t i = 0; command_at(i); i++) {
        if (strcmp(command_at(i)->name, name) == 0) {
            return command_at(i);
        }
    }
    return NULL;
}

int command_fail(const char *name, enum command_exit code, const char *format, ...) {
    va_list arguments;
    fflush(stdout);
    fprintf(stderr, "solfleet %s: ", name);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return code;
}

int command_fail_kafka(const char *name, const char *said) {
    const char *detail = strstr(said, " (after "); /* librdkafka's own bookkeeping */
    int size = detail ? (int)(detail - said) : (int)strlen(said);
    return command_fail(name, COMMAND_EXIT_UNREACHABLE,
                        "Kafka is unreachable: %.*s; is it running, and is --brokers right? "
                        "('solfleet broker' starts one in memory, to try things out)",
                        size, said);
}

int command_fail_redis(const char *name, const char *said) {
    return command_fail(name, COMMAND_EXIT_UNREACHABLE,
                        "Redis is unreachable: %s; is it running ('redis-server'), and is --redis "
                        "right?",
                        said);
}

int command_fail_client(const char *name, enum kafka_client_status status, const char *said) {
    return status == KAFKA_CLIENT_UNREACHABLE ? command_fail_kafka(name, said)
                                              : command_fail(name, COMMAND_EXIT_USAGE, "%s", said);
}

int command_run(const struct config_spec *spec, int argc, char **argv,
                int (*work)(const struct config *config, void *own)) {
    struct config config;
    int code;
    if (config_start(&config, spec, argc, argv, &code) == 0) {
        code = work(&config, spec->own_values);
    }
    config_deinit(&config);
    return code;
}

int command_run_interruptible(const struct config_spec *spec, int argc, char **argv,
                              int (*work)(const struct config *config, void *own,
                                          struct interrupt *interrupt)) {
    struct config config;
    struct interrupt interrupt;
    int code;
    if (config_start(&config, spec, argc, argv, &code) == 0) {
        if (interrupt_open(&interrupt)) {
            code = work(&config, spec->own_values, &interrupt);
            interrupt_close(&interrupt);
        } else {
            code = command_fail(spec->name, COMMAND_EXIT_BUG, "no descriptor for signals");
        }
    }
    config_deinit(&config);
    return code;
}

static void command_print_list(FILE *to) {
    fprintf(to, "usage: solfleet COMMAND [OPTION...] [ARGUMENT...]\n\n"
                "Worked solutions of programming problems: jobs from Kafka, answers from an INT8\n"
                "engine, status in Redis.\n\ncommands:\n");
    for (size_t i = 0; command_at(i); i++) {
        fprintf(to, "  %-12s%s\n", command_at(i)->name, command_at(i)->summary);
    }
    fprintf(to, "\n'solfleet COMMAND --help' explains each.\n\n"
                "exit codes: 0 ok; 1 a job ended failed, expired or cancelled; 2 usage or\n"
                "configuration; 3 unknown id; 4 broker or Redis unreachable; 5 wait timed out;\n"
                "6 no usable device, or the model does not fit; 7 model file bad; 70 bug;\n"
                "75 worker: jobs will be delivered again; 130 interrupted\n");
}

static int command_help(int argc, char **argv) {
    const struct command *about = argc > 2 ? command_find(argv[2]) : NULL;
    if (about) {
        char help[] = "--help";
        char *words[] = {argv[2], help, NULL};
        return about->run(2, words);
    }
    command_print_list(stdout);
    return COMMAND_EXIT_OK;
}

/* The command most like a name; NULL when none is near. */
static const char *command_nearest(const char *name) {
    const char *nearest = NULL;
    unsigned best = (unsigned)strlen(name) / 3 + 2;
    for (size_t i = 0; command_at(i); i++) {
        unsigned distance = config_value_distance(name, command_at(i)->name);
        if (distance < best) {
            nearest = command_at(i)->name;
            best = distance;
        }
    }
    return nearest;
}

int command_main(int argc, char **argv) {
    if (argc < 2) {
        command_print_list(stderr);
        return COMMAND_EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        return command_help(argc, argv);
    }
    const struct command *command = command_find(name);
    if (!command) {
        const char *near = command_nearest(name);
        fprintf(stderr, "solfleet: unknown command '%s'%s%s%s; 'solfleet --help' lists them\n",
                name, near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
        return COMMAND_EXIT_USAGE;
    }
    return command->run(argc - 1, argv + 1);
}
