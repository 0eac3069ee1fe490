/* The entry of the one binary. */
#include <signal.h>
#include <stdio.h>

#include "consumer/command.h"

int main(int argc, char **argv) {
    /* A peer that goes away is an error of that one call, never the end of the process. */
    signal(SIGPIPE, SIG_IGN);
    int code = command_main(argc, argv);
    if (fflush(stdout) != 0 && code == COMMAND_EXIT_OK) {
        perror("solfleet: cannot write the output");
        return COMMAND_EXIT_USAGE;
    }
    return code;
}
