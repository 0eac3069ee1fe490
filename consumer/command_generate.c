#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/command.h"
#include "consumer/config.h"
#include "consumer/engine_config.h"
#include "consumer/interrupt.h"
#include "consumer/job_file.h"
#include "consumer/terminal.h"
#include "engine/clock.h"
#include "engine/engine.h"
#include "engine/log.h"
#include "schemas/json_writer.h"
#include "schemas/result.h"
#include "schemas/solution.h"

struct command_generate_options {
    const char *prompt, *problem, *code_language, *language;
    int64_t max_tokens, seed, top_k;
    double temperature, top_p;
};

#define COMMAND_GENERATE_ID "generate"
#define COMMAND_GENERATE_TICKET 1
#define COMMAND_GENERATE_PROGRESS_MS 40 /* as smooth as reading needs */

#define AT(field) offsetof(struct command_generate_options, field)
static const struct config_option command_generate_table[] = {
    {"prompt", CONFIG_TEXT, NULL, 0, 0, NULL, 0, AT(prompt), "text to continue, as it stands"},
    {"problem", CONFIG_TEXT, NULL, 0, 0, NULL, 0, AT(problem),
     "file with a programming problem to solve; - is standard input"},
    {"max_tokens", CONFIG_INT, "512", 1, JOB_MAX_TOKENS_MAX, NULL, 0, AT(max_tokens),
     "most tokens in the answer"},
    {"temperature", CONFIG_REAL, "0.7", 0, 2, NULL, 0, AT(temperature),
     "0 takes the likeliest token each time"},
    {"top_p", CONFIG_REAL, "0.95", 0.000001, 1, NULL, 0, AT(top_p), "share of the likeliest kept"},
    {"top_k", CONFIG_INT, "50", 0, 1000000, NULL, 0, AT(top_k), "tokens kept; 0: all"},
    {"seed", CONFIG_INT, "0", 0, (double)JOB_SEED_MAX, NULL, 0, AT(seed),
     "equal seeds give equal answers"},
    {"language", CONFIG_CHOICE, "auto", 0, 0, "zh|en|auto", 0, AT(language),
     "language of the answer, for --problem"},
    {"code_language", CONFIG_TEXT, "python", 0, 0, NULL, 0, AT(code_language),
     "language of the code, for --problem"},
};
#undef AT

static const char command_generate_help[] =
    "Runs a model here, without Kafka and Redis, and prints its answer as it comes. Speed and\n"
    "settings are told on stderr. Equal models, policies, prompts, options and seeds give equal\n"
    "answers, on any number of threads, and in a worker, too.\n"
    "\n"
    "  solfleet generate --model models/SmolLM2-135M-Instruct.Q4_1.gguf --problem two-sum.md\n"
    "  solfleet generate --model m.gguf --prompt 'def fib(n):' --max-tokens 64 --temperature 0";

struct command_generate {
    const struct config *config;
    struct engine *engine;
    struct interrupt *interrupt;
    bool streams; /* print text as it comes */
    bool is_problem;
    char code_language[JOB_CODE_LANGUAGE_BYTES]; /* as the job has it */
    size_t printed_bytes;
    bool interrupted;
};

/* ---- the job --------------------------------------------------------------------------------- */

static void command_generate_set_params(struct job *job,
                                        const struct command_generate_options *options) {
    job->params.max_tokens = (uint32_t)options->max_tokens;
    job->params.temperature = (float)options->temperature;
    job->params.top_p = (float)options->top_p;
    job->params.top_k = (uint32_t)options->top_k;
    job->params.seed = (uint64_t)options->seed;
    job->params.seed_given = true;
    job->progress = JOB_PROGRESS_TEXT;
}

static int command_generate_read_problem(const struct command_generate_options *options,
                                         struct job *job) {
    char *text = NULL, err[512];
    size_t bytes = 0;
    if (!job_file_read(options->problem, &text, &bytes, err, sizeof err)) {
        return command_fail("generate", COMMAND_EXIT_USAGE, "%s", err);
    }
    bool made = job_file_make_problem(job, COMMAND_GENERATE_ID, text, bytes);
    free(text);
    if (!made) {
        return command_fail("generate", COMMAND_EXIT_BUG, "out of memory");
    }
    snprintf(job->problem.code_language, sizeof job->problem.code_language, "%s",
             options->code_language);
    job->problem.answer_language = strcmp(options->language, "zh") == 0   ? JOB_ANSWER_ZH
                                   : strcmp(options->language, "en") == 0 ? JOB_ANSWER_EN
                                                                          : JOB_ANSWER_AUTO;
    return COMMAND_EXIT_OK;
}

/* Makes the job and lets it pass through the wire form, so that it is checked as a worker would. */
static int command_generate_make_job(const struct command_generate_options *options,
                                     struct job *out) {
    struct job job;
    job_init(&job);
    if (!options->prompt == !options->problem) {
        return command_fail("generate", COMMAND_EXIT_USAGE, "give one of --prompt and --problem");
    }
    if (options->problem) {
        int code = command_generate_read_problem(options, &job);
        if (code) {
            return code;
        }
    } else {
        snprintf(job.request_id, sizeof job.request_id, "%s", COMMAND_GENERATE_ID);
        job.kind = JOB_PROMPT;
        job.prompt = strdup(options->prompt);
    }
    command_generate_set_params(&job, options);
    char *value = job_encode(&job);
    job_deinit(&job);
    struct job_limits limits = job_limits_default();
    struct job_error error;
    if (!value) {
        return command_fail("generate", COMMAND_EXIT_BUG, "out of memory");
    }
    enum error_code refused = job_decode(value, strlen(value), &limits, out, &error);
    free(value);
    return refused == ERROR_NONE
               ? COMMAND_EXIT_OK
               : command_fail("generate", COMMAND_EXIT_USAGE, "%s%s%s", error.field,
                              error.field[0] ? ": " : "", error.message);
}

/* ---- running --------------------------------------------------------------------------------- */

/* One job, at once: none of a worker's room for many, and none of its patience. */
static struct config command_generate_settings(const struct config *config) {
    struct config alone = *config;
    alone.engine = "real";
    alone.max_batch_size = 1;
    alone.max_running = 1;
    alone.max_queue_size = 1;
    alone.max_queue_delay_ms = 0;
    alone.progress_interval_ms = COMMAND_GENERATE_PROGRESS_MS;
    return alone;
}

/* Prints what of the text has not been printed yet. */
static void command_generate_print(struct command_generate *generate, const char *text) {
    size_t bytes = strlen(text);
    if (bytes > generate->printed_bytes) {
        terminal_print(stdout, text + generate->printed_bytes, bytes - generate->printed_bytes);
        fflush(stdout);
        generate->printed_bytes = bytes;
    }
}

/* Takes events; true when the answer is complete and in *last. */
static bool command_generate_take(struct command_generate *generate, struct engine_event *last) {
    struct engine_event event;
    while (engine_take_events(generate->engine, &event, 1)) {
        if (event.text && generate->streams) {
            command_generate_print(generate, event.text);
        }
        if (event.kind == ENGINE_EVENT_FINISHED) {
            *last = event;
            return true;
        }
        engine_event_deinit(&event);
    }
    return false;
}

/* The user asked to stop: the answer so far comes as the last event. */
static void command_generate_check_interrupt(struct command_generate *generate, int wait_ms) {
    struct pollfd ready = {.fd = generate->interrupt->fd, .events = POLLIN};
    if (poll(&ready, 1, wait_ms) > 0 && interrupt_take(generate->interrupt)) {
        generate->interrupted = true;
        while (!engine_cancel(generate->engine, COMMAND_GENERATE_TICKET, FINISH_CANCELLED)) {
            poll(NULL, 0, 1); /* the ring is full of what one step takes out */
        }
    }
}

/* Steps the engine until the answer is complete. On OK *last is the caller's, its text set. */
static int command_generate_drive(struct command_generate *generate, struct engine_event *last) {
    char err[512];
    bool worked = true;
    while (!command_generate_take(generate, last)) {
        command_generate_check_interrupt(generate, worked ? 0 : 1);
        if (engine_step(generate->engine, &worked, err, sizeof err) != ENGINE_OK) {
            command_fail("generate", COMMAND_EXIT_BUG, "%s", err);
            return COMMAND_EXIT_BUG;
        }
    }
    return COMMAND_EXIT_OK;
}

/* ---- what came out --------------------------------------------------------------------------- */

static double command_generate_rate(double count, int64_t ns) {
    return ns > 0 ? count * (double)CLOCK_NS_PER_S / (double)ns : 0;
}

/* Tokens after the first a second: the first belongs to the prompt's pass. */
static double command_generate_decode_rate(const struct engine_event *event) {
    uint32_t tokens = event->usage.completion_tokens;
    return tokens > 1
               ? command_generate_rate(tokens - 1, event->finished_ns - event->first_token_ns)
               : 0;
}

/* The answer to a problem, taken apart; null for a prompt. */
static void command_generate_put_solution(struct json_writer *writer,
                                          const struct command_generate *generate,
                                          const struct engine_event *event) {
    struct result_solution solution = {0};
    if (generate->is_problem &&
        solution_parse(event->text, generate->code_language, event->finish_reason != FINISH_STOP,
                       &solution) != SOLUTION_OK) {
        writer->failed = true;
    }
    json_writer_key(writer, "solution");
    result_encode_solution(writer, &solution);
    solution_deinit(&solution);
}

static void command_generate_print_json(const struct command_generate *generate,
                                        const struct engine_event *event,
                                        const struct engine_info *info) {
    struct json_writer writer;
    json_writer_init(&writer, 1024);
    json_writer_begin_object(&writer);
    command_generate_put_solution(&writer, generate, event);
    json_writer_key(&writer, "text");
    json_writer_string(&writer, event->text);
    json_writer_key(&writer, "finish_reason");
    json_writer_string(&writer, finish_reason_name(event->finish_reason));
    json_writer_key(&writer, "answer_sha256");
    json_writer_string(&writer, event->answer_sha256);
    json_writer_key(&writer, "prompt_tokens");
    json_writer_uint(&writer, event->usage.prompt_tokens);
    json_writer_key(&writer, "completion_tokens");
    json_writer_uint(&writer, event->usage.completion_tokens);
    json_writer_key(&writer, "first_token_ms");
    json_writer_int(&writer, (event->first_token_ns - event->admitted_ns) / CLOCK_NS_PER_MS);
    json_writer_key(&writer, "tokens_per_s");
    json_writer_double(&writer, command_generate_decode_rate(event));
    const char *const pairs[][2] = {{"model", info->model_name},
                                    {"model_sha256", info->model_sha256},
                                    {"policy", info->policy},
                                    {"numerics", info->numerics},
                                    {"prompt_version", event->prompt_version},
                                    {"tier", info->tier}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        json_writer_key(&writer, pairs[i][0]);
        json_writer_string(&writer, pairs[i][1]);
    }
    json_writer_end_object(&writer);
    char *text = json_writer_finish(&writer, NULL);
    puts(text ? text : "");
    free(text);
}

static void command_generate_print_speed(const struct engine_event *event,
                                         const struct engine_info *info) {
    int64_t prefill_ns = event->first_token_ns - event->started_ns;
    fprintf(stderr,
            "%u prompt tokens at %.1f tokens/s, %u tokens at %.1f tokens/s, finish reason %s\n"
            "%s, policy %s, %s on %u threads (%s)\n",
            event->usage.prompt_tokens,
            command_generate_rate(event->usage.prompt_tokens, prefill_ns),
            event->usage.completion_tokens, command_generate_decode_rate(event),
            finish_reason_name(event->finish_reason), info->model_name, info->policy, info->tier,
            info->threads, info->numerics);
}

static int command_generate_report(struct command_generate *generate,
                                   const struct engine_event *event) {
    struct engine_info info;
    engine_info(generate->engine, &info);
    if (event->finish_reason == FINISH_ERROR) {
        return command_fail("generate", COMMAND_EXIT_JOB_NOT_DONE, "%s: %s",
                            error_code_name(event->error.code), event->error.message);
    }
    if (generate->config->json) {
        command_generate_print_json(generate, event, &info);
    } else {
        command_generate_print(generate, event->text ? event->text : "");
        putchar('\n');
        fflush(stdout);
    }
    command_generate_print_speed(event, &info);
    return generate->interrupted ? COMMAND_EXIT_INTERRUPTED : COMMAND_EXIT_OK;
}

static int command_generate_answer(struct command_generate *generate, struct job *job) {
    struct job_error rejected;
    enum engine_status admitted =
        engine_submit(generate->engine, COMMAND_GENERATE_TICKET, job, &rejected);
    if (admitted != ENGINE_OK) {
        return command_fail("generate", COMMAND_EXIT_USAGE, "%s: %s",
                            error_code_name(rejected.code), rejected.message);
    }
    struct engine_event last = {0};
    int code = command_generate_drive(generate, &last);
    if (code == COMMAND_EXIT_OK) {
        code = command_generate_report(generate, &last);
        engine_event_deinit(&last);
    }
    return code;
}

static int command_generate_all(const struct config *config,
                                const struct command_generate_options *options) {
    struct interrupt interrupt;
    struct job job;
    job_init(&job);
    int code = command_generate_make_job(options, &job);
    if (code) {
        return code;
    }
    if (!interrupt_open(&interrupt)) {
        job_deinit(&job);
        return command_fail("generate", COMMAND_EXIT_BUG, "no descriptor for signals");
    }
    struct command_generate generate = {.config = config,
                                        .interrupt = &interrupt,
                                        .streams = !config->json && terminal_is(stdout),
                                        .is_problem = job.kind == JOB_PROBLEM};
    memcpy(generate.code_language, job.problem.code_language, sizeof generate.code_language);
    /* The default level is a worker's; here only what is wrong belongs beside the answer. */
    struct log log = {.fd = 2, .level = LOG_LEVEL_WARN};
    if (strcmp(config->log_level, "info") != 0) {
        log_level_parse(config->log_level, &log.level);
    }
    struct config alone = command_generate_settings(config);
    char err[512];
    code = engine_config_open(&alone, &log, &generate.engine, err, sizeof err);
    code = code ? command_fail("generate", (enum command_exit)code, "%s", err)
                : command_generate_answer(&generate, &job);
    engine_close(generate.engine);
    job_deinit(&job);
    interrupt_close(&interrupt);
    return code;
}

static int command_generate_run(int argc, char **argv) {
    struct command_generate_options options = {0};
    const struct config_spec spec = {
        .name = "generate",
        .command = CONFIG_GENERATE,
        .usage = "--model FILE (--prompt TEXT | --problem FILE)",
        .summary = command_generate_help,
        .own = command_generate_table,
        .own_count = sizeof command_generate_table / sizeof command_generate_table[0],
        .own_values = &options,
    };
    struct config config;
    int code;
    if (config_start(&config, &spec, argc, argv, &code) == 0) {
        code = command_generate_all(&config, &options);
    }
    config_deinit(&config);
    return code;
}

const struct command command_generate_entry = {"generate", "run a model here and print its answer",
                                               command_generate_run};
