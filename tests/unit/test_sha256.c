#include "schemas/sha256.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

static void hash_in_hex(const void *bytes, size_t size, char hex[SHA256_HEX_BYTES]) {
    uint8_t digest[SHA256_BYTES];
    assert_true(sha256_of(bytes, size, digest));
    sha256_hex(digest, hex);
}

static void agrees_with_the_published_examples(void **state) {
    static const struct {
        const char *text, *hex;
    } examples[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqr"
         "lmnopqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"}};
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        char hex[SHA256_HEX_BYTES];
        hash_in_hex(examples[i].text, strlen(examples[i].text), hex);
        assert_string_equal(hex, examples[i].hex);
    }
}

static void hashes_a_million_letters(void **state) {
    struct sha256 hash;
    uint8_t digest[SHA256_BYTES];
    char letters[1000], hex[SHA256_HEX_BYTES];
    memset(letters, 'a', sizeof letters);
    sha256_init(&hash);
    for (int i = 0; i < 1000; i++) {
        sha256_update(&hash, letters, sizeof letters);
    }
    assert_true(sha256_finish(&hash, digest));
    sha256_hex(digest, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* The digest of the digests of all lengths around the padding's edges, taken from an independent
 * implementation (Python's hashlib over bytes i * 7 & 255). */
static void pads_every_length_around_a_block_right(void **state) {
    struct sha256 all;
    uint8_t bytes[260], digest[SHA256_BYTES];
    char hex[SHA256_HEX_BYTES];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * 7);
    }
    sha256_init(&all);
    for (size_t size = 0; size <= sizeof bytes; size++) {
        assert_true(sha256_of(bytes, size, digest));
        sha256_update(&all, digest, sizeof digest);
    }
    assert_true(sha256_finish(&all, digest));
    sha256_hex(digest, hex);
    assert_string_equal(hex, "ae850ed7407f71b426e97298aafecb0c5a4137d5d39bc634091ec1bfd7b5a2cf");
}

static void gives_the_same_digest_however_the_input_is_split(void **state) {
    uint8_t bytes[300], whole[SHA256_BYTES], parts[SHA256_BYTES];
    uint64_t random = test_seed();
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)test_random(&random);
    }
    assert_true(sha256_of(bytes, sizeof bytes, whole));
    for (int round = 0; round < 200; round++) {
        struct sha256 hash;
        sha256_init(&hash);
        for (size_t at = 0; at < sizeof bytes;) {
            size_t size = test_random(&random) % 130;
            size = size < sizeof bytes - at ? size : sizeof bytes - at;
            sha256_update(&hash, bytes + at, size);
            at += size;
        }
        assert_true(sha256_finish(&hash, parts));
        assert_memory_equal(parts, whole, sizeof whole);
    }
}

TEST_MAIN(cmocka_unit_test(agrees_with_the_published_examples),
          cmocka_unit_test(hashes_a_million_letters),
          cmocka_unit_test(pads_every_length_around_a_block_right),
          cmocka_unit_test(gives_the_same_digest_however_the_input_is_split))
