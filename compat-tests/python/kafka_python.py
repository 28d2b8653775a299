"""kafka-python of either line (2.0, 3.x): producer, consumers with partitions of their own and in groups, transactions, admin."""
import threading

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError
from kafka.structs import OffsetAndMetadata

from checks import BOOTSTRAP, CODECS, EPOCH, PREFIX, RECORDS, check, done, name_of, until

NEW = int(kafka.__version__.split(".")[0]) >= 3


def producer(**settings):
    return KafkaProducer(bootstrap_servers=BOOTSTRAP, linger_ms=10, **settings)


def produce(topic, count, **settings):
    out = producer(**settings)
    sent = [
        out.send(topic, b"value %d" % i, key=b"k%d" % i, headers=[("i", b"%d" % i)], partition=i % 3, timestamp_ms=EPOCH + i)
        for i in range(count)
    ]
    metadata = [future.get(30) for future in sent]
    out.close()
    return metadata


def partitions(topic):
    return [TopicPartition(topic, i) for i in range(3)]


def consume(topic, count, **settings):
    consumer = KafkaConsumer(bootstrap_servers=BOOTSTRAP, group_id=None, auto_offset_reset="earliest", consumer_timeout_ms=20000, **settings)
    consumer.assign(partitions(topic))
    consumer.seek_to_beginning()
    next_offset = {}
    seen = 0
    for message in consumer:
        i = message.offset * 3 + message.partition
        assert message.value == b"value %d" % i and message.key == b"k%d" % i, message
        assert message.headers == [("i", b"%d" % i)] or list(message.headers) == [("i", b"%d" % i)], message.headers
        assert message.timestamp == EPOCH + i, message.timestamp
        assert message.offset == next_offset.get(message.partition, 0), message.offset
        next_offset[message.partition] = message.offset + 1
        seen += 1
        if seen == count:
            break
    consumer.close()
    assert seen == count, "%d of %d" % (seen, count)


admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)


def create(topic, count=3):
    admin.create_topics([NewTopic(topic, count, 1, topic_configs={"retention.ms": "-1"})])
    until("the topic", lambda: topic in admin.list_topics())


def codec(name):
    topic = "%s-%s" % (PREFIX, name)
    create(topic)
    metadata = produce(topic, RECORDS, compression_type=None if name == "none" else name)
    assert metadata[0].offset == 0, metadata[0]
    consume(topic, RECORDS)


for name in CODECS:
    check(name + " out and in", lambda: codec(name))
NONE = PREFIX + "-none"


def acks():
    topic = PREFIX + "-acks"
    create(topic)
    produce(topic, 30, acks=1)
    out = producer(acks=0)
    out.send(topic, b"x", partition=0)
    out.flush()
    out.close()
    consumer = KafkaConsumer(bootstrap_servers=BOOTSTRAP)
    until("31 records", lambda: sum(consumer.end_offsets(partitions(topic)).values()) == 31)
    consumer.close()


check("acks 0 and 1", acks)
check("small fetches", lambda: consume(NONE, min(RECORDS, 300), max_partition_fetch_bytes=100, fetch_max_bytes=100))


def offsets():
    consumer = KafkaConsumer(bootstrap_servers=BOOTSTRAP)
    first = TopicPartition(NONE, 0)
    assert sum(consumer.end_offsets(partitions(NONE)).values()) == RECORDS
    assert consumer.beginning_offsets([first])[first] == 0
    assert consumer.offsets_for_times({first: EPOCH + 4})[first].offset == 2
    assert consumer.partitions_for_topic(NONE) == {0, 1, 2}
    assert NONE in consumer.topics()
    consumer.close()


check("offsets and metadata", offsets)


def a_group_shares_commits_and_resumes():
    topic = PREFIX + "-group"
    create(topic)
    produce(topic, 30)

    def member():
        return KafkaConsumer(
            topic,
            bootstrap_servers=BOOTSTRAP,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=200,
            session_timeout_ms=6000,
        )

    first, second, leave = member(), member(), threading.Event()

    def beside():
        while not leave.is_set():
            second.poll(50)
        second.close()

    def shared(*members):
        def holds():
            # A poll takes part in what the group does; what is read by it is read again after the seek below.
            first.poll(50)
            held = [each.assignment() for each in members]
            return all(held) and sorted(p.partition for each in held for p in each) == [0, 1, 2]

        until("each its own of three partitions", holds)

    def read_to(source, read, count):
        while sum(read) < count:
            for messages in source.poll(200, max_records=count - sum(read)).values():
                for message in messages:
                    assert message.offset == read[message.partition], message
                    assert message.value == b"value %d" % (message.offset * 3 + message.partition), message
                    read[message.partition] += 1

    # Whoever polls while the group forms is held up until all have joined.
    other = threading.Thread(target=beside, daemon=True)
    other.start()
    try:
        shared(first, second)
    finally:
        leave.set()
    other.join()
    shared(first)
    first.seek_to_beginning()
    read = [0, 0, 0]
    read_to(first, read, 12)
    first.commit()
    first.close()
    heir = member()
    read_to(heir, read, 30)
    heir.commit()
    assert [heir.committed(each) for each in partitions(topic)] == [10, 10, 10]
    heir.close()
    assert topic in repr(admin.list_groups() if NEW else admin.list_consumer_groups())


check("a group shares, commits and resumes", a_group_shares_commits_and_resumes)


def refused():
    try:
        admin.create_topics([NewTopic(NONE, 3, 1)])
    except TopicAlreadyExistsError:
        pass
    else:
        raise AssertionError("created twice")
    for bad in [NewTopic("a/b", 1, 1), NewTopic("x", 0, 1), NewTopic("x", 1, 9), NewTopic("x", 1, 1, topic_configs={"no.such": "1"})]:
        try:
            admin.create_topics([bad])
        except KafkaError:
            continue
        raise AssertionError("created %s" % bad.name)


check("refusals", refused)


def values(topic, isolation):
    """Of partition 0, up to the end that this isolation level sees."""
    consumer = KafkaConsumer(bootstrap_servers=BOOTSTRAP, group_id=None, auto_offset_reset="earliest", isolation_level=isolation)
    first = partitions(topic)[0]
    consumer.assign([first])
    end, found = consumer.end_offsets([first])[first], []
    while consumer.position(first) < end:
        found += [message.value.decode() for message in consumer.poll(timeout_ms=500).get(first, [])]
    consumer.close()
    return found


def transactions():
    """What is committed is read, with its offsets, and what is aborted is not."""
    topic = PREFIX + "-transactions"
    create(topic)
    source = TopicPartition(NONE, 0)
    out = producer(transactional_id=topic)
    out.init_transactions()
    for i in range(6):
        out.begin_transaction()
        for future in [out.send(topic, b"r%d" % i, partition=partition) for partition in range(3)]:
            future.get(30)
        out.send_offsets_to_transaction({source: OffsetAndMetadata(i + 1, "m%d" % i, -1)}, topic)
        if i % 3 == 1:
            out.abort_transaction()
        else:
            out.commit_transaction()
    out.begin_transaction()
    out.send(topic, b"open", partition=0).get(30)
    assert values(topic, "read_committed") == ["r0", "r2", "r3", "r5"], values(topic, "read_committed")
    everything = ["r0", "r1", "r2", "r3", "r4", "r5", "open"]
    assert values(topic, "read_uncommitted") == everything, values(topic, "read_uncommitted")
    out.abort_transaction()
    out.close()
    committed = admin.list_group_offsets(topic)[topic][source]
    assert (committed.offset, committed.metadata) == (6, "m5"), committed


def a_second_producer_fences_the_first():
    topic = PREFIX + "-fenced"
    create(topic)
    first, second = producer(transactional_id=topic), producer(transactional_id=topic)
    first.init_transactions()
    first.begin_transaction()
    first.send(topic, b"a zombie's", partition=0).get(30)
    second.init_transactions()
    try:
        first.commit_transaction()
    except kafka.errors.ProducerFencedError:
        pass
    else:
        raise AssertionError("not fenced")
    second.begin_transaction()
    second.send(topic, b"the heir's", partition=0).get(30)
    second.commit_transaction()
    assert values(topic, "read_committed") == ["the heir's"], values(topic, "read_committed")


# 2.0 has no transactions.
for work in [transactions, a_second_producer_fences_the_first] if NEW else []:
    check(name_of(work), work)


def configs():
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, NONE, configs={"retention.ms": "9000000000000"})])
    described = lambda: repr(admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, NONE)]))
    until("the new value", lambda: "9000000000000" in described())
    everything = {"config_filter": "all"} if NEW else {}
    assert "num.partitions" in repr(admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, "1")], **everything))


check("configs", configs)
check("more partitions", lambda: admin.create_partitions({PREFIX + "-gzip": NewPartitions(5) if not NEW else 5}) and None)


def topics():
    described = admin.describe_topics([NONE])
    assert NONE in repr(described) and "partition" in repr(described), described
    assert len(admin.describe_cluster()["brokers"]) == 1


check("describe", topics)


def delete():
    admin.delete_topics([NONE, PREFIX + "-lz4"])
    until("gone", lambda: NONE not in admin.list_topics())


check("delete topics", delete)
done()
