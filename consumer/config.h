/* A configuration: the value of every option, read once when a command starts.
 *
 * There is one table of options (config_table.c): name, type, default, range, help, commands. From
 * it come the flags (`--max-batch-size 32`, `--max-batch-size=32`), the environment
 * (`SOLFLEET_MAX_BATCH_SIZE`), the `.env` file in the working directory (the same names;
 * `--env-file`), the JSON file (`--config FILE`), the help texts and ops/CONFIGURATION.md. A flag
 * beats the environment, that `.env`, that the JSON file, that the profile, that the default.
 * `kafka.NAME` goes to librdkafka as NAME, unseen.
 *
 * A command may bring options of its own (arguments such as `--prompt`): flags only, with a struct
 * of its own; they beat a general option of the same name.
 *
 * One thread. A configuration owns all strings it gives out, those of a command's own options
 * included, until config_deinit. Knows nothing of what the options do. */
#ifndef SOLFLEET_CONSUMER_CONFIG_H
#define SOLFLEET_CONSUMER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CONFIG_PASS_MAX 64          /* kafka.* properties */
#define CONFIG_OWN_MAX 64           /* options of one command's own */
#define CONFIG_FILE_BYTES_MAX 65536 /* a JSON file of options */
#define CONFIG_WARNINGS_MAX 16      /* the rest is not told */

/* The commands that heed an option. */
enum config_command {
    CONFIG_WORKER = 1 << 0,
    CONFIG_BROKER = 1 << 1,
    CONFIG_TOPICS = 1 << 2,
    CONFIG_SUBMIT = 1 << 3,
    CONFIG_STATUS = 1 << 4,
    CONFIG_WAIT = 1 << 5,
    CONFIG_RESULTS = 1 << 6,
    CONFIG_GENERATE = 1 << 7,
    CONFIG_MODEL = 1 << 8,
    CONFIG_BENCH = 1 << 9,
    CONFIG_COMPARE = 1 << 10,
    CONFIG_CONFIG = 1 << 11,
    CONFIG_BATCH = 1 << 12,
    CONFIG_REPAIR = 1 << 13,
    CONFIG_REPLAY = 1 << 14,
    CONFIG_VERIFY = 1 << 15,
    CONFIG_COMMANDS_ALL = (1 << 16) - 1
};

enum config_type {
    CONFIG_BOOL,   /* bool: --name, --no-name, --name=true|false */
    CONFIG_INT,    /* int64_t in min..max */
    CONFIG_REAL,   /* double in min..max */
    CONFIG_TEXT,   /* const char *, never NULL unless its default is NULL */
    CONFIG_CHOICE, /* const char *, one of `choices` */
    CONFIG_LIST    /* const char *, comma separated; an array of strings in the file */
};

struct config_option {
    const char *name; /* "max_batch_size"; on the command line `-` and `_` are the same */
    enum config_type type;
    const char *fallback; /* the default as text; NULL leaves the field as it is */
    double min, max;
    const char *choices; /* "real|null" */
    unsigned commands;   /* of enum config_command; 0 in a command's own options */
    size_t offset;       /* of the field in the struct */
    const char *help;
};

/* A name and value for librdkafka, without the leading "kafka.". */
struct config_pass {
    const char *name, *value;
};

struct config {
    /* services */
    const char *brokers;
    const char *redis; /* redis://[user:password@]host:port[/db] or the path of a unix socket */
    const char *topics, *jobs_topic, *results_topic, *dead_letter_topic;
    const char *reply_topics; /* list: what a job may name as reply_topic */
    const char *group;
    const char *group_instance_id; /* static membership; "" = none */
    const char *key_prefix;
    struct config_pass kafka[CONFIG_PASS_MAX];
    size_t kafka_count;
    bool unsafe; /* let kafka.* override what delivery rests on */

    /* model and device */
    const char *engine; /* real|null */
    const char *model, *policy, *device, *cublaslt, *cpu_tier;
    int64_t threads;
    int64_t kv_cache_bytes;
    double gpu_memory_utilization;
    bool prefix_cache, head_sketch, graphs;
    const char *weight_cache;
    int64_t null_completion_tokens, null_answer_bytes, null_delay_us;

    /* batching */
    const char *profile;
    int64_t max_batch_size, max_running, max_queue_size, max_batch_tokens, prefill_chunk_tokens;
    int64_t max_model_len, max_queue_delay_ms, priority_ageing_ms;
    bool bucket_strict;
    int64_t max_speculative_tokens, repetition_cycles, repetition_cycle_tokens, repetition_tokens;
    int64_t progress_interval_ms;

    /* the worker */
    const char *worker_name; /* "" = host name and process id */
    int64_t max_clock_skew_ms, default_timeout_ms;
    int64_t default_max_tokens, default_top_k;
    double default_temperature, default_top_p, default_min_p;
    double default_repetition_penalty, default_presence_penalty, default_frequency_penalty;
    const char *default_stop_token_ids; /* list of integers */
    int64_t max_job_bytes, max_message_bytes;
    int64_t high_water, low_water; /* jobs in the worker; 0 = derived */
    int64_t commit_interval_ms, commit_records;
    int64_t repair_window_s;
    int64_t drain_timeout_ms, revoke_grace_ms;
    int64_t engine_retries;
    int64_t status_ttl_s, result_max_bytes_in_status;
    int64_t redis_claim_timeout_ms, redis_timeout_ms, redis_backlog_max;
    const char *log_level;

    /* every command */
    const char *file;     /* --config */
    const char *env_file; /* --env-file; "" = none */
    bool json;

    char **arguments; /* what is no option, in order; owned array of borrowed argv strings */
    size_t argument_count;
    const char *warnings[CONFIG_WARNINGS_MAX]; /* likely mistakes in environment and `.env` */
    size_t warning_count;

    struct config_text *texts_; /* owned strings */
};

/* What one command accepts. */
struct config_spec {
    const char *name; /* "submit" */
    enum config_command command;
    const char *usage;               /* "FILE|- ..." after `solfleet submit [options]` */
    const char *summary;             /* one or more lines of help */
    const struct config_option *own; /* may be NULL */
    size_t own_count;
    void *own_values; /* the struct that `own` offsets point into */
    size_t arguments_min, arguments_max;
};

enum config_status {
    CONFIG_OK = 0,
    CONFIG_HELP, /* --help was asked for and has been printed to stdout: exit 0 */
    CONFIG_WRONG /* err says what, and what would be right: exit 2 */
};

/* Reads everything. argv[0] is the command's own name and is skipped; `--` ends the options.
 * `environment` is as environ (NULL = none). Whatever is returned, config_deinit is due. */
enum config_status config_read(struct config *config, const struct config_spec *spec, int argc,
                               char **argv, char **environment, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

/* config_read with environ; says on stderr what is wrong. Returns 0 to go on; otherwise *exit_code
 * (0 after --help, else 2) is to be returned by the command, after config_deinit. */
int config_start(struct config *config, const struct config_spec *spec, int argc, char **argv,
                 int *exit_code) __attribute__((warn_unused_result));

/* Accepts a zeroed configuration. */
void config_deinit(struct config *config);

/* True when a comma separated list holds `name`. */
bool config_list_has(const char *list, const char *name);

#endif
