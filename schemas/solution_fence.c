#include "schemas/solution_fence.h"

#include <string.h>

#define FENCE_MARKS_MIN 3

static size_t fence_skip_blanks(const char *line, size_t line_bytes) {
    size_t at = 0;
    while (at < line_bytes && (line[at] == ' ' || line[at] == '\t')) {
        at++;
    }
    return at;
}

static bool fence_is_blank(const char *text, size_t bytes) {
    size_t at = fence_skip_blanks(text, bytes);
    return at == bytes || (at + 1 == bytes && text[at] == '\r');
}

static size_t fence_count(const char *text, size_t bytes, char mark) {
    size_t count = 0;
    while (count < bytes && text[count] == mark) {
        count++;
    }
    return count;
}

/* Lists indent their fences, so any indentation will do. */
bool solution_fence_open(const char *line, size_t line_bytes, struct solution_fence *out) {
    size_t at = fence_skip_blanks(line, line_bytes);
    char mark = at < line_bytes ? line[at] : '\0';
    if (mark != '`' && mark != '~') {
        return false;
    }
    size_t count = fence_count(line + at, line_bytes - at, mark);
    const char *tag = line + at + count;
    size_t tag_bytes = line_bytes - at - count;
    bool is_inline = mark == '`' && memchr(tag, '`', tag_bytes) != NULL; /* code within a line */
    if (count < FENCE_MARKS_MIN || is_inline) {
        return false;
    }
    *out = (struct solution_fence){mark, count, tag, tag_bytes};
    return true;
}

bool solution_fence_closes(const struct solution_fence *fence, const char *line,
                           size_t line_bytes) {
    size_t at = fence_skip_blanks(line, line_bytes);
    size_t count = fence_count(line + at, line_bytes - at, fence->mark);
    return count >= fence->mark_count && fence_is_blank(line + at + count, line_bytes - at - count);
}

static const char *fence_rename(const char *word) {
    static const char *const names[][2] = {{"py", "python"},
                                           {"py3", "python"},
                                           {"python3", "python"},
                                           {"python2", "python"},
                                           {"pypy", "python"},
                                           {"pypy3", "python"},
                                           {"c++", "cpp"},
                                           {"cc", "cpp"},
                                           {"cxx", "cpp"},
                                           {"c++11", "cpp"},
                                           {"c++14", "cpp"},
                                           {"c++17", "cpp"},
                                           {"c++20", "cpp"},
                                           {"cpp11", "cpp"},
                                           {"cpp14", "cpp"},
                                           {"cpp17", "cpp"},
                                           {"cpp20", "cpp"},
                                           {"hpp", "cpp"},
                                           {"js", "javascript"},
                                           {"node", "javascript"},
                                           {"nodejs", "javascript"},
                                           {"mjs", "javascript"},
                                           {"jsx", "javascript"},
                                           {"ecmascript", "javascript"},
                                           {"ts", "typescript"},
                                           {"golang", "go"},
                                           {"rs", "rust"},
                                           {"c#", "csharp"},
                                           {"cs", "csharp"},
                                           {"kt", "kotlin"},
                                           {"rb", "ruby"},
                                           {"sh", "bash"},
                                           {"shell", "bash"},
                                           {"h", "c"},
                                           {"c99", "c"},
                                           {"c11", "c"},
                                           {"objective-c", "objectivec"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i][0], word) == 0) {
            return names[i][1];
        }
    }
    return word;
}

static bool fence_says_nothing(const char *word) {
    static const char *const words[] = {"", "text", "txt", "plain", "plaintext", "code", "none"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(words[i], word) == 0) {
            return true;
        }
    }
    return false;
}

static bool fence_is_of_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '#' || c == '-' ||
           c == '_';
}

bool solution_fence_language(const char *tag, size_t tag_bytes, char *name, size_t name_bytes) {
    char word[32];
    size_t at = 0, count = 0;
    while (at < tag_bytes && strchr(" \t{.", tag[at]) != NULL && tag[at] != '\0') {
        at++;
    }
    for (; at < tag_bytes; at++) {
        char c = tag[at] >= 'A' && tag[at] <= 'Z' ? (char)(tag[at] + ('a' - 'A')) : tag[at];
        if (!fence_is_of_word(c)) {
            break;
        }
        if (count + 1 == sizeof word) {
            return false;
        }
        word[count++] = c;
    }
    word[count] = '\0';
    const char *language = fence_rename(word);
    if (fence_says_nothing(word) || strlen(language) >= name_bytes) {
        return false;
    }
    memcpy(name, language, strlen(language) + 1);
    return true;
}
