#include "engine/prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prompt_version_text[] = "builtin-en-1";

static const char prompt_system_text[] =
    "You are an expert in algorithms who explains solutions clearly and writes correct code. "
    "Answer every problem in exactly this form:\n"
    "\n"
    "## Idea\n"
    "How to solve the problem and why it is correct, in a few sentences.\n"
    "\n"
    "## Complexity\n"
    "Time: O(...)\n"
    "Space: O(...)\n"
    "\n"
    "## Code\n"
    "One complete program or function in a fenced code block.";

static const char *const prompt_languages[] = {
    [JOB_ANSWER_AUTO] = "Explain in the language of the problem statement.",
    [JOB_ANSWER_ZH] = "Explain in Chinese.",
    [JOB_ANSWER_EN] = "Explain in English.",
};

const char *prompt_version(void) {
    return prompt_version_text;
}

const char *prompt_system(void) {
    return prompt_system_text;
}

static void prompt_put_examples(FILE *out, const struct job_problem *problem) {
    for (uint32_t i = 0; i < problem->example_count; i++) {
        const struct job_example *example = &problem->examples[i];
        fprintf(out, "\n\nExample %u\nInput: %s\nOutput: %s", i + 1, example->input,
                example->output);
        if (example->explanation != NULL) {
            fprintf(out, "\nExplanation: %s", example->explanation);
        }
    }
}

char *prompt_build(const struct job_problem *problem, size_t *bytes) {
    char *text = NULL;
    FILE *out = open_memstream(&text, bytes);
    if (out == NULL) {
        return NULL;
    }
    fputs("Problem", out);
    if (problem->title != NULL) {
        fprintf(out, ": %s", problem->title);
    }
    fprintf(out, "\n\n%s", problem->statement);
    prompt_put_examples(out, problem);
    if (problem->constraints != NULL) {
        fprintf(out, "\n\nConstraints\n%s", problem->constraints);
    }
    fprintf(out, "\n\nWrite the code in %s. %s", problem->code_language,
            prompt_languages[problem->answer_language]);
    bool is_whole = !ferror(out);
    if (fclose(out) != 0 || !is_whole) {
        free(text);
        return NULL;
    }
    return text;
}
