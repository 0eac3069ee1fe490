#include "consumer/config_env_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

static char seen[1024];
static char err[512];

/* Writes "line:KEY=[value]" of each assignment, one behind the other. */
static bool note(void *context, size_t line, const char *key, const char *value) {
    size_t used = strlen(seen);
    (void)context;
    snprintf(seen + used, sizeof seen - used, "%zu:%s=[%s]", line, key, value);
    return strcmp(key, "STOP") != 0;
}

static bool parse(const char *text) {
    char *copy = strdup(text);
    seen[0] = err[0] = '\0';
    bool right = config_env_file_parse(".env", copy, note, NULL, err, sizeof err);
    free(copy);
    return right;
}

static void reads(const char *text, const char *expected) {
    if (!parse(text)) {
        fail_msg("%s: %s", text, err);
    }
    assert_string_equal(seen, expected);
}

static void refuses(const char *text, const char *message) {
    assert_false(parse(text));
    assert_int_equal(strncmp(err, message, strlen(message)), 0);
    assert_non_null(strstr(err, "--env-file ''"));
}

static void reads_bare_values_without_the_blanks_around_them(void **state) {
    reads("", "");
    reads("A=1", "1:A=[1]");
    reads("A=1\nB=2\n", "1:A=[1]2:B=[2]");
    reads("\xEF\xBB\xBF"
          "A = x y \t\r\n\r\n  B_2=\r\n",
          "1:A=[x y]3:B_2=[]");
    reads("export A=1\n\texport\tB=2", "1:A=[1]2:B=[2]");
    reads("A=b=c", "1:A=[b=c]");
    reads("exported=1", "1:exported=[1]");
}

static void takes_a_comment_only_after_a_blank(void **state) {
    reads("# A=1\n  # B=2\nC=3 # four\nD=5#six\nE=#\nF= # x", "3:C=[3]4:D=[5#six]5:E=[]6:F=[]");
    reads("A='1' # one\nB=\"2\"# two\n", "1:A=[1]2:B=[2]");
}

static void reads_quoted_values_as_their_quotes_say(void **state) {
    reads("A=' \\n\"# '", "1:A=[ \\n\"# ]");
    reads("A=\"\\n\\t\\\"\\\\\\$B $C '\\d\"", "1:A=[\n\t\"\\$B $C '\\d]");
    reads("A=''\nB=\"\"", "1:A=[]2:B=[]");
    reads("A=\"one\ntwo\"\nB='\n\n'\nC=3", "1:A=[one\ntwo]3:B=[\n\n]6:C=[3]");
}

static void names_the_line_that_it_cannot_read(void **state) {
    refuses("A=1\nSOLFLEET_MODEL models/x\n", ".env:2: is no assignment");
    refuses("=1", ".env:1: is no assignment");
    refuses("2A=1", ".env:1: is no assignment");
    refuses("A=1\n\n- B=2", ".env:3: is no assignment");
    refuses("A='1\nB=2\n", ".env:1: the quote is not closed");
    refuses("A=\"1\\\"", ".env:1: the quote is not closed");
    refuses("A='1'2", ".env:1: something follows the closing quote");
}

static void ends_when_the_taker_does(void **state) {
    assert_false(parse("A=1\nSTOP=2\nB=3"));
    assert_string_equal(seen, "1:A=[1]2:STOP=[2]");
    assert_string_equal(err, "");
}

static enum config_env_file_status read_file(const char *bytes, size_t size) {
    char *path = test_tmp_path("env");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fwrite(bytes, 1, size, file);
    fclose(file);
    seen[0] = '\0';
    enum config_env_file_status status = config_env_file_read(path, note, NULL, err, sizeof err);
    free(path);
    return status;
}

static void tells_a_missing_file_from_one_that_is_wrong(void **state) {
    static char large[CONFIG_ENV_FILE_BYTES_MAX + 1];
    assert_int_equal(read_file("A=1", 3), CONFIG_ENV_FILE_OK);
    assert_string_equal(seen, "1:A=[1]");
    assert_int_equal(read_file("A=\0", 3), CONFIG_ENV_FILE_WRONG);
    memset(large, '\n', sizeof large);
    assert_int_equal(read_file(large, sizeof large - 1), CONFIG_ENV_FILE_OK);
    assert_int_equal(read_file(large, sizeof large), CONFIG_ENV_FILE_WRONG);
    assert_int_equal(config_env_file_read("/nowhere/.env", note, NULL, err, sizeof err),
                     CONFIG_ENV_FILE_MISSING);
    assert_int_equal(config_env_file_read("/", note, NULL, err, sizeof err), CONFIG_ENV_FILE_WRONG);
}

TEST_MAIN(cmocka_unit_test(reads_bare_values_without_the_blanks_around_them),
          cmocka_unit_test(takes_a_comment_only_after_a_blank),
          cmocka_unit_test(reads_quoted_values_as_their_quotes_say),
          cmocka_unit_test(names_the_line_that_it_cannot_read),
          cmocka_unit_test(ends_when_the_taker_does),
          cmocka_unit_test(tells_a_missing_file_from_one_that_is_wrong))
