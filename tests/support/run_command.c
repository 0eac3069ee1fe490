#include "tests/support/run_command.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "consumer/command.h"
#include "tests/support/test.h"

enum { RUN_COMMAND_WORDS_MAX = 32 };

static void run_command_redirect(const char *name, int fd) {
    char *path = test_tmp_path(name);
    int file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    dup2(file, fd);
    close(file);
    free(path);
}

pid_t run_command_start(const char *const *words) {
    test_tmpdir(); /* made here, so that parent and child have the same */
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing outlives a test that failed */
        char *argv[RUN_COMMAND_WORDS_MAX + 1] = {strdup("solfleet")};
        int argc = 1;
        for (; argc < RUN_COMMAND_WORDS_MAX && words[argc - 1]; argc++) {
            argv[argc] = strdup(words[argc - 1]);
        }
        run_command_redirect("out", 1);
        run_command_redirect("said", 2);
        int code = command_main(argc, argv);
        fflush(NULL);
        _exit(code);
    }
    return pid;
}

static void run_command_read_back(const char *name, char *into) {
    char *path = test_tmp_path(name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t bytes = fread(into, 1, RUN_COMMAND_OUTPUT_BYTES_MAX - 1, file);
    into[bytes] = '\0';
    fclose(file);
    free(path);
}

int run_command_finish(pid_t pid, struct run_command *run) {
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    run_command_read_back("out", run->out);
    run_command_read_back("said", run->said);
    if (!WIFEXITED(status)) {
        fail_msg("the command ended by signal %d: %s", WTERMSIG(status), run->said);
    }
    return WEXITSTATUS(status);
}

void run_command_assert_out(const struct run_command *run, const char *text) {
    if (!strstr(run->out, text)) {
        fail_msg("stdout lacks '%s': %s", text, run->out);
    }
}

void run_command_assert_said(const struct run_command *run, const char *text) {
    if (!strstr(run->said, text)) {
        fail_msg("stderr lacks '%s': %s", text, run->said);
    }
}
