"""confluent-kafka: producer, consumers with partitions of their own and in groups, transactions, admin."""
import time

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic

from checks import BOOTSTRAP, CODECS, EPOCH, FULL, PREFIX, RECORDS, check, done, ends, name_of, restart, until

NONE = PREFIX + "-none"
COMMON = {"bootstrap.servers": BOOTSTRAP, "broker.address.family": "v4", "log_level": 0}
admin = AdminClient(COMMON)


def code(error):
    """Of an error or of the exception around it."""
    return (error.args[0] if isinstance(error, KafkaException) else error).code()


def fails(want, future):
    try:
        future.result(20)
    except KafkaException as error:
        assert code(error) == want, error
        return
    raise AssertionError("not refused")


def producer(**settings):
    return Producer({**COMMON, "linger.ms": 10, **{key.replace("_", "."): value for key, value in settings.items()}})


def sent(out, *messages):
    """Sends and waits. Answers what was delivered, and fails with the first error."""
    reports = []
    for message in messages:
        while True:
            try:
                out.produce(**message, on_delivery=lambda error, delivered: reports.append((error, delivered)))
                break
            except BufferError:
                out.poll(0.1)
        out.poll(0)
    assert out.flush(30) == 0
    for error, _ in reports:
        if error:
            raise KafkaException(error)
    return [delivered for _, delivered in reports]


def record(topic, i):
    headers = [("i", b"%d" % i), ("null", None)]
    return dict(topic=topic, value=b"value %d" % i, key=b"k%d" % i, headers=headers, partition=i % 3, timestamp=EPOCH + i)


def right(message):
    i = message.offset() * 3 + message.partition()
    assert (message.key(), message.value()) == (b"k%d" % i, b"value %d" % i), (message.offset(), message.value())
    assert message.timestamp()[1] == EPOCH + i, message.timestamp()
    assert message.headers() == [("i", b"%d" % i), ("null", None)], message.headers()


def consumer(**settings):
    # A group id must be set. Unless it is another, it is never used: partitions are assigned, nothing is committed.
    common = {**COMMON, "group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error", "fetch.wait.max.ms": 100}
    return Consumer({**common, **{key.replace("_", "."): value for key, value in settings.items()}})


def next_of(source):
    end = time.time() + 20
    while time.time() < end:
        message = source.poll(0.5)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        return message
    raise AssertionError("no record came")


def read(topic, count, begin=None, each=right, **settings):
    """The first COUNT records of the topic, from the beginnings or from an offset in partition 0."""
    source = consumer(**settings)
    try:
        where = [TopicPartition(topic, 0, begin)] if begin is not None else [TopicPartition(topic, i, OFFSET_BEGINNING) for i in range(3)]
        source.assign(where)
        due = {0: max(begin or 0, 0)}
        for _ in range(count):
            message = next_of(source)
            assert message.offset() == due.get(message.partition(), 0), message.offset()
            due[message.partition()] = message.offset() + 1
            each(message)
    finally:
        source.close()


def create(topic, count=3, replication=1, **configs):
    # The timestamps are years old.
    configs = {"retention.ms": "-1", **{key.replace("_", "."): value for key, value in configs.items()}}
    return admin.create_topics([NewTopic(topic, count, replication, config=configs)])[topic]


def cluster():
    metadata = admin.list_topics(timeout=20)
    assert list(metadata.brokers) == [1] and metadata.controller_id == 1, metadata.brokers


def codec(name):
    topic = "%s-%s" % (PREFIX, name)
    create(topic).result(20)
    delivered = sent(producer(compression_type=name), *[record(topic, i) for i in range(RECORDS)])
    assert sorted((m.partition(), m.offset()) for m in delivered) == sorted((i % 3, i // 3) for i in range(RECORDS))
    read(topic, RECORDS)


def null_and_empty():
    topic = PREFIX + "-null"
    create(topic).result(20)
    want = [(None, b"v"), (b"k", None), (b"", b""), (None, None)]
    for key, value in want:
        sent(producer(), dict(topic=topic, key=key, value=value, partition=0))

    def each(message):
        assert (message.key(), message.value()) == want[message.offset()], message

    read(topic, len(want), begin=0, each=each)


def large():
    topic = PREFIX + "-large"
    create(topic).result(20)
    try:
        sent(producer(message_max_bytes=8_000_000), dict(topic=topic, value=b"x" * 2_000_000, partition=0))
    except KafkaException as error:
        assert code(error) == KafkaError.MSG_SIZE_TOO_LARGE, error
    else:
        raise AssertionError("2 MB were taken")
    sizes = [100_000] * 40 + [900_000]
    sent(producer(), *[dict(topic=topic, value=b"x" * size, partition=0) for size in sizes])

    def each(message):
        assert len(message.value()) == sizes[message.offset()], message.offset()

    read(topic, len(sizes), begin=0, each=each, fetch_message_max_bytes=1000, fetch_max_bytes=1_000_000)


def acks_0_1_and_all():
    topic = PREFIX + "-acks"
    create(topic).result(20)
    for acks in ["all", "1", "0"]:
        sent(producer(acks=acks), *[record(topic, i) for i in range(30)])
    source = consumer()
    for partition in range(3):
        where = TopicPartition(topic, partition)
        until("30 records", lambda: source.get_watermark_offsets(where, 20) == (0, 30))
    source.close()


def offsets_by_time():
    source = consumer()
    for partition, end in enumerate(ends()):
        assert source.get_watermark_offsets(TopicPartition(NONE, partition), 20) == (0, end)
    times = [EPOCH + 4, 0, EPOCH * 2]
    found = source.offsets_for_times([TopicPartition(NONE, i, at) for i, at in enumerate(times)], 20)
    assert [each.offset for each in found] == [2, 0, OFFSET_END], found
    source.close()


def seek():
    end = ends()[0]
    for begin in [0, 7, end - 1]:
        read(NONE, 1, begin=begin)
    source = consumer()
    source.assign([TopicPartition(NONE, 0, 3)])
    assert next_of(source).offset() == 3
    source.seek(TopicPartition(NONE, 0, 9))
    assert next_of(source).offset() == 9
    source.close()
    try:
        read(NONE, 1, begin=end + 1)
    except KafkaException as error:
        # The reset policy is to say so.
        assert code(error) == KafkaError._AUTO_OFFSET_RESET, error
    else:
        raise AssertionError("read past the end")


def what_is_not_there():
    try:
        sent(producer(), dict(topic=NONE, value=b"x", partition=9))
    except KafkaException as error:
        assert code(error) == KafkaError._UNKNOWN_PARTITION, error
    else:
        raise AssertionError("partition 9 took a record")
    source = consumer()
    try:
        source.get_watermark_offsets(TopicPartition(PREFIX + "-nowhere", 0), 20)
    except KafkaException as error:
        assert code(error) in (KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART), error
    else:
        raise AssertionError("nowhere has offsets")
    source.close()


def refusals():
    fails(KafkaError.TOPIC_ALREADY_EXISTS, create(NONE))
    fails(KafkaError.TOPIC_EXCEPTION, create("a/b"))
    fails(KafkaError.INVALID_REPLICATION_FACTOR, create(PREFIX + "-bad", replication=9))
    fails(KafkaError.INVALID_CONFIG, create(PREFIX + "-bad", no_such="1"))
    nowhere = PREFIX + "-nowhere"
    fails(KafkaError.UNKNOWN_TOPIC_OR_PART, admin.delete_topics([nowhere])[nowhere])


def configs():
    resource = ConfigResource(ConfigResource.Type.TOPIC, NONE)
    entry = ConfigEntry("retention.ms", "9000000000000", incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ConfigResource.Type.TOPIC, NONE, incremental_configs=[entry])
    admin.incremental_alter_configs([changed])[changed].result(20)
    until("the new value", lambda: admin.describe_configs([resource])[resource].result(20)["retention.ms"].value == "9000000000000")
    broker = ConfigResource(ConfigResource.Type.BROKER, "1")
    assert len(admin.describe_configs([broker])[broker].result(20)) > 100


def more_partitions():
    topic = PREFIX + "-acks"
    admin.create_partitions([NewPartitions(topic, 6)])[topic].result(20)
    until("six", lambda: len(admin.list_topics(topic, timeout=20).topics[topic].partitions) == 6)


def delete_records():
    source = consumer()
    where = TopicPartition(NONE, 0, 5)
    if hasattr(admin, "delete_records"):
        assert admin.delete_records([where])[where].result(20).low_watermark == 5
        assert source.get_watermark_offsets(where, 20)[0] == 5
    source.close()


def a_group_shares_commits_and_resumes():
    topic = PREFIX + "-group"
    create(topic).result(20)
    sent(producer(), *[record(topic, i) for i in range(30)])

    def member():
        source = consumer(group_id=topic, auto_offset_reset="earliest", heartbeat_interval_ms="200", session_timeout_ms="6000")
        source.subscribe([topic])
        return source

    def shared(*members):
        def holds():
            # A poll takes part in what the group does; what is read by it is read again after the seek below.
            for each in members:
                each.poll(0.05)
            held = [each.assignment() for each in members]
            return all(held) and sorted(p.partition for each in held for p in each) == [0, 1, 2]

        until("each its own of three partitions", holds)

    first, second = member(), member()
    shared(first, second)
    second.close()
    shared(first)
    for partition in range(3):
        first.seek(TopicPartition(topic, partition, 0))
    read = [0, 0, 0]
    while sum(read) < 12:
        message = next_of(first)
        right(message)
        assert message.offset() == read[message.partition()], message.offset()
        read[message.partition()] += 1
    first.commit(offsets=[TopicPartition(topic, i, end) for i, end in enumerate(read)], asynchronous=False)
    first.close()
    heir = member()
    while sum(read) < 30:
        message = next_of(heir)
        right(message)
        assert message.offset() == read[message.partition()], message.offset()
        read[message.partition()] += 1
    heir.commit(asynchronous=False)
    committed = heir.committed([TopicPartition(topic, i) for i in range(3)], 20)
    assert [each.offset for each in committed] == [10, 10, 10], committed
    heir.close()
    assert topic in [group.id for group in admin.list_groups(timeout=20)]
    admin.delete_consumer_groups([topic])[topic].result(20)


def idempotent_with_five_in_flight():
    """Of another broker it was reported that an idempotent producer's second batch came out of order."""
    topic = PREFIX + "-idempotent"
    create(topic).result(20)
    out = producer(enable_idempotence=True, max_in_flight=5, batch_num_messages=3, linger_ms=0)
    at_once = sent(out, *[record(topic, i) for i in range(RECORDS)])
    one_by_one = [sent(out, record(topic, i))[0] for i in range(RECORDS, RECORDS + 30)]
    offsets = sorted((m.partition(), m.offset()) for m in at_once + one_by_one)
    assert offsets == sorted((i % 3, i // 3) for i in range(RECORDS + 30)), offsets
    read(topic, RECORDS + 30)


def values(topic, isolation):
    """Of partition 0, up to the end that this isolation level sees."""
    source = consumer(isolation_level=isolation, enable_partition_eof=True)
    source.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found, end = [], time.time() + 20
    try:
        while time.time() < end:
            message = source.poll(0.5)
            if message is None:
                continue
            if message.error():
                assert code(message.error()) == KafkaError._PARTITION_EOF, message.error()
                return found
            found.append(message.value().decode())
    finally:
        source.close()
    raise AssertionError("no end after %s" % found)


def transactions():
    """What is committed is read, with its offsets, and what is aborted is not."""
    topic = PREFIX + "-transactions"
    create(topic).result(20)
    source = consumer(group_id=topic)
    out = producer(transactional_id=topic)
    out.init_transactions(30)
    for i in range(6):
        out.begin_transaction()
        sent(out, *[dict(topic=topic, value=b"r%d" % i, partition=partition) for partition in range(3)])
        offsets = [TopicPartition(NONE, 0, i + 1, metadata="m%d" % i)]
        out.send_offsets_to_transaction(offsets, source.consumer_group_metadata(), 30)
        if i % 3 == 1:
            out.abort_transaction(30)
        else:
            out.commit_transaction(30)
    out.begin_transaction()
    sent(out, dict(topic=topic, value=b"open", partition=0))
    assert values(topic, "read_committed") == ["r0", "r2", "r3", "r5"], values(topic, "read_committed")
    everything = ["r0", "r1", "r2", "r3", "r4", "r5", "open"]
    assert values(topic, "read_uncommitted") == everything, values(topic, "read_uncommitted")
    out.abort_transaction(30)
    committed = source.committed([TopicPartition(NONE, 0)], 20)[0]
    assert (committed.offset, committed.metadata) == (6, "m5"), committed
    source.close()


def a_second_producer_fences_the_first():
    topic = PREFIX + "-fenced"
    create(topic).result(20)
    first, second = producer(transactional_id=topic), producer(transactional_id=topic)
    first.init_transactions(30)
    first.begin_transaction()
    sent(first, dict(topic=topic, value=b"a zombie's", partition=0))
    second.init_transactions(30)
    try:
        first.commit_transaction(30)
    except KafkaException as error:
        assert error.args[0].fatal() and code(error) == KafkaError._FENCED, error
    else:
        raise AssertionError("not fenced")
    second.begin_transaction()
    sent(second, dict(topic=topic, value=b"the heir's", partition=0))
    second.commit_transaction(30)
    assert values(topic, "read_committed") == ["the heir's"], values(topic, "read_committed")


def again(name):
    """A producer and a consumer that were there before the broker was away go on afterwards."""
    topic = "%s-restart-%s" % (PREFIX, name)
    create(topic).result(20)
    out, source = producer(compression_type=name), consumer()
    source.assign([TopicPartition(topic, 0, 0)])
    for i in range(2):
        if i == 1:
            restart()
        sent(out, record(topic, i * 3))
        message = next_of(source)
        assert message.offset() == i, message.offset()
        right(message)
    source.close()


def delete_topics():
    admin.delete_topics([NONE])[NONE].result(20)
    until("gone", lambda: NONE not in admin.list_topics(timeout=20).topics)


check("cluster", cluster)
for name in CODECS:
    check(name + " out and in", lambda: codec(name))
check("read committed", lambda: read(NONE, RECORDS, isolation_level="read_committed"))
check("small fetches", lambda: read(NONE, min(RECORDS, 300), fetch_message_max_bytes=100))
for work in [null_and_empty, large, acks_0_1_and_all, idempotent_with_five_in_flight, offsets_by_time, seek, what_is_not_there]:
    check(name_of(work), work)
check("a group shares, commits and resumes", a_group_shares_commits_and_resumes)
for work in [transactions, a_second_producer_fences_the_first]:
    check(name_of(work), work)
for work in [refusals, configs, more_partitions, delete_records]:
    check(name_of(work), work)
for name in CODECS if FULL else CODECS[:1]:
    check("a restart, " + name, lambda: again(name))
check("delete topics", delete_topics)
done()
