/* Any bytes are refused, or give ascending ranges beyond the mark that say the same when they are
 * written again. The first byte chooses the mark. */
#include <assert.h>

#include "consumer/offset_metadata.h"
#include "tests/fuzz/fuzz.h"

static void check(int64_t mark, const struct offset_range *ranges, size_t count) {
    static char text[OFFSET_METADATA_BYTES_MAX + 1];
    static struct offset_range again[OFFSET_METADATA_RANGES_MAX];
    size_t size = offset_metadata_encode(mark, ranges, count, text, OFFSET_METADATA_BYTES_MAX);
    size_t again_count;
    bool taken = offset_metadata_decode(mark, text, size, again, &again_count);
    assert(taken && again_count == count);
    int64_t at = mark;
    for (size_t i = 0; i < count; i++) {
        assert(ranges[i].begin >= at && ranges[i].end > ranges[i].begin);
        assert(i == 0 || ranges[i].begin > at);
        assert(again[i].begin == ranges[i].begin && again[i].end == ranges[i].end);
        at = ranges[i].end;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_bytes) {
    static const int64_t marks[] = {0, 1, 1000000007, INT64_MAX - 40, INT64_MAX, -1001};
    static struct offset_range ranges[OFFSET_METADATA_RANGES_MAX];
    if (data_bytes == 0) {
        return 0;
    }
    int64_t mark = marks[data[0] % (sizeof marks / sizeof marks[0])];
    size_t count;
    if (offset_metadata_decode(mark, data + 1, data_bytes - 1, ranges, &count)) {
        check(mark, ranges, count);
    } else {
        assert(count == 0);
    }
    return 0;
}
