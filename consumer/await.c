#include "consumer/await.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/answer.h"
#include "consumer/command.h"
#include "consumer/config.h"
#include "consumer/progress_view.h"
#include "consumer/solution_view.h"
#include "consumer/status_client.h"
#include "consumer/terminal.h"
#include "consumer/watch.h"

struct await {
    const struct config *config;
    const struct await_options *options;
    struct watch_entry *entries;
    struct progress_view view;
};

/* ---- while waiting --------------------------------------------------------------------------- */

static void await_on_change(void *context, size_t index, const struct watch_entry *entry,
                            enum status_state before) {
    struct await *await = context;
    const struct await_options *options = await->options;
    if (options->live) {
        progress_view_change(&await->view, index, before);
    } else if (options->print == AWAIT_PRINT_LINE && !await->config->json && entry->ended) {
        progress_view_print_entry(stdout, entry);
        fflush(stdout);
    }
}

static void await_on_tick(void *context) {
    struct await *await = context;
    if (await->options->live) {
        progress_view_draw(&await->view);
    }
}

/* ---- in the end ------------------------------------------------------------------------------ */

static int await_print_json(const struct watch_entry *entry) {
    char *text = status_encode(&entry->status);
    if (!text) {
        return COMMAND_EXIT_BUG;
    }
    puts(text);
    free(text);
    return COMMAND_EXIT_OK;
}

/* Prints text with exactly one newline at its end. */
static void await_print_text(const char *text) {
    size_t bytes = strlen(text);
    terminal_print(stdout, text, bytes);
    if (bytes == 0 || text[bytes - 1] != '\n') {
        putchar('\n');
    }
}

/* The answer by sections where it has some, else as the model wrote it. */
static void await_print_solution(const struct result *result) {
    if (solution_view_has_any(&result->solution)) {
        bool is_chinese = strncmp(result->model.prompt_version, "zh", 2) == 0;
        solution_view_print(stdout, &result->solution, is_chinese);
    } else {
        await_print_text(result->text);
    }
}

static int await_print_answer(const struct await *await, const struct watch_entry *entry) {
    const struct await_options *options = await->options;
    const char *id = entry->status.request_id;
    struct result result;
    char err[512];
    enum answer_status got = answer_fetch(await->config, &entry->status,
                                          options->connect_timeout_ms, &result, err, sizeof err);
    if (got != ANSWER_OK) {
        return command_fail(options->command,
                            got == ANSWER_UNREACHABLE ? COMMAND_EXIT_UNREACHABLE
                                                      : COMMAND_EXIT_JOB_NOT_DONE,
                            "%s: %s", id, err);
    }
    bool wants_code = options->print == AWAIT_PRINT_CODE;
    const char *text = wants_code ? result.solution.code : result.text;
    int code = COMMAND_EXIT_OK;
    if (text) {
        if (options->count > 1) {
            printf("==> %s <==\n", id);
        }
        if (wants_code) {
            await_print_text(text);
        } else {
            await_print_solution(&result);
        }
    } else {
        code = command_fail(options->command, COMMAND_EXIT_JOB_NOT_DONE,
                            wants_code ? "%s: there is no code in the answer; --show prints it all"
                                       : "%s: the result has no text",
                            id);
    }
    result_deinit(&result);
    return code;
}

/* What is printed of one job when the wait is over. */
static int await_print_entry(const struct await *await, const struct watch_entry *entry) {
    const struct await_options *options = await->options;
    bool done = entry->status.state == STATUS_DONE && entry->ended;
    if (await->config->json) {
        return await_print_json(entry);
    }
    if (options->print != AWAIT_PRINT_LINE && done) {
        return await_print_answer(await, entry);
    }
    bool said = options->print == AWAIT_PRINT_LINE && !options->live && entry->ended;
    if (!said) {
        progress_view_print_entry(options->print == AWAIT_PRINT_LINE ? stdout : stderr, entry);
    }
    return COMMAND_EXIT_OK;
}

static int await_judge(const struct await *await, enum watch_end end) {
    const struct await_options *options = await->options;
    size_t failed = 0, unknown = 0;
    for (size_t i = 0; i < options->count; i++) {
        const struct watch_entry *entry = &await->entries[i];
        unknown += entry->given_up;
        failed += entry->ended && entry->status.state != STATUS_DONE;
    }
    if (end == WATCH_TIMED_OUT) {
        return command_fail(options->command, COMMAND_EXIT_TIMED_OUT,
                            "not all jobs ended within %lld ms; they go on: wait again with the "
                            "same ids",
                            (long long)options->timeout_ms);
    }
    if (unknown) {
        return command_fail(options->command, COMMAND_EXIT_UNKNOWN_ID,
                            "%zu of %zu ids have no status in Redis: never submitted, expired, or "
                            "another --redis or --key-prefix",
                            unknown, options->count);
    }
    return failed ? COMMAND_EXIT_JOB_NOT_DONE : COMMAND_EXIT_OK;
}

static int await_finish(struct await *await, enum watch_end end, const char *err) {
    const struct await_options *options = await->options;
    progress_view_clear(&await->view);
    if (end == WATCH_UNREACHABLE) {
        return command_fail_redis(options->command, err);
    }
    if (end == WATCH_REFUSED) {
        return command_fail(options->command, COMMAND_EXIT_UNREACHABLE, "%s; see --redis", err);
    }
    if (end == WATCH_INTERRUPTED) {
        return command_fail(options->command, COMMAND_EXIT_INTERRUPTED,
                            "interrupted; the jobs go on");
    }
    int printed = COMMAND_EXIT_OK;
    for (size_t i = 0; i < options->count; i++) {
        int code = await_print_entry(await, &await->entries[i]);
        printed = printed ? printed : code;
    }
    if (options->live && !await->config->json) {
        progress_view_print_sum(&await->view);
    }
    fflush(stdout);
    int judged = await_judge(await, end);
    return judged ? judged : printed;
}

static int await_watch(struct await *await, struct status_client *client) {
    const struct await_options *options = await->options;
    progress_view_init(&await->view, await->config->json ? stderr : stdout, await->entries,
                       options->count);
    struct watch_options watch = {.ids = options->ids,
                                  .count = options->count,
                                  .timeout_ms = options->timeout_ms,
                                  .grace_ms = options->grace_ms,
                                  .reconnect_ms = options->connect_timeout_ms,
                                  .tick_ms = 200,
                                  .interrupt = options->interrupt,
                                  .on_change = await_on_change,
                                  .on_tick = await_on_tick,
                                  .context = await};
    char err[512] = "";
    enum watch_end end = watch_run(client, &watch, await->entries, err, sizeof err);
    int code = await_finish(await, end, err);
    watch_entries_deinit(await->entries, options->count);
    return code;
}

int await_jobs(const struct config *config, const struct await_options *options) {
    struct await await = {.config = config, .options = options};
    struct status_client *client = NULL;
    char err[512];
    enum status_client_status status = status_client_open(
        config->redis, config->key_prefix, options->connect_timeout_ms, &client, err, sizeof err);
    if (status == STATUS_CLIENT_UNREACHABLE) {
        return command_fail_redis(options->command, err);
    }
    if (status != STATUS_CLIENT_OK) {
        return command_fail(options->command,
                            status == STATUS_CLIENT_BAD_SETTING ? COMMAND_EXIT_USAGE
                                                                : COMMAND_EXIT_UNREACHABLE,
                            "%s; see --redis", err);
    }
    struct watch_entry *entries = calloc(options->count + 1, sizeof *entries);
    int code;
    if (entries != NULL) {
        await.entries = entries;
        code = await_watch(&await, client);
        free(entries);
    } else {
        code = command_fail(options->command, COMMAND_EXIT_BUG, "out of memory");
    }
    status_client_close(client);
    return code;
}
