/* From a record's value to a job. The getters of schemas/json keep the first error and then do
 * nothing, so each function here reads straight on; what was allocated by then hangs on the job,
 * and job_decode frees it in one place. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/job.h"
#include "schemas/job_params.h"
#include "schemas/json.h"
#include "schemas/json_writer.h"
#include "schemas/utf8.h"

static const char *const role_names[] = {
    [JOB_ROLE_SYSTEM] = "system", [JOB_ROLE_USER] = "user", [JOB_ROLE_ASSISTANT] = "assistant"};
static const char *const answer_names[] = {
    [JOB_ANSWER_AUTO] = "auto", [JOB_ANSWER_ZH] = "zh", [JOB_ANSWER_EN] = "en"};
static const char *const progress_names[] = {
    [JOB_PROGRESS_OFF] = "off", [JOB_PROGRESS_TOKENS] = "tokens", [JOB_PROGRESS_TEXT] = "text"};

/* ---- texts ---- */

/* Unicode's White_Space and the two invisible joiners that editors leave behind. */
static bool is_space(uint32_t c) {
    return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200B) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000 || c == 0xFEFF;
}

static bool is_blank(const char *text, size_t size) {
    while (size > 0) {
        const struct utf8_step step = utf8_next(text, size);
        if (!is_space(step.code_point)) {
            return false;
        }
        text += step.bytes;
        size -= step.bytes;
    }
    return true;
}

/* A text that the model is to read: required, and not blank. */
static char *read_prompt(const struct json_node *object, const char *name,
                         struct job_error *error) {
    json_require(object, name, error);
    const struct json_node *node = json_get_string(object, name, JSON_BYTES_MAX, error);
    if (node == NULL) {
        return NULL;
    }
    if (is_blank(node->text, node->size)) {
        json_fail(error, ERROR_EMPTY_PROMPT, node, NULL, "is empty");
    }
    return json_to_text(node, JSON_BYTES_MAX, error);
}

static char *read_optional(const struct json_node *object, const char *name,
                           struct job_error *error) {
    return json_get_text(object, name, JSON_BYTES_MAX, error);
}

static char *read_required(const struct json_node *object, const char *name,
                           struct job_error *error) {
    json_require(object, name, error);
    return read_optional(object, name, error);
}

/* Room for the elements of an array; not called for an empty one. */
static void *new_elements(const struct json_node *array, size_t element_bytes,
                          struct job_error *error) {
    void *elements = calloc(array->size, element_bytes);
    if (elements == NULL) {
        error_set(error, ERROR_INTERNAL, NULL, "out of memory");
    }
    return elements;
}

static bool check_object(const struct json_node *node, struct job_error *error) {
    if (node->type != JSON_OBJECT) {
        json_fail(error, ERROR_INVALID_FIELD, node, NULL, "must be an object");
    }
    return error->code == ERROR_NONE;
}

/* ---- the three kinds ---- */

static void decode_examples(const struct json_node *object, struct job_problem *problem,
                            struct job_error *error) {
    const struct json_node *array = json_get_array(object, "examples", JOB_EXAMPLES_MAX, error);
    if (array == NULL || array->size == 0) {
        return;
    }
    problem->examples = new_elements(array, sizeof *problem->examples, error);
    for (const struct json_node *value = json_first(array);
         value != NULL && error->code == ERROR_NONE; value = json_next(array, value)) {
        if (!check_object(value, error)) {
            return;
        }
        struct job_example *example = &problem->examples[problem->example_count++];
        example->input = read_required(value, "input", error);
        example->output = read_required(value, "output", error);
        example->explanation = read_optional(value, "explanation", error);
    }
}

/* A name such as "python" or "c++", in lower case: it goes into prompts, so nothing else may. */
static void decode_code_language(const struct json_node *object, struct job_problem *problem,
                                 struct job_error *error) {
    char *name = problem->code_language;
    memcpy(name, "python", sizeof "python");
    json_get_name(object, "code_language", name, sizeof problem->code_language, error);
    const size_t length = strlen(name);
    for (size_t i = 0; i < length; i++) {
        if (name[i] >= 'A' && name[i] <= 'Z') {
            name[i] = (char)(name[i] | 0x20);
        }
    }
    if (length == 0 || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789+#._-") != length) {
        json_fail(error, ERROR_INVALID_FIELD, object, "code_language",
                  "must be a language name of letters, digits and + # . _ -");
    }
}

static void decode_problem(const struct json_node *object, struct job_problem *problem,
                           struct job_error *error) {
    problem->statement = read_prompt(object, "statement", error);
    problem->title = read_optional(object, "title", error);
    decode_examples(object, problem, error);
    problem->constraints = read_optional(object, "constraints", error);
    decode_code_language(object, problem, error);
    problem->answer_language = (enum job_answer_language)json_get_choice(
        object, "answer_language", answer_names, 3, JOB_ANSWER_AUTO, error);
}

static void decode_messages(const struct json_node *array, struct job *job,
                            struct job_error *error) {
    if (array->size == 0) {
        json_fail(error, ERROR_EMPTY_PROMPT, array, NULL, "is empty");
        return;
    }
    job->messages = new_elements(array, sizeof *job->messages, error);
    for (const struct json_node *value = json_first(array);
         value != NULL && error->code == ERROR_NONE; value = json_next(array, value)) {
        if (!check_object(value, error)) {
            return;
        }
        struct job_message *message = &job->messages[job->message_count++];
        json_require(value, "role", error);
        message->role =
            (enum job_role)json_get_choice(value, "role", role_names, 3, JOB_ROLE_SYSTEM, error);
        message->content = read_prompt(value, "content", error);
    }
}

/* Says which of two kinds is one too many: blames the second that was given. */
static bool check_kind(const struct json_node *root, struct job *job, struct job_error *error) {
    static const char *const names[] = {
        [JOB_PROBLEM] = "problem", [JOB_PROMPT] = "prompt", [JOB_MESSAGES] = "messages"};
    int given = -1;
    for (int kind = JOB_PROBLEM; kind <= JOB_MESSAGES; kind++) {
        if (json_member(root, names[kind]) == NULL) {
            continue;
        }
        if (given >= 0) {
            json_fail(error, ERROR_INVALID_FIELD, root, names[kind], "cannot stand beside %s",
                      names[given]);
        }
        given = kind;
    }
    if (given < 0) {
        json_fail(error, ERROR_INVALID_FIELD, root, "problem",
                  "one of problem, prompt and messages is required");
        return false;
    }
    job->kind = (enum job_kind)given;
    return error->code == ERROR_NONE;
}

static void decode_content(const struct json_node *root, struct job *job, struct job_error *error) {
    if (!check_kind(root, job, error)) {
        return;
    }
    const struct json_node *node;
    switch (job->kind) {
    case JOB_PROBLEM:
        node = json_get_object(root, "problem", error);
        if (node != NULL) {
            decode_problem(node, &job->problem, error);
        }
        break;
    case JOB_PROMPT: job->prompt = read_prompt(root, "prompt", error); break;
    case JOB_MESSAGES:
        node = json_get_array(root, "messages", JOB_MESSAGES_MAX, error);
        if (node != NULL) {
            decode_messages(node, job, error);
        }
        break;
    }
}

/* ---- the other fields ---- */

static void check_version(const struct json_node *root, struct job_error *error) {
    const struct json_node *node = json_member(root, "version");
    if (node == NULL) {
        return;
    }
    if (node->type != JSON_NUMBER) {
        json_fail(error, ERROR_INVALID_FIELD, node, NULL, "must be an integer");
        return;
    }
    struct job_error ignored = {0};
    (void)json_to_int(node, JOB_VERSION, JOB_VERSION, &ignored);
    if (ignored.code != ERROR_NONE) {
        json_fail(error, ERROR_UNSUPPORTED_VERSION, node, NULL, "only version %d is supported",
                  JOB_VERSION);
    }
}

static void decode_request_id(const struct json_node *root, struct job *job,
                              struct job_error *error) {
    json_require(root, "request_id", error);
    if (error->code != ERROR_NONE) {
        return;
    }
    const struct json_node *node = json_member(root, "request_id");
    if (node->type == JSON_STRING && job_request_id_is_valid(node->text, node->size)) {
        memcpy(job->request_id, node->text, (size_t)node->size + 1);
    } else {
        json_fail(error, ERROR_INVALID_FIELD, node, NULL,
                  "must be 1 to %d characters of A-Z a-z 0-9 . _ : -", JOB_ID_BYTES_MAX);
    }
}

/* What Kafka itself accepts as the name of a topic. */
static bool is_topic_name(const char *name) {
    const size_t length = strlen(name);
    return length > 0 && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
               length;
}

static void decode_routing(const struct json_node *root, struct job *job, struct job_error *error) {
    job->tenant = json_get_text(root, "tenant", JOB_TENANT_BYTES_MAX, error);
    if (job->tenant != NULL && job->tenant[0] == '\0') {
        json_fail(error, ERROR_INVALID_FIELD, root, "tenant", "must not be empty");
    }
    job->reply_topic = json_get_text(root, "reply_topic", JOB_TOPIC_BYTES_MAX, error);
    if (job->reply_topic != NULL && !is_topic_name(job->reply_topic)) {
        json_fail(error, ERROR_INVALID_FIELD, root, "reply_topic", "is no name of a topic");
    }
}

/* Kept as compact text. Numbers keep their digits: what comes back is what was sent. */
static void decode_metadata(const struct json_node *root, struct job *job,
                            struct job_error *error) {
    const struct json_node *node = json_get_object(root, "metadata", error);
    if (node == NULL) {
        return;
    }
    struct json_writer writer;
    size_t size = 0;
    json_writer_init(&writer, 0);
    json_writer_node(&writer, node);
    job->metadata = json_writer_finish(&writer, &size);
    if (job->metadata == NULL) {
        error_set(error, ERROR_INTERNAL, NULL, "out of memory");
    } else if (size > JOB_METADATA_BYTES_MAX) {
        json_fail(error, ERROR_INVALID_FIELD, node, NULL,
                  "must be at most %d bytes long when written compactly, not %zu",
                  JOB_METADATA_BYTES_MAX, size);
    }
}

static void decode_params(const struct json_node *root, struct job *job, struct job_error *error) {
    job_params_decode(json_get_object(root, "params", error), &job->params, error);
    if (error->code == ERROR_NONE && !job->params.seed_given &&
        !job_default_seed(job->request_id, &job->params.seed)) {
        error_set(error, ERROR_INTERNAL, NULL, "out of memory");
    }
}

static void decode_root(const struct json_node *root, const struct job_limits *limits,
                        struct job *job, struct job_error *error) {
    check_version(root, error);
    decode_request_id(root, job, error);
    decode_content(root, job, error);
    decode_params(root, job, error);
    job->priority =
        (uint32_t)json_get_int(root, "priority", 0, JOB_PRIORITY_MAX, JOB_PRIORITY_DEFAULT, error);
    job->timeout_ms =
        json_get_int(root, "timeout_ms", 1, JOB_TIMEOUT_MS_MAX, limits->default_timeout_ms, error);
    decode_routing(root, job, error);
    job->progress = (enum job_progress)json_get_choice(root, "progress", progress_names, 3,
                                                       JOB_PROGRESS_OFF, error);
    decode_metadata(root, job, error);
}

enum error_code job_decode(const void *bytes, size_t size, const struct job_limits *limits,
                           struct job *out, struct job_error *error) {
    const struct json_limits json_limits = {.bytes_max = limits->value_bytes_max,
                                            .depth_max = JOB_DEPTH_MAX};
    struct json json;
    *out = (struct job){0};
    *error = (struct job_error){0};
    if (size == 0) {
        return error_set(error, ERROR_INVALID_JSON, NULL, "the value is empty");
    }
    if (json_parse(&json, bytes, size, &json_limits, error) != ERROR_NONE) {
        return error->code;
    }
    job_init(out);
    if (limits->default_params != NULL) {
        assert(limits->default_params->stop_count == 0);
        out->params = *limits->default_params;
    }
    if (json.nodes->type == JSON_OBJECT) {
        decode_root(json.nodes, limits, out, error);
    } else {
        error_set(error, ERROR_INVALID_JSON, NULL, "a job must be a JSON object");
    }
    json_deinit(&json);
    if (error->code != ERROR_NONE) {
        job_deinit(out);
    }
    return error->code;
}
