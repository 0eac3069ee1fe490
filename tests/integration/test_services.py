"""The servers and helpers that the other integration tests lean on."""

import pytest
from services import KafkaServer


def test_keeps_the_records_of_one_space_from_another(make_space):
    one, other = make_space(), make_space()
    one.produce({"request_id": "a"}, b"\xff", None, key=b"k", headers=[("h", b"v")], partition=2)
    assert one.jobs_topic != other.jobs_topic
    ends = one.end_offsets()
    assert ends == {0: 0, 1: 0, 2: 3}
    assert other.end_offsets() == {0: 0, 1: 0, 2: 0}
    assert set(one.committed().values()) == {-1001}


def test_reads_back_what_was_published(space):
    space.producer.produce(space.results_topic, b'{"status": "done"}', b"id", headers=[("s", b"1")])
    space.producer.flush(10)
    (record,) = space.results(1)
    assert record.value == {"status": "done"}
    assert (record.key, record.headers) == (b"id", {"s": b"1"})
    assert space.no_more(space.results_topic, 0.2) == []
    with pytest.raises(AssertionError, match="0 of 1 records"):
        space.results(1, timeout_s=0.3)


def test_reads_a_status_by_its_literal_key(space):
    assert space.status("a") == {}
    space.redis.hset(f"{space.key_prefix}job:{{a}}", "state", "done")
    assert space.await_state("a", "done", "failed") == {"state": "done"}


def test_a_killed_broker_comes_back_with_its_records(tmp_path, redis_server):
    from conftest import Space  # a broker of its own: the session's stays up
    with KafkaServer(tmp_path) as server:
        space = Space(server.start(), redis_server, 1)
        space.create_topics()
        space.produce({"request_id": "a"})
        server.kill()
        server.start()
        assert space.end_offsets() == {0: 1}
        space.close()
