"""What can happen to the way to Kafka and to its topics while jobs flow."""

import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (AclBinding, AclBindingFilter, AclOperation, AclPermissionType,
                                   NewPartitions, NewTopic, ResourcePatternType, ResourceType)
from fault_jobs import NULL, SLOWLY, await_states, ids, jobs
from services import KafkaServer, wait_until
from tcp_proxy import TcpProxy

JOBS = 240
FEW = JOBS // 6
ANYBODY = "User:ANONYMOUS"
PATIENCE_S = 60  # some of these are noticed by a metadata refresh of 10 s only


class ProxiedKafka(KafkaServer):
    """A broker that knows access rights, with a second address behind a proxy."""

    def __init__(self, folder):
        super().__init__(folder)
        self.proxy = TcpProxy()
        self.proxy.target_port = self.add_listener(self.proxy.port)
        self.set_property("authorizer.class.name",
                          "org.apache.kafka.metadata.authorizer.StandardAuthorizer")
        self.set_property("allow.everyone.if.no.acl.found", "true")

    @property
    def proxied_env(self):
        return {"SOLFLEET_BROKERS": self.proxy.address}


@pytest.fixture(scope="module")
def proxied_kafka(tmp_path_factory):
    with ProxiedKafka(tmp_path_factory.mktemp("proxied-kafka")) as server:
        yield server.start()
    server.proxy.close()


@pytest.fixture
def space(proxied_kafka, make_space):
    return make_space(kafka=proxied_kafka)


def end(space, reader, worker, names):
    reader.await_answers(names, timeout_s=PATIENCE_S)
    await_states(space, names, "done")
    space.await_all_committed()
    assert worker.alive()
    print(f"{reader.audit(names)} records twice")


@pytest.mark.parametrize("how, seconds", [("cut", 2), ("cut", 9), ("hold", 2), ("hold", 9)])
def test_answers_all_though_the_way_to_the_broker_is_gone_for_a_while(
        how, seconds, space, start_worker_of, read_answers):
    reader = read_answers(space)
    worker = start_worker_of(space, *NULL, *SLOWLY, env=space.kafka.proxied_env)
    space.produce(*jobs(ids(0, JOBS)))
    reader.await_answers(ids(0, JOBS), count=FEW)
    proxy = space.kafka.proxy
    try:
        getattr(proxy, how)()
        time.sleep(seconds)  # shorter and longer than the session
    finally:
        proxy.heal()
    end(space, reader, worker, ids(0, JOBS))


def know_anew(space):
    """Clients of ours that know nothing of the topics as they were."""
    space.consumers.clear()
    space.producer = Producer({"bootstrap.servers": space.kafka.brokers, "log_level": 0})


def test_takes_jobs_of_partitions_that_are_added(space, start_worker_of, read_answers):
    reader = read_answers(space)
    worker = start_worker_of(space, *NULL)
    space.produce(*jobs(ids(0, 30)))
    added = space.admin.create_partitions([NewPartitions(space.jobs_topic, 6)])
    added[space.jobs_topic].result(30)
    wait_until(lambda: len(space.admin.list_topics(space.jobs_topic, 10)
                           .topics[space.jobs_topic].partitions) == 6, 30, "there are six")
    know_anew(space)
    for partition in range(3, 6):  # before the worker knows of them
        space.produce(*jobs(ids(100 * partition, 10)), partition=partition)
    end(space, reader, worker, [*ids(0, 30), *ids(300, 10), *ids(400, 10), *ids(500, 10)])


def delete(space, topic):
    space.admin.delete_topics([topic])[topic].result(30)
    wait_until(lambda: topic not in space.admin.list_topics(timeout=10).topics, 30, "it is gone")


def create(space, topic):
    def is_there():
        return space.admin.create_topics(
            [NewTopic(topic, space.partitions, 1)])[topic].exception(30) is None
    wait_until(is_there, 30, "it is back", step_s=0.2)


# Too short to be seen by a refresh of metadata, or long enough; shorter than the old log was, or
# soon longer, so that its offsets alone do not tell.
@pytest.mark.parametrize("seconds, count", [(1, 30), (1, 120), (12, 30)])
def test_takes_jobs_of_a_topic_that_was_made_anew(seconds, count, space, start_worker_of,
                                                  read_answers):
    reader = read_answers(space)
    worker = start_worker_of(space, *NULL)
    space.produce(*jobs(ids(0, 60)))
    end(space, reader, worker, ids(0, 60))
    delete(space, space.jobs_topic)
    time.sleep(seconds)
    create(space, space.jobs_topic)
    know_anew(space)
    space.produce(*jobs(ids(60, count)))
    end(space, reader, worker, ids(0, 60 + count))


def test_publishes_what_waits_when_the_results_topic_is_back(space, start_worker_of, read_answers):
    before = read_answers(space)
    worker = start_worker_of(space, *NULL)
    space.produce(*jobs(ids(0, 60)))
    end(space, before, worker, ids(0, 60))
    delete(space, space.results_topic)
    space.produce(*jobs(ids(60, 60)))
    time.sleep(3)  # results are under way, and nobody takes them
    assert {space.status(i).get("state") for i in ids(60, 60)} <= {"queued", "running"}
    create(space, space.results_topic)
    after = read_answers(space)
    end(space, after, worker, ids(60, 60))


def deny(space, topic, operation):
    """Nobody may do this with the topic; whatever else they may (an access rule hides the
    default)."""
    rules = [AclBinding(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, ANYBODY, "*",
                        operation, AclPermissionType.DENY)]
    rules += [AclBinding(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, ANYBODY, "*",
                         other, AclPermissionType.ALLOW)
              for other in (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE,
                            AclOperation.DELETE, AclOperation.ALTER) if other != operation]
    for future in space.admin.create_acls(rules).values():
        future.result(30)


def allow(space, topic):
    rule = AclBindingFilter(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, None, None,
                            AclOperation.ANY, AclPermissionType.ANY)
    for future in space.admin.delete_acls([rule]).values():
        future.result(30)


def test_publishes_what_waits_when_it_may_write_again(space, start_worker_of, read_answers):
    reader = read_answers(space)
    worker = start_worker_of(space, *NULL, *SLOWLY)
    space.produce(*jobs(ids(0, JOBS)))
    reader.await_answers(ids(0, JOBS), count=FEW)
    deny(space, space.results_topic, AclOperation.WRITE)
    try:
        wait_until(lambda: "publish.refused" in worker.log(), 60, "it says that it may not")
    finally:
        allow(space, space.results_topic)
    end(space, reader, worker, ids(0, JOBS))


def test_reads_on_when_it_may_again(space, start_worker_of, read_answers):
    reader = read_answers(space)
    worker = start_worker_of(space, *NULL, *SLOWLY)
    space.produce(*jobs(ids(0, JOBS)))
    reader.await_answers(ids(0, JOBS), count=FEW)
    deny(space, space.jobs_topic, AclOperation.READ)
    try:
        wait_until(lambda: "uthoriz" in worker.log(), 60, "it says that it may not")
    finally:
        allow(space, space.jobs_topic)
    space.produce(*jobs(ids(JOBS, 30)))
    end(space, reader, worker, ids(0, JOBS + 30))
