#include "engine/prompt.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/utf8.h"

/* ---------------------------------------------------------------- language */

struct prompt_letters {
    size_t chinese, all;
};

static bool prompt_is_chinese(uint32_t code_point) {
    return (code_point >= 0x3400 && code_point <= 0x9FFF) ||
           (code_point >= 0xF900 && code_point <= 0xFAFF) ||
           (code_point >= 0x20000 && code_point <= 0x3FFFF);
}

/* Letters of other scripts count as letters, and so do kana, which stand between Chinese ones. */
static bool prompt_is_letter(uint32_t code_point) {
    bool is_ascii = (code_point | 0x20) >= 'a' && (code_point | 0x20) <= 'z';
    return is_ascii || (code_point >= 0xC0 && code_point < 0x2000) ||
           (code_point >= 0x3040 && code_point <= 0x30FF) || prompt_is_chinese(code_point) ||
           (code_point >= 0xAC00 && code_point <= 0xD7A3);
}

static void prompt_count_letters(const char *text, struct prompt_letters *letters) {
    size_t bytes = strlen(text);
    for (size_t at = 0; at < bytes;) {
        struct utf8_step step = utf8_next(text + at, bytes - at);
        letters->chinese += prompt_is_chinese(step.code_point);
        letters->all += prompt_is_letter(step.code_point);
        at += step.bytes;
    }
}

const struct prompt_text *prompt_choose(const struct job_problem *problem) {
    struct prompt_letters letters = {0};
    switch (problem->answer_language) {
    case JOB_ANSWER_ZH: return &prompt_text_zh;
    case JOB_ANSWER_EN: return &prompt_text_en;
    case JOB_ANSWER_AUTO: break;
    }
    if (problem->title != NULL) {
        prompt_count_letters(problem->title, &letters);
    }
    prompt_count_letters(problem->statement, &letters);
    bool is_chinese = letters.chinese > 0 && letters.chinese * 10 >= letters.all;
    return is_chinese ? &prompt_text_zh : &prompt_text_en;
}

/* ---------------------------------------------------------------- messages */

/* A part of ours with a value in its place. */
static void prompt_put(FILE *out, const char *part, const char *value) {
    const char *place = strstr(part, "{}");
    fprintf(out, "%.*s%s%s", (int)(place - part), part, value, place + 2);
}

static void prompt_put_example(FILE *out, const struct prompt_text *text,
                               const struct job_example *example, uint32_t index) {
    char number[16];
    snprintf(number, sizeof number, "%u", index + 1);
    fputs("\n\n", out);
    prompt_put(out, text->example, number);
    fputc('\n', out);
    prompt_put(out, text->input, example->input);
    fputc('\n', out);
    prompt_put(out, text->output, example->output);
    if (example->explanation != NULL) {
        fputc('\n', out);
        prompt_put(out, text->explanation, example->explanation);
    }
}

static void prompt_write_problem(FILE *out, const struct prompt_text *text,
                                 const struct job_problem *problem) {
    if (problem->title != NULL) {
        prompt_put(out, text->title, problem->title);
        fputs("\n\n", out);
    }
    fputs(problem->statement, out);
    for (uint32_t i = 0; i < problem->example_count; i++) {
        prompt_put_example(out, text, &problem->examples[i], i);
    }
    if (problem->constraints != NULL) {
        fputs("\n\n", out);
        prompt_put(out, text->constraints, problem->constraints);
    }
}

static void prompt_write_system(FILE *out, const struct prompt_text *text,
                                const struct job_problem *problem) {
    fputs(text->system, out);
    prompt_put(out, text->code, problem->code_language);
}

static char *prompt_build(const struct prompt_text *text, const struct job_problem *problem,
                          void (*write)(FILE *out, const struct prompt_text *text,
                                        const struct job_problem *problem),
                          size_t *bytes) {
    char *built = NULL;
    FILE *out = open_memstream(&built, bytes);
    if (out == NULL) {
        return NULL;
    }
    write(out, text, problem);
    bool is_whole = !ferror(out);
    if (fclose(out) != 0 || !is_whole) {
        free(built);
        return NULL;
    }
    return built;
}

char *prompt_build_system(const struct prompt_text *text, const struct job_problem *problem,
                          size_t *bytes) {
    return prompt_build(text, problem, prompt_write_system, bytes);
}

char *prompt_build_problem(const struct prompt_text *text, const struct job_problem *problem,
                           size_t *bytes) {
    return prompt_build(text, problem, prompt_write_problem, bytes);
}
