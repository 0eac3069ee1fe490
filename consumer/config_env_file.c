#include "consumer/config_env_file.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct env_file {
    const char *path;
    char *at; /* what is still to be read */
    size_t line;
    char *err;
    size_t err_bytes;
};

static bool env_file_refuse(const struct env_file *file, size_t line, const char *what) {
    snprintf(file->err, file->err_bytes,
             "%s:%zu: %s (lines are KEY=VALUE; --env-file '' reads no such file)", file->path, line,
             what);
    return false;
}

static void env_file_skip_blanks(struct env_file *file) {
    while (*file->at == ' ' || *file->at == '\t' || *file->at == '\r') {
        file->at++;
    }
}

static void env_file_skip_line(struct env_file *file) {
    file->at += strcspn(file->at, "\n");
    if (*file->at == '\n') {
        file->at++;
        file->line++;
    }
}

/* What a backslash and `letter` stand for in double quotes; 0 when the backslash is meant. */
static char env_file_escape(char letter) {
    switch (letter) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case '"':
    case '\\':
    case '$': return letter;
    default: return '\0';
    }
}

/* Reads up to the closing quote, unescaping in place. NULL when there is none. */
static char *env_file_quoted(struct env_file *file) {
    char quote = *file->at++;
    char *value = file->at, *out = value;
    while (*file->at != quote) {
        char letter = *file->at++;
        if (letter == '\0') {
            return NULL;
        }
        file->line += letter == '\n';
        char meant = quote == '"' && letter == '\\' ? env_file_escape(*file->at) : '\0';
        if (meant != '\0') {
            letter = meant;
            file->at++;
        }
        *out++ = letter;
    }
    file->at++;
    *out = '\0';
    return value;
}

/* Reads up to a comment or the end of the line; the newline is left to be read. */
static char *env_file_bare(struct env_file *file, bool *at_end) {
    char *value = file->at;
    char *end = value;
    while (*end != '\0' && *end != '\n' && !(*end == '#' && (end == value || isblank(end[-1])))) {
        end++;
    }
    file->at = end + strcspn(end, "\n");
    *at_end = *file->at == '\0';
    while (end > value && isspace((unsigned char)end[-1])) {
        end--;
    }
    file->at += !*at_end; /* the value may end where the newline stood */
    file->line += !*at_end;
    *end = '\0';
    return value;
}

static char *env_file_key(struct env_file *file) {
    if (strncmp(file->at, "export", 6) == 0 && isblank((unsigned char)file->at[6])) {
        file->at += 6;
        env_file_skip_blanks(file);
    }
    char *key = file->at;
    while (isalnum((unsigned char)*file->at) || *file->at == '_' || *file->at == '.' ||
           *file->at == '-') {
        file->at++;
    }
    char *end = file->at;
    env_file_skip_blanks(file);
    if (end == key || isdigit((unsigned char)*key) || *file->at != '=') {
        return NULL;
    }
    file->at++;
    *end = '\0';
    return key;
}

static bool env_file_assignment(struct env_file *file, config_env_file_taker *take, void *context) {
    size_t line = file->line;
    char *key = env_file_key(file);
    if (key == NULL) {
        return env_file_refuse(file, line, "is no assignment");
    }
    env_file_skip_blanks(file);
    bool at_end = false;
    if (*file->at != '"' && *file->at != '\'') {
        return take(context, line, key, env_file_bare(file, &at_end));
    }
    char *value = env_file_quoted(file);
    if (value == NULL) {
        return env_file_refuse(file, line, "the quote is not closed");
    }
    env_file_skip_blanks(file);
    if (*file->at != '\0' && *file->at != '\n' && *file->at != '#') {
        return env_file_refuse(file, line, "something follows the closing quote");
    }
    env_file_skip_line(file);
    return take(context, line, key, value);
}

bool config_env_file_parse(const char *path, char *text, config_env_file_taker *take, void *context,
                           char *err, size_t err_bytes) {
    struct env_file file = {path, text, 1, err, err_bytes};
    if (strncmp(text, "\xEF\xBB\xBF", 3) == 0) {
        file.at += 3;
    }
    while (*file.at != '\0') {
        env_file_skip_blanks(&file);
        if (*file.at == '\n' || *file.at == '#') {
            env_file_skip_line(&file);
        } else if (*file.at != '\0' && !env_file_assignment(&file, take, context)) {
            return false;
        }
    }
    return true;
}

/* The whole file with a NUL behind it; NULL with the reason in err. */
static char *env_file_load(FILE *stream, const char *path, char *err, size_t err_bytes) {
    char *text = malloc(CONFIG_ENV_FILE_BYTES_MAX + 2);
    if (text == NULL) {
        snprintf(err, err_bytes, "%s: out of memory", path);
        return NULL;
    }
    size_t bytes = fread(text, 1, CONFIG_ENV_FILE_BYTES_MAX + 1, stream);
    const char *wrong = ferror(stream)                      ? "cannot be read"
                        : bytes > CONFIG_ENV_FILE_BYTES_MAX ? "is too large for a file of settings"
                        : memchr(text, '\0', bytes) != NULL ? "holds a zero byte: it is no text"
                                                            : NULL;
    if (wrong != NULL) {
        snprintf(err, err_bytes, "%s: %s (--env-file '' reads no such file)", path, wrong);
        free(text);
        return NULL;
    }
    text[bytes] = '\0';
    return text;
}

enum config_env_file_status config_env_file_read(const char *path, config_env_file_taker *take,
                                                 void *context, char *err, size_t err_bytes) {
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) {
        snprintf(err, err_bytes, "%s: %s (see --env-file)", path, strerror(errno));
        return errno == ENOENT || errno == ENOTDIR ? CONFIG_ENV_FILE_MISSING
                                                   : CONFIG_ENV_FILE_WRONG;
    }
    char *text = env_file_load(stream, path, err, err_bytes);
    fclose(stream);
    bool right = text != NULL && config_env_file_parse(path, text, take, context, err, err_bytes);
    free(text);
    return right ? CONFIG_ENV_FILE_OK : CONFIG_ENV_FILE_WRONG;
}
