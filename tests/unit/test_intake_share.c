/* consumer/intake_share: fed record by record, as consuming does it. */
#include "consumer/intake_share.h"

#include "tests/support/test.h"

enum { SLOTS = 160, PARTITIONS = 8 }; /* four of each of two topics */

static struct intake_share_partition all[PARTITIONS];

static int clear(void **state) {
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        all[i] = (struct intake_share_partition){.topic = i / 4};
    }
    return 0;
}

/* Gives a partition records until it is shut, or has `most`: how many it has. */
static uint32_t flood(uint32_t partition, uint32_t most) {
    intake_share_decide(all, PARTITIONS, 2, SLOTS);
    while (!all[partition].is_shut && all[partition].held < most) {
        all[partition].held++;
        intake_share_decide(all, PARTITIONS, 2, SLOTS);
    }
    return all[partition].held;
}

static void lets_a_flood_have_its_own_and_its_part_of_what_is_common(void **state) {
    assert_int_equal(flood(7, 1000), 10 + 40); /* of the less urgent: half of 80 */
    clear(state);
    assert_int_equal(flood(0, 1000), 10 + 80);
}

static void keeps_what_is_every_partitions_own(void **state) {
    flood(7, 1000);
    flood(0, 1000);
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        if (i != 0 && i != 7) {
            assert_int_equal(flood(i, 1000), 10);
        }
    }
    uint32_t sum = 0;
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        sum += all[i].held;
    }
    assert_true(sum <= SLOTS);
}

static void opens_again_with_some_room_and_not_at_once(void **state) {
    flood(7, 1000);
    all[7].held--; /* one has ended */
    intake_share_decide(all, PARTITIONS, 2, SLOTS);
    assert_true(all[7].is_shut);
    all[7].held -= 5; /* 34 common ones in use: below 40 less an eighth */
    intake_share_decide(all, PARTITIONS, 2, SLOTS);
    assert_false(all[7].is_shut);
}

static void lets_each_partition_have_one_however_many_there_are(void **state) {
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        all[i].held = 0;
    }
    intake_share_decide(all, PARTITIONS, 2, 2);
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        assert_false(all[i].is_shut);
    }
}

#define FRESH(test) cmocka_unit_test_setup(test, clear)

TEST_MAIN(FRESH(lets_a_flood_have_its_own_and_its_part_of_what_is_common),
          FRESH(keeps_what_is_every_partitions_own),
          FRESH(opens_again_with_some_room_and_not_at_once),
          FRESH(lets_each_partition_have_one_however_many_there_are))
