/* The entry of the one binary: finds the command and runs it. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "consumer/command.h"

static int main_run(const struct command *command, int argc, char **argv) {
    struct command_line line;
    char err[512];
    int code = COMMAND_EXIT_USAGE;
    if (!command_line_init(&line, command, argc, argv, err, sizeof err)) {
        fprintf(stderr, "solfleet %s: %s\n", command->name, err);
    } else if (line.help) {
        command_print_help(command, stdout);
        code = COMMAND_EXIT_OK;
    } else {
        code = command->run(&line);
    }
    command_line_deinit(&line);
    if (fflush(stdout) != 0 && code == COMMAND_EXIT_OK) {
        perror("solfleet: cannot write the output");
        code = COMMAND_EXIT_USAGE;
    }
    return code;
}

int main(int argc, char **argv) {
    /* A peer that goes away is an error of that one call, never the end of the process. */
    signal(SIGPIPE, SIG_IGN);
    const char *name = argc > 1 ? argv[1] : "--help";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        const struct command *about = argc > 2 ? command_find(argv[2]) : NULL;
        FILE *to = argc > 1 ? stdout : stderr;
        if (about) {
            command_print_help(about, to);
        } else {
            command_print_list(to);
        }
        return argc > 1 ? COMMAND_EXIT_OK : COMMAND_EXIT_USAGE;
    }
    const struct command *command = command_find(name);
    if (!command) {
        fprintf(stderr, "solfleet: unknown command '%s'; 'solfleet --help' lists them\n", name);
        return COMMAND_EXIT_USAGE;
    }
    return main_run(command, argc - 2, argv + 2);
}
