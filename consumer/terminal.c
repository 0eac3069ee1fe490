#include "consumer/terminal.h"

#include <stdint.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "schemas/utf8.h"

bool terminal_is(FILE *to) {
    return isatty(fileno(to)) == 1;
}

void terminal_size(FILE *to, int *columns, int *rows) {
    struct winsize size = {0};
    bool told = ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col && size.ws_row;
    *columns = told ? size.ws_col : 80;
    *rows = told ? size.ws_row : 24;
}

static bool terminal_is_harmful(uint32_t code_point) {
    if (code_point == '\n' || code_point == '\t') {
        return false;
    }
    return code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0) ||
           (code_point >= 0x202A && code_point <= 0x202E) ||
           (code_point >= 0x2066 && code_point <= 0x2069);
}

/* C0 controls and DEL have symbols of their own; for the rest U+FFFD stands. */
static void terminal_print_symbol(FILE *to, uint32_t code_point) {
    if (code_point < 0x20 || code_point == 0x7F) {
        uint32_t symbol = code_point == 0x7F ? 0x21 : code_point; /* U+2400 + code, U+2421 DEL */
        fprintf(to, "\xE2\x90%c", (char)(0x80 + symbol));
    } else {
        fputs("\xEF\xBF\xBD", to);
    }
}

void terminal_print_clean(FILE *to, const char *text, size_t bytes) {
    while (bytes) {
        struct utf8_step step = utf8_next(text, bytes);
        if (step.kind != UTF8_WHOLE || terminal_is_harmful(step.code_point)) {
            terminal_print_symbol(to, step.kind == UTF8_WHOLE ? step.code_point : 0xFFFD);
        } else {
            fwrite(text, 1, step.bytes, to);
        }
        text += step.bytes;
        bytes -= step.bytes;
    }
}

void terminal_print(FILE *to, const char *text, size_t bytes) {
    if (terminal_is(to)) {
        terminal_print_clean(to, text, bytes);
    } else {
        fwrite(text, 1, bytes, to);
    }
}
