#include "consumer/job_file.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "schemas/json.h"

/* ---- what kind of file ----------------------------------------------------------------------- */

/* The text without a byte order mark and blanks around it. */
static const char *job_file_trim(const char *text, size_t *bytes) {
    const char *end = text + *bytes;
    if (*bytes >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
        text += 3;
    }
    while (text < end && isspace((unsigned char)*text)) {
        text++;
    }
    while (end > text && isspace((unsigned char)end[-1])) {
        end--;
    }
    *bytes = (size_t)(end - text);
    return text;
}

/* Takes the next line off the front of *text. */
static const char *job_file_next_line(const char **text, size_t *bytes, size_t *line_bytes) {
    const char *line = *text;
    const char *newline = memchr(line, '\n', *bytes);
    *line_bytes = newline ? (size_t)(newline - line) : *bytes;
    size_t taken = *line_bytes + (newline ? 1 : 0);
    *text += taken;
    *bytes -= taken;
    return line;
}

enum job_file_kind job_file_detect(const char *text, size_t bytes) {
    text = job_file_trim(text, &bytes);
    if (bytes == 0 || text[0] != '{') {
        return JOB_FILE_TEXT;
    }
    size_t objects = 0;
    while (bytes) {
        size_t line_bytes;
        const char *line = job_file_next_line(&text, &bytes, &line_bytes);
        line = job_file_trim(line, &line_bytes);
        if (line_bytes == 0) {
            continue;
        }
        /* A pretty-printed object has a line that does not both begin and end one. */
        if (line[0] != '{' || line[line_bytes - 1] != '}') {
            return objects ? JOB_FILE_LINES : JOB_FILE_JSON;
        }
        objects++;
    }
    return objects > 1 ? JOB_FILE_LINES : JOB_FILE_JSON;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

struct job_file_wishes job_file_no_wishes(void) {
    return (struct job_file_wishes){.max_tokens = -1,
                                    .seed = -1,
                                    .timeout_ms = -1,
                                    .priority = -1,
                                    .temperature = -1,
                                    .answer_language = -1,
                                    .progress = -1};
}

static bool job_file_has_wishes(const struct job_file_wishes *wishes) {
    return wishes->id || wishes->code_language || wishes->max_tokens >= 0 || wishes->seed >= 0 ||
           wishes->timeout_ms >= 0 || wishes->priority >= 0 || wishes->temperature >= 0 ||
           wishes->answer_language >= 0 || wishes->progress >= 0;
}

static void job_file_grant(struct job *job, const struct job_file_wishes *wishes) {
    struct job_params *params = &job->params;
    if (wishes->id) {
        snprintf(job->request_id, sizeof job->request_id, "%s", wishes->id);
    }
    if (wishes->max_tokens >= 0) {
        params->max_tokens = (uint32_t)wishes->max_tokens;
    }
    if (wishes->temperature >= 0) {
        params->temperature = (float)wishes->temperature;
    }
    if (wishes->seed >= 0) {
        params->seed = (uint64_t)wishes->seed;
        params->seed_given = true;
    }
    if (wishes->timeout_ms >= 0) {
        job->timeout_ms = wishes->timeout_ms;
    }
    if (wishes->priority >= 0) {
        job->priority = (uint32_t)wishes->priority;
    }
    if (wishes->progress >= 0) {
        job->progress = (enum job_progress)wishes->progress;
    }
    if (job->kind == JOB_PROBLEM && wishes->code_language) {
        snprintf(job->problem.code_language, sizeof job->problem.code_language, "%s",
                 wishes->code_language);
    }
    if (job->kind == JOB_PROBLEM && wishes->answer_language >= 0) {
        job->problem.answer_language = (enum job_answer_language)wishes->answer_language;
    }
}

/* A heading on the first line is the title; *text then begins after it. */
static char *job_file_take_title(const char **text, size_t *bytes) {
    const char *rest = *text;
    size_t rest_bytes = *bytes, line_bytes;
    const char *line = job_file_next_line(&rest, &rest_bytes, &line_bytes);
    size_t marks = 0;
    while (marks < line_bytes && line[marks] == '#') {
        marks++;
    }
    rest = job_file_trim(rest, &rest_bytes);
    if (marks == 0 || marks == line_bytes || line[marks] != ' ' || rest_bytes == 0) {
        return NULL;
    }
    size_t title_bytes = line_bytes - marks;
    const char *title = job_file_trim(line + marks, &title_bytes);
    if (title_bytes == 0) {
        return NULL;
    }
    *text = rest;
    *bytes = rest_bytes;
    return strndup(title, title_bytes);
}

bool job_file_make_problem(struct job *job, const char *request_id, const char *text,
                           size_t bytes) {
    job_init(job);
    text = job_file_trim(text, &bytes);
    snprintf(job->request_id, sizeof job->request_id, "%s", request_id);
    job->kind = JOB_PROBLEM;
    job->problem.title = job_file_take_title(&text, &bytes);
    job->problem.statement = strndup(text, bytes);
    if (!job->problem.statement || !job_default_seed(request_id, &job->params.seed)) {
        job_deinit(job);
        return false;
    }
    return true;
}

void job_file_make_id(const char *source, char request_id[JOB_ID_BYTES_MAX + 1]) {
    const char *slash = strrchr(source, '/');
    const char *name = slash ? slash + 1 : source;
    const char *dot = strrchr(name, '.');
    size_t name_bytes = dot && dot > name ? (size_t)(dot - name) : strlen(name);
    char stem[65];
    size_t used = 0;
    for (size_t i = 0; i < name_bytes && used < sizeof stem - 1; i++) {
        bool plain = isalnum((unsigned char)name[i]) || (used && strchr("._-", name[i]));
        if (plain && (unsigned char)name[i] < 0x80) {
            stem[used++] = name[i];
        }
    }
    stem[used] = '\0';
    unsigned char random[6];
    ssize_t got = getrandom(random, sizeof random, 0);
    assert(got == (ssize_t)sizeof random); /* so few bytes always come whole */
    snprintf(request_id, JOB_ID_BYTES_MAX + 1, "%s-%02x%02x%02x%02x%02x%02x",
             used ? stem : "problem", random[0], random[1], random[2], random[3], random[4],
             random[5]);
}

/* ---- the file -------------------------------------------------------------------------------- */

struct job_file_place {
    const char *source;
    size_t line;
};

static void job_file_complain(struct job_file *file, const struct job_file_place *place,
                              const struct job_error *error, const struct job_file_report *report) {
    file->complaint_count++;
    if (file->complaint_count > JOB_FILE_COMPLAINTS_MAX) {
        return;
    }
    char text[ERROR_MESSAGE_BYTES_MAX + ERROR_FIELD_BYTES_MAX + 512];
    const char *colon = error->field[0] ? ": " : "";
    snprintf(text, sizeof text, "%s:%zu: %s%s%s (%s)", place->source, place->line, error->field,
             colon, error->message, error_code_name(error->code));
    report->say(report->context, text);
}

static bool job_file_append(struct job_file *file, const char *request_id, char *value,
                            size_t value_bytes, const struct job_file_place *place) {
    if (file->count == file->capacity) {
        size_t capacity = file->capacity ? file->capacity * 2 : 16;
        struct job_file_entry *entries = realloc(file->entries, capacity * sizeof *entries);
        if (!entries) {
            free(value);
            return false;
        }
        file->entries = entries;
        file->capacity = capacity;
    }
    struct job_file_entry *entry = &file->entries[file->count++];
    *entry = (struct job_file_entry){
        .value = value, .value_bytes = value_bytes, .source = place->source, .line = place->line};
    snprintf(entry->request_id, sizeof entry->request_id, "%s", request_id);
    return true;
}

/* The bytes to send: the user's own where nothing was wished, so that fields of later versions go
 * through untouched. */
static char *job_file_value(struct job *job, const char *text, size_t *bytes,
                            const struct job_file_wishes *wishes) {
    if (text && !job_file_has_wishes(wishes)) {
        return strndup(text, *bytes);
    }
    job_file_grant(job, wishes);
    char *value = job_encode(job);
    *bytes = value ? strlen(value) : 0;
    return value;
}

/* Checks the bytes as a worker will, and adds them. Takes over `value`. */
static bool job_file_check_value(struct job_file *file, char *value, size_t value_bytes,
                                 const struct job_file_place *place,
                                 const struct job_file_report *report) {
    struct job_limits limits = job_limits_default();
    struct job job;
    struct job_error error;
    if (job_decode(value, value_bytes, &limits, &job, &error) != ERROR_NONE) {
        job_file_complain(file, place, &error, report);
        free(value);
        return error.code != ERROR_INTERNAL;
    }
    bool added = job_file_append(file, job.request_id, value, value_bytes, place);
    job_deinit(&job);
    return added;
}

/* True for a JSON object that names no request_id. */
static bool job_file_lacks_id(const char *text, size_t bytes) {
    const struct json_limits limits = {JOB_VALUE_BYTES_MAX, JSON_DEPTH_MAX, false};
    struct json json;
    struct job_error error;
    if (json_parse(&json, text, bytes, &limits, &error) != ERROR_NONE) {
        return false; /* job_decode will say what is wrong */
    }
    bool lacks =
        json.nodes[0].type == JSON_OBJECT && json_member(&json.nodes[0], "request_id") == NULL;
    json_deinit(&json);
    return lacks;
}

/* A copy of a JSON job with an id of its own put in front; NULL when memory ran out. */
static char *job_file_put_id(const char *source, const char *text, size_t *bytes) {
    char request_id[JOB_ID_BYTES_MAX + 1], *copy = NULL;
    job_file_make_id(source, request_id);
    size_t rest_bytes = *bytes - 1;
    const char *rest = job_file_trim(text + 1, &rest_bytes);
    int length = asprintf(&copy, "{\"request_id\":\"%s\"%s%.*s", request_id,
                          rest[0] == '}' ? "" : ",", (int)rest_bytes, rest);
    *bytes = length > 0 ? (size_t)length : 0;
    return length > 0 ? copy : NULL;
}

static bool job_file_add_object(struct job_file *file, const struct job_file_place *place,
                                const char *text, size_t bytes,
                                const struct job_file_wishes *wishes,
                                const struct job_file_report *report) {
    struct job_limits limits = job_limits_default();
    struct job job;
    struct job_error error;
    if (job_decode(text, bytes, &limits, &job, &error) != ERROR_NONE) {
        job_file_complain(file, place, &error, report);
        return error.code != ERROR_INTERNAL;
    }
    char *value = job_file_value(&job, text, &bytes, wishes);
    job_deinit(&job);
    return value && job_file_check_value(file, value, bytes, place, report);
}

static bool job_file_add_json(struct job_file *file, const struct job_file_place *place,
                              const char *text, size_t bytes, const struct job_file_wishes *wishes,
                              const struct job_file_report *report) {
    if (!job_file_lacks_id(text, bytes)) {
        return job_file_add_object(file, place, text, bytes, wishes, report);
    }
    char *named = job_file_put_id(place->source, text, &bytes);
    bool added = named && job_file_add_object(file, place, named, bytes, wishes, report);
    free(named);
    return added;
}

static bool job_file_add_lines(struct job_file *file, const char *source, const char *text,
                               size_t bytes, const struct job_file_wishes *wishes,
                               const struct job_file_report *report) {
    struct job_file_place place = {source, 0};
    while (bytes) {
        size_t line_bytes;
        const char *line = job_file_next_line(&text, &bytes, &line_bytes);
        line = job_file_trim(line, &line_bytes);
        place.line++;
        if (line_bytes && !job_file_add_json(file, &place, line, line_bytes, wishes, report)) {
            return false;
        }
    }
    return true;
}

static bool job_file_add_text(struct job_file *file, const struct job_file_place *place,
                              const char *text, size_t bytes, const struct job_file_wishes *wishes,
                              const struct job_file_report *report) {
    char request_id[JOB_ID_BYTES_MAX + 1];
    job_file_make_id(place->source, request_id);
    struct job_error error;
    if (memchr(text, '\0', bytes)) {
        error_set(&error, ERROR_INVALID_FIELD, NULL, "the file holds a zero byte: it is no text");
        job_file_complain(file, place, &error, report);
        return true;
    }
    struct job job;
    if (!job_file_make_problem(&job, request_id, text, bytes)) {
        return false;
    }
    size_t value_bytes = 0;
    char *value = job_file_value(&job, NULL, &value_bytes, wishes);
    job_deinit(&job);
    return value && job_file_check_value(file, value, value_bytes, place, report);
}

bool job_file_add(struct job_file *file, const char *source, const char *text, size_t bytes,
                  const struct job_file_wishes *wishes, const struct job_file_report *report) {
    struct job_file_place place = {strcmp(source, "-") == 0 ? "(standard input)" : source, 1};
    switch (job_file_detect(text, bytes)) {
    case JOB_FILE_LINES: return job_file_add_lines(file, place.source, text, bytes, wishes, report);
    case JOB_FILE_JSON:
        text = job_file_trim(text, &bytes);
        return job_file_add_json(file, &place, text, bytes, wishes, report);
    case JOB_FILE_TEXT: break;
    }
    return job_file_add_text(file, &place, text, bytes, wishes, report);
}

static int job_file_compare(const void *a, const void *b) {
    const struct job_file_entry *const *left = a, *const *right = b;
    int order = strcmp((*left)->request_id, (*right)->request_id);
    return order ? order : (*left > *right) - (*left < *right);
}

bool job_file_check_ids(struct job_file *file, const struct job_file_report *report) {
    const struct job_file_entry **sorted = calloc(file->count + 1, sizeof *sorted);
    if (!sorted) {
        return false;
    }
    for (size_t i = 0; i < file->count; i++) {
        sorted[i] = &file->entries[i];
    }
    qsort(sorted, file->count, sizeof *sorted, job_file_compare);
    for (size_t i = 1; i < file->count; i++) {
        if (strcmp(sorted[i - 1]->request_id, sorted[i]->request_id) == 0) {
            struct job_file_place place = {sorted[i]->source, sorted[i]->line};
            struct job_error error;
            error_set(&error, ERROR_INVALID_FIELD, "request_id", "%.128s stands at %.64s:%zu, too",
                      sorted[i]->request_id, sorted[i - 1]->source, sorted[i - 1]->line);
            job_file_complain(file, &place, &error, report);
        }
    }
    free(sorted);
    return true;
}

void job_file_deinit(struct job_file *file) {
    for (size_t i = 0; i < file->count; i++) {
        free(file->entries[i].value);
    }
    free(file->entries);
    *file = (struct job_file){0};
}

/* ---- reading --------------------------------------------------------------------------------- */

static char *job_file_slurp(FILE *from, size_t *bytes, char *err, size_t err_bytes) {
    size_t used = 0, capacity = 1 << 16;
    char *text = malloc(capacity + 1);
    while (text) {
        used += fread(text + used, 1, capacity - used, from);
        if (used < capacity) {
            break;
        }
        if (capacity >= JOB_FILE_BYTES_MAX) {
            snprintf(err, err_bytes, "more than %zu bytes: split it", JOB_FILE_BYTES_MAX);
            free(text);
            return NULL;
        }
        capacity *= 2;
        char *larger = realloc(text, capacity + 1);
        if (!larger) {
            free(text);
        }
        text = larger;
    }
    if (!text || ferror(from)) {
        snprintf(err, err_bytes, "%s", text ? strerror(errno) : "out of memory");
        free(text);
        return NULL;
    }
    text[used] = '\0';
    *bytes = used;
    return text;
}

bool job_file_read(const char *path, char **text, size_t *bytes, char *err, size_t err_bytes) {
    bool standard = strcmp(path, "-") == 0;
    FILE *from = standard ? stdin : fopen(path, "rbe");
    char reason[256] = "";
    *text = from ? job_file_slurp(from, bytes, reason, sizeof reason) : NULL;
    if (!from) {
        snprintf(reason, sizeof reason, "%s", strerror(errno));
    } else if (!standard) {
        fclose(from);
    }
    if (!*text) {
        snprintf(err, err_bytes, "cannot read %s: %s", standard ? "standard input" : path, reason);
    }
    return *text != NULL;
}
