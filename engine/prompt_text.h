/* A prompt text: what the program says to a model in one language, from engine/prompts/NAME.txt.
 *
 * Constants: the build makes prompt_text.c of those files. In a text `{}` is where a value goes.
 * Whoever changes a byte of a file gives it a new version, for results name it. */
#ifndef SOLFLEET_ENGINE_PROMPT_TEXT_H
#define SOLFLEET_ENGINE_PROMPT_TEXT_H

struct prompt_text {
    const char *version;
    const char *system; /* the form of an answer, the same for every job */
    const char *code;   /* after it: the programming language */
    const char *title, *example, *input, *output, *explanation, *constraints; /* of a problem */
    const char *opening; /* what the answer begins with: its first heading */
};

extern const struct prompt_text prompt_text_en, prompt_text_zh;

#endif
