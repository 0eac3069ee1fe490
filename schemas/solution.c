#include "schemas/solution.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/solution_fence.h"
#include "schemas/solution_heading.h"
#include "schemas/solution_measure.h"

#define SOLUTION_BUFFER_BYTES 256 /* of a section at first; it doubles when it is full */

struct solution_buffer {
    char *data; /* owned */
    size_t bytes, capacity;
    bool has_text; /* not only blanks */
};

struct solution_code {
    struct solution_fence fence;
    struct solution_span content;
};

struct solution_parser {
    struct solution_buffer texts[SOLUTION_SECTION_COUNT]; /* of sections that are text */
    bool saw_complexity;                                  /* a heading of both complexities */
    bool had_time, had_space;                             /* before it */
    bool is_loose[SOLUTION_SECTION_COUNT];                /* opened by a loose name */
    enum solution_section current;        /* NONE: what comes belongs to no section */
    enum solution_measure side;           /* under a heading of both complexities */
    struct solution_code open;            /* fence.mark 0: none */
    struct solution_code under, anywhere; /* the longest yet: under the code heading, of all */
    bool is_cut;                          /* a fence is open at the end */
    bool ran_out;                         /* of memory */
};

/* ---- text of sections ------------------------------------------------------------------------ */

static bool solution_is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool solution_is_empty(struct solution_span content) {
    for (size_t i = 0; i < content.bytes; i++) {
        if (!solution_is_blank(content.at[i])) {
            return false;
        }
    }
    return true;
}

static bool solution_reserve(struct solution_buffer *buffer, size_t bytes) {
    size_t capacity = buffer->capacity > 0 ? buffer->capacity : SOLUTION_BUFFER_BYTES;
    while (capacity < bytes) {
        capacity *= 2;
    }
    if (capacity == buffer->capacity) {
        return true;
    }
    char *data = realloc(buffer->data, capacity);
    if (data == NULL) {
        return false;
    }
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

/* Adds a line with its line break to a section. */
static void solution_add(struct solution_parser *parser, enum solution_section section,
                         struct solution_span line) {
    struct solution_buffer *buffer = &parser->texts[section];
    if (!solution_reserve(buffer, buffer->bytes + line.bytes + 2)) {
        parser->ran_out = true;
        return;
    }
    memcpy(buffer->data + buffer->bytes, line.at, line.bytes);
    buffer->bytes += line.bytes;
    buffer->data[buffer->bytes++] = '\n';
    buffer->has_text |= !solution_is_empty(line);
}

/* A rule between sections, as `---`: no part of either. */
static bool solution_is_rule(const char *line, size_t bytes) {
    if (bytes < 3 || strchr("-*_=", line[0]) == NULL) {
        return false;
    }
    for (size_t i = 1; i < bytes; i++) {
        if (line[i] != line[0]) {
            return false;
        }
    }
    return true;
}

static size_t solution_trim_end(const char *text, size_t bytes) {
    for (;;) {
        while (bytes > 0 && solution_is_blank(text[bytes - 1])) {
            bytes--;
        }
        const char *last = bytes > 0 ? memrchr(text, '\n', bytes) : NULL;
        size_t from = last != NULL ? (size_t)(last + 1 - text) : 0;
        if (!solution_is_rule(text + from, bytes - from)) {
            return bytes;
        }
        bytes = from;
    }
}

/* The section's text, without blanks around it; NULL where nothing is left. Moves the buffer. */
static char *solution_take_text(struct solution_buffer *buffer) {
    if (buffer->bytes == 0) {
        return NULL;
    }
    size_t end = solution_trim_end(buffer->data, buffer->bytes);
    size_t from = 0;
    while (from < end && solution_is_blank(buffer->data[from])) {
        from++;
    }
    if (from == end) {
        return NULL;
    }
    char *text = buffer->data;
    memmove(text, text + from, end - from);
    text[end - from] = '\0';
    *buffer = (struct solution_buffer){0};
    return text;
}

/* ---- complexities ---------------------------------------------------------------------------- */

static void solution_add_sides(struct solution_parser *parser, struct solution_span time,
                               struct solution_span space) {
    bool is_both = parser->side == SOLUTION_MEASURE_BOTH;
    if (!parser->had_time && (is_both || parser->side == SOLUTION_MEASURE_TIME)) {
        solution_add(parser, SOLUTION_TIME, time);
    }
    if (!parser->had_space && (is_both || parser->side == SOLUTION_MEASURE_SPACE)) {
        solution_add(parser, SOLUTION_SPACE, space);
    }
}

/* A line under a heading of both: what gives an order of one of them turns to that one. */
static void solution_add_measures(struct solution_parser *parser, struct solution_span line) {
    struct solution_span time = line, space = line;
    bool has_order = solution_measure_has_order(line.at, line.bytes);
    if (has_order) {
        enum solution_measure found = solution_measure_split(line.at, line.bytes, &time, &space);
        if (found == SOLUTION_MEASURE_NONE && parser->side == SOLUTION_MEASURE_NONE) {
            found = SOLUTION_MEASURE_TIME; /* a complexity without a word is one of time */
        }
        if (found == parser->side && found != SOLUTION_MEASURE_BOTH) {
            time = space = line;
        }
        parser->side = found != SOLUTION_MEASURE_NONE ? found : parser->side;
    }
    solution_add_sides(parser, time, space);
}

/* What follows `时间复杂度：` on its line, which may go on with the other one. */
static void solution_add_measure(struct solution_parser *parser, struct solution_span line) {
    enum solution_section section = parser->current;
    enum solution_section other = section == SOLUTION_TIME ? SOLUTION_SPACE : SOLUTION_TIME;
    struct solution_span rest;
    size_t bytes = 0;
    if (!solution_measure_find_other(line.at, line.bytes, section == SOLUTION_TIME, &bytes,
                                     &rest)) {
        solution_add(parser, section, line);
        return;
    }
    solution_add(parser, section, (struct solution_span){line.at, bytes});
    if (parser->texts[other].has_text) {
        return;
    }
    parser->current = other;
    solution_add(parser, other, rest);
}

/* ---- headings -------------------------------------------------------------------------------- */

static void solution_add_line(struct solution_parser *parser, struct solution_span line) {
    if (parser->current == SOLUTION_NONE || parser->current == SOLUTION_CODE) {
        return;
    }
    if (parser->current == SOLUTION_COMPLEXITY) {
        if (parser->open.fence.mark == 0) {
            solution_add_measures(parser, line);
        } else {
            solution_add_sides(parser, line, line);
        }
        return;
    }
    solution_add(parser, parser->current, line);
}

static bool solution_is_of_measures(enum solution_section section) {
    return section == SOLUTION_TIME || section == SOLUTION_SPACE || section == SOLUTION_COMPLEXITY;
}

/* A loose name inside another section is a heading only where it can hardly be anything else. */
static bool solution_believes(const struct solution_parser *parser,
                              const struct solution_heading *heading) {
    if (!heading->is_loose || heading->form == SOLUTION_FORM_TITLE ||
        parser->current == SOLUTION_NONE) {
        return true;
    }
    return solution_is_of_measures(heading->section) &&
           (solution_is_of_measures(parser->current) ||
            solution_measure_has_order(heading->rest, heading->rest_bytes));
}

/* Whether a heading of a section that has been there is only a line of the current one. */
static bool solution_is_within(struct solution_parser *parser,
                               const struct solution_heading *heading) {
    bool is_current = parser->current == heading->section;
    if (heading->form == SOLUTION_FORM_ITEM || (is_current && heading->is_loose)) {
        return true;
    }
    if (is_current && heading->section == SOLUTION_CODE) { /* `The whole code:` before a fence */
        return heading->form == SOLUTION_FORM_LABEL;
    }
    if (is_current && parser->is_loose[heading->section]) { /* Intuition, then Approach */
        parser->is_loose[heading->section] = false;
        return true;
    }
    return false;
}

/* A heading with nothing behind it does not count: models write the prompt's once more, or all of
 * them before they begin. */
static bool solution_was_there(const struct solution_parser *parser,
                               enum solution_section section) {
    bool has_time = parser->texts[SOLUTION_TIME].has_text;
    bool has_space = parser->texts[SOLUTION_SPACE].has_text;
    switch (section) {
    case SOLUTION_CODE: return parser->under.content.bytes > 0;
    case SOLUTION_COMPLEXITY:
        return (has_time && has_space) || (parser->saw_complexity && (has_time || has_space));
    default: return parser->texts[section].has_text;
    }
}

/* True when the line was a heading that begins a section, or ends one. */
static bool solution_turn(struct solution_parser *parser, struct solution_span line) {
    struct solution_heading heading;
    if (!solution_heading_read(line.at, line.bytes, &heading) ||
        !solution_believes(parser, &heading)) {
        return false;
    }
    enum solution_section section = heading.section;
    if (solution_was_there(parser, section)) {
        bool is_within = solution_is_within(parser, &heading);
        parser->current = is_within ? parser->current : SOLUTION_NONE;
        return !is_within;
    }
    if (section == SOLUTION_COMPLEXITY) {
        parser->saw_complexity = true;
        parser->had_time = parser->texts[SOLUTION_TIME].has_text;
        parser->had_space = parser->texts[SOLUTION_SPACE].has_text;
    }
    parser->is_loose[section] = heading.is_loose;
    parser->current = section;
    parser->side = SOLUTION_MEASURE_NONE;
    if (heading.rest_bytes > 0) {
        struct solution_span rest = {heading.rest, heading.rest_bytes};
        if (section == SOLUTION_TIME || section == SOLUTION_SPACE) {
            solution_add_measure(parser, rest);
        } else {
            solution_add_line(parser, rest);
        }
    }
    return true;
}

/* ---- code ------------------------------------------------------------------------------------ */

static void solution_close_fence(struct solution_parser *parser, const char *end) {
    struct solution_code *open = &parser->open;
    open->content.bytes = (size_t)(end - open->content.at);
    if (!solution_is_empty(open->content)) {
        if (open->content.bytes > parser->anywhere.content.bytes) {
            parser->anywhere = *open;
        }
        if (parser->current == SOLUTION_CODE && open->content.bytes > parser->under.content.bytes) {
            parser->under = *open;
        }
    }
    *open = (struct solution_code){0};
}

/* One line of the text, `next` being where the following one begins. */
static void solution_read_line(struct solution_parser *parser, struct solution_span line,
                               const char *next) {
    struct solution_code *open = &parser->open;
    if (open->fence.mark != 0) {
        solution_add_line(parser, line);
        if (solution_fence_closes(&open->fence, line.at, line.bytes)) {
            solution_close_fence(parser, line.at);
        }
        return;
    }
    if (solution_fence_open(line.at, line.bytes, &open->fence)) {
        open->content.at = next;
        solution_add_line(parser, line);
        return;
    }
    if (!solution_turn(parser, line)) {
        solution_add_line(parser, line);
    }
}

static char *solution_copy_code(struct solution_span content) {
    bool needs_end = content.at[content.bytes - 1] != '\n';
    char *code = malloc(content.bytes + 2);
    if (code != NULL) {
        memcpy(code, content.at, content.bytes);
        code[content.bytes] = needs_end ? '\n' : '\0';
        code[content.bytes + 1] = '\0';
    }
    return code;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void solution_fill_code(struct solution_parser *parser, struct result_solution *out) {
    const struct solution_code *code =
        parser->under.content.bytes > 0 ? &parser->under : &parser->anywhere;
    if (code->content.bytes == 0) {
        return;
    }
    out->code = solution_copy_code(code->content);
    parser->ran_out |= out->code == NULL;
    (void)solution_fence_language(code->fence.tag, code->fence.tag_bytes, out->code_language,
                                  sizeof out->code_language);
}

static void solution_read(struct solution_parser *parser, const char *text) {
    while (*text != '\0') {
        size_t bytes = strcspn(text, "\n");
        const char *next = text + bytes + (text[bytes] == '\n');
        solution_read_line(parser, (struct solution_span){text, bytes}, next);
        text = next;
    }
    if (parser->open.fence.mark != 0) {
        parser->is_cut = true;
        solution_close_fence(parser, text);
    }
}

enum solution_status solution_parse(const char *text, const char *code_language, bool was_cut,
                                    struct result_solution *out) {
    struct solution_parser parser = {0};
    *out = (struct result_solution){.present = true};
    snprintf(out->code_language, sizeof out->code_language, "%s", code_language);
    solution_read(&parser, text);
    out->complete = !was_cut && !parser.is_cut;
    solution_fill_code(&parser, out);
    out->analysis = solution_take_text(&parser.texts[SOLUTION_ANALYSIS]);
    out->time_complexity = solution_take_text(&parser.texts[SOLUTION_TIME]);
    out->space_complexity = solution_take_text(&parser.texts[SOLUTION_SPACE]);
    out->pitfalls = solution_take_text(&parser.texts[SOLUTION_PITFALLS]);
    for (size_t i = 0; i < SOLUTION_SECTION_COUNT; i++) {
        free(parser.texts[i].data);
    }
    if (parser.ran_out) {
        solution_deinit(out);
        return SOLUTION_NO_MEMORY;
    }
    return SOLUTION_OK;
}

void solution_deinit(struct result_solution *solution) {
    free(solution->analysis);
    free(solution->time_complexity);
    free(solution->space_complexity);
    free(solution->code);
    free(solution->pitfalls);
    *solution = (struct result_solution){0};
}
