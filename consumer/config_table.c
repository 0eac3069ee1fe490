#include "consumer/config_table.h"

#define AT(field) offsetof(struct config, field)
#define MODELS \
    (CONFIG_WORKER | CONFIG_GENERATE | CONFIG_MODEL | CONFIG_BENCH | CONFIG_COMPARE | CONFIG_VERIFY)
#define ENGINES (CONFIG_WORKER | CONFIG_GENERATE | CONFIG_BENCH | CONFIG_COMPARE)
#define BATCHING (CONFIG_WORKER | CONFIG_BENCH)
#define PLANNING CONFIG_MODEL /* what decides how much memory is reserved */
#define DEVICES (ENGINES | PLANNING | CONFIG_VERIFY)
#define KAFKA                                                                      \
    (CONFIG_WORKER | CONFIG_BROKER | CONFIG_TOPICS | CONFIG_SUBMIT | CONFIG_WAIT | \
     CONFIG_RESULTS | CONFIG_BENCH | CONFIG_BATCH | CONFIG_REPAIR | CONFIG_REPLAY)
#define REDIS                                                                                    \
    (CONFIG_WORKER | CONFIG_SUBMIT | CONFIG_STATUS | CONFIG_WAIT | CONFIG_BENCH | CONFIG_BATCH | \
     CONFIG_REPAIR | CONFIG_REPLAY)
#define ALL CONFIG_COMMANDS_ALL

#define TEXT(name, fallback, commands, help) \
    { #name, CONFIG_TEXT, fallback, 0, 0, NULL, commands, AT(name), help }
#define LIST(name, fallback, commands, help) \
    { #name, CONFIG_LIST, fallback, 0, 0, NULL, commands, AT(name), help }
#define CHOICE(name, fallback, choices, commands, help) \
    { #name, CONFIG_CHOICE, fallback, 0, 0, choices, commands, AT(name), help }
#define INT(name, fallback, min, max, commands, help) \
    { #name, CONFIG_INT, fallback, min, max, NULL, commands, AT(name), help }
#define REAL(name, fallback, min, max, commands, help) \
    { #name, CONFIG_REAL, fallback, min, max, NULL, commands, AT(name), help }
#define BOOL(name, fallback, commands, help) \
    { #name, CONFIG_BOOL, fallback, 0, 0, NULL, commands, AT(name), help }
#define REDIS_INT(name, fallback, min, max, commands, help) \
    { "redis." #name, CONFIG_INT, fallback, min, max, NULL, commands, AT(redis_##name), help }

const struct config_option config_table_options[] = {
    LIST(brokers, "127.0.0.1:9092", KAFKA, "Kafka bootstrap servers, host:port[,host:port]"),
    TEXT(redis, "redis://127.0.0.1:6379", REDIS,
         "Redis: redis://[user:password@]host:port[/db], or the path of a unix socket"),
    TEXT(jobs_topic, "solfleet.jobs", KAFKA, "topic that jobs come from"),
    TEXT(topics, "", CONFIG_WORKER,
         "topics that jobs come from, the most urgent first, each with room of its own in the "
         "worker; empty: jobs_topic alone"),
    TEXT(results_topic, "solfleet.results", KAFKA, "topic that results go to"),
    TEXT(dead_letter_topic, "solfleet.dead-letter", KAFKA, "topic for records that are no jobs"),
    LIST(reply_topics, "", CONFIG_WORKER | CONFIG_REPAIR,
         "topics that a job may name as its reply_topic"),
    TEXT(group, "solfleet", BATCHING, "consumer group of the workers"),
    TEXT(group_instance_id, "", CONFIG_WORKER,
         "static membership: this worker's fixed name in the group, another for each; a restart "
         "within the session time-out moves no partition; empty: none"),
    TEXT(key_prefix, "solfleet:", REDIS, "prefix of every key and channel in Redis"),
    BOOL(unsafe, "false", KAFKA, "let kafka.* override the settings that delivery rests on"),

    TEXT(model, "", MODELS, "model file (GGUF)"),
    CHOICE(policy, "int8", "f32|f16|int8|balanced|latency|fast", MODELS,
           "which layers are computed in which precision; fast: as int8, with 16-bit products by "
           "cuBLASLt: on a GPU only, and the same answers only on cards of one model with one "
           "build and one version of cuBLASLt"),
    TEXT(device, "auto", DEVICES, "cpu, cuda:N or auto"),
    TEXT(cublaslt, "", DEVICES,
         "file of libcublasLt for a CUDA device; empty: where the system's loader finds it"),
    CHOICE(cpu_tier, "auto", "auto|reference|avx2|avx512", DEVICES,
           "kernels on the CPU; auto: the best that it can run"),
    INT(threads, "0", 0, 1024, DEVICES, "threads that compute on the CPU; 0: one a core"),
    INT(kv_cache_bytes, "0", 0, 1e15, ENGINES | PLANNING,
        "memory for keys and values; 0: enough for max_running sequences, within reason; on a GPU "
        "all that is left of its share"),
    REAL(gpu_memory_utilization, "0.9", 0.01, 1, ENGINES | PLANNING,
         "share of a GPU's free memory that an engine takes"),
    BOOL(prefix_cache, "true", ENGINES,
         "compute what prompts have in common at their beginning once"),
    TEXT(weight_cache, "auto", ENGINES,
         "where packed weights are kept for the next start: auto (beside the model, or in "
         "~/.cache/solfleet where that cannot be written), off, or a folder"),
    BOOL(head_sketch, "true", ENGINES | PLANNING,
         "keep an INT8 copy of the LM head to find the few logits that can matter: the same "
         "answers, faster for few jobs at a time"),
    BOOL(graphs, "true", ENGINES,
         "on a GPU, launch a decode step as one graph: the same answers, less work for the host"),
    CHOICE(engine, "real", "real|null", BATCHING,
           "null answers a fixed text without a model: for measuring the pipeline"),
    INT(null_completion_tokens, "16", 1, 2048, BATCHING, "tokens in an answer of the null engine"),
    INT(null_answer_bytes, "1024", 0, 16777216, BATCHING, "bytes in an answer of the null engine"),
    INT(null_delay_us, "0", 0, 3600000000.0, BATCHING, "time that the null engine takes for a job"),

    CHOICE(profile, "none", "none|low-concurrency|throughput|latency", BATCHING,
           "set of defaults: low-concurrency (few jobs at a time), throughput, latency"),
    INT(max_batch_size, "32", 1, 1024, BATCHING | PLANNING, "most sequences in one step"),
    INT(max_running, "0", 0, 1024, BATCHING | PLANNING,
        "most sequences that hold memory; 0: as max_batch_size"),
    INT(max_queue_size, "1024", 1, 1048576, BATCHING, "most jobs waiting in the engine"),
    INT(max_batch_tokens, "4096", 16, 1048576, BATCHING, "most prompt tokens in one step"),
    INT(prefill_chunk_tokens, "256", 16, 65536, BATCHING | PLANNING,
        "prompt tokens computed in a step beside running answers"),
    INT(max_model_len, "0", 0, 1048576, ENGINES | PLANNING,
        "most tokens of prompt and answer; 0: 4096 or what the model allows, if less"),
    INT(max_queue_delay_ms, "50", 0, 60000, BATCHING, "longest wait for company on an idle device"),
    INT(priority_ageing_ms, "2000", 0, 3600000, BATCHING,
        "waiting that makes up for one level of priority"),
    BOOL(bucket_strict, "false", BATCHING, "do not fill a batch from buckets of other lengths"),
    INT(max_speculative_tokens, "5", 0, 16, ENGINES,
        "most tokens guessed at a time from what was said before, while few answers run: the same "
        "answers in fewer steps; 0: none"),
    INT(repetition_cycles, "8", 0, 65536, ENGINES,
        "end an answer whose last tokens repeat one cycle so many times exactly; 0: never, else 2 "
        "or more"),
    INT(repetition_cycle_tokens, "64", 1, 256, ENGINES, "longest cycle that counts as repetition"),
    INT(repetition_tokens, "256", 1, 65536, ENGINES,
        "tokens that all turns of a repetition must have together, so that tables pass"),
    INT(progress_interval_ms, "250", 250, 60000, CONFIG_WORKER,
        "least time between two progress reports of a job"),

    TEXT(worker_name, "", CONFIG_WORKER, "name in statuses and results; empty: HOST-PID"),
    INT(default_timeout_ms, "0", 0, 604800000, CONFIG_WORKER,
        "timeout of jobs that give none; 0: none"),
    INT(max_clock_skew_ms, "60000", 0, 604800000, CONFIG_WORKER,
        "records dated further ahead than this are counted: a clock is wrong"),
    INT(default_max_tokens, "512", 1, 2048, CONFIG_WORKER,
        "params.max_tokens of jobs that give none"),
    REAL(default_temperature, "0.7", 0, 2, CONFIG_WORKER,
         "params.temperature of jobs that give none"),
    REAL(default_top_p, "0.95", 0.001, 1, CONFIG_WORKER,
         "params.top_p of jobs that give none; 1: off"),
    INT(default_top_k, "50", 0, 1000000, CONFIG_WORKER,
        "params.top_k of jobs that give none; 0: off"),
    REAL(default_min_p, "0", 0, 1, CONFIG_WORKER, "params.min_p of jobs that give none; 0: off"),
    REAL(default_repetition_penalty, "1", 0.01, 2, CONFIG_WORKER,
         "params.repetition_penalty of jobs that give none; 1: off"),
    REAL(default_presence_penalty, "0", -2, 2, CONFIG_WORKER,
         "params.presence_penalty of jobs that give none"),
    REAL(default_frequency_penalty, "0", -2, 2, CONFIG_WORKER,
         "params.frequency_penalty of jobs that give none"),
    LIST(default_stop_token_ids, "", CONFIG_WORKER,
         "params.stop_token_ids of jobs that give none; the model's own end tokens always count"),
    INT(max_job_bytes, "1048576", 1024, 16777216, CONFIG_WORKER, "largest job that is read"),
    INT(max_message_bytes, "1000000", 4096, 16777216, BATCHING,
        "largest record that results and dead-letter topics take"),
    INT(high_water, "0", 0, 1048576, CONFIG_WORKER,
        "jobs in the worker at which consuming pauses; 0: twice max_queue_size and max_batch_size"),
    INT(low_water, "0", 0, 1048576, CONFIG_WORKER,
        "jobs in the worker at which consuming goes on; 0: three quarters of high_water"),
    INT(commit_interval_ms, "200", 1, 60000, CONFIG_WORKER, "longest time between two commits"),
    INT(commit_records, "1000", 1, 1000000, CONFIG_WORKER,
        "settled records that make a commit due before its time"),
    INT(drain_timeout_ms, "30000", 0, 3600000, CONFIG_WORKER,
        "time after SIGTERM in which running jobs may finish"),
    INT(revoke_grace_ms, "10000", 0, 3600000, CONFIG_WORKER,
        "time in which jobs may finish that run when their partition goes to another worker"),
    INT(engine_retries, "2", 0, 100, CONFIG_WORKER,
        "times that a job is tried again after the engine failed it"),
    INT(repair_window_s, "3600", 0, 31536000, CONFIG_WORKER,
        "so much of the results topic is read at start, to give ids their end that Redis has lost; "
        "0: none"),
    INT(status_ttl_s, "691200", 1, 31536000, REDIS,
        "life of a status after its last change; longer than the results topic keeps records"),
    INT(result_max_bytes_in_status, "65536", 0, 16777216, CONFIG_WORKER | CONFIG_REPAIR,
        "largest result that is also kept in the status"),
    REDIS_INT(claim_timeout_ms, "50", 1, 60000, CONFIG_WORKER,
              "time after which a job that Redis has not claimed counts as new"),
    REDIS_INT(timeout_ms, "1000", 10, 60000, CONFIG_WORKER | CONFIG_REPAIR,
              "time without any answer after which Redis counts as away"),
    REDIS_INT(backlog_max, "16384", 128, 1048576, CONFIG_WORKER,
              "terminal statuses kept while Redis is away; the oldest are dropped beyond"),
    CHOICE(log_level, "info", "debug|info|warning|error", ALL, "least level that is logged"),

    {"config", CONFIG_TEXT, NULL, 0, 0, NULL, ALL, AT(file), "JSON file of options"},
    {"env_file", CONFIG_TEXT, ".env", 0, 0, NULL, ALL, AT(env_file),
     "file of SOLFLEET_NAME=value lines, read if it exists; '': none"},
    BOOL(json, "false", ALL, "machine-readable output, one JSON document a line"),
};
const size_t config_table_option_count =
    sizeof config_table_options / sizeof config_table_options[0];

const struct config_table_preset config_table_presets[] = {
    {"low-concurrency", "policy", "int8"},
    {"low-concurrency", "max_batch_size", "8"},
    {"low-concurrency", "max_queue_delay_ms", "100"},
    {"throughput", "policy", "balanced"},
    {"throughput", "max_batch_size", "32"},
    {"throughput", "max_queue_delay_ms", "50"},
    {"latency", "policy", "latency"},
    {"latency", "max_batch_size", "8"},
    {"latency", "max_queue_delay_ms", "5"},
    {"latency", "prefill_chunk_tokens", "64"},
    {"latency", "bucket_strict", "true"},
};
const size_t config_table_preset_count =
    sizeof config_table_presets / sizeof config_table_presets[0];

#define A_JOBS "what a job itself says beats it"
const struct config_table_alias config_table_aliases[] = {
    {"max_model_len", "max_model_len", ""},
    {"max_batch_size", "max_batch_size", ""},
    {"max_num_seqs", "max_batch_size", ""},
    {"max_batched_tokens", "max_batch_tokens", ""},
    {"max_num_batched_tokens", "max_batch_tokens", ""},
    {"gpu_memory_utilization", "gpu_memory_utilization",
     "of what is free on a GPU; on the CPU kv_cache_bytes sizes the cache"},
    {"temperature", "default_temperature", A_JOBS},
    {"top_p", "default_top_p", A_JOBS},
    {"top_k", "default_top_k", A_JOBS},
    {"max_new_tokens", "default_max_tokens", A_JOBS},
    {"max_tokens", "default_max_tokens", A_JOBS},
    {"stop_token_id", "default_stop_token_ids",
     "seldom needed: the model file's own end tokens always count"},
};
#undef A_JOBS
const size_t config_table_alias_count =
    sizeof config_table_aliases / sizeof config_table_aliases[0];

const char *config_table_command_name(unsigned bit) {
    static const char *const names[] = {
        "worker", "broker", "topics",  "submit", "status", "wait",   "results", "generate",
        "model",  "bench",  "compare", "config", "batch",  "repair", "replay",  "verify"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (bit == 1u << i) {
            return names[i];
        }
    }
    return NULL;
}
