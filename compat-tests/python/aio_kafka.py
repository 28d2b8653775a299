"""aiokafka: producer, consumers with partitions of their own and in groups, transactions, admin."""
import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError, ProducerFenced, UnknownTopicOrPartitionError
from aiokafka.structs import OffsetAndMetadata

import checks
from checks import BOOTSTRAP, CODECS, EPOCH, FULL, PREFIX, RECORDS, done, ends, name_of

NONE = PREFIX + "-none"
# Of a refused topic, by the protocol.
TOPIC_ALREADY_EXISTS, INVALID_TOPIC, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_CONFIG = 36, 17, 37, 38, 40
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)


def check(name, work):
    checks.check(name, lambda: loop.run_until_complete(asyncio.wait_for(work(), 60)))


async def until(what, holds):
    end = loop.time() + 20
    while not await holds():
        assert loop.time() < end, "never: " + what
        await asyncio.sleep(0.02)


async def fails(kind, work):
    try:
        await work
    except kind:
        return
    raise AssertionError("no " + kind.__name__)


def producer(**settings):
    return AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, linger_ms=10, **settings)


def consumer(**settings):
    return AIOKafkaConsumer(bootstrap_servers=BOOTSTRAP, fetch_max_wait_ms=100, **settings)


def partitions(topic):
    return [TopicPartition(topic, i) for i in range(3)]


def send(out, topic, i):
    headers = [("i", b"%d" % i), ("null", None)]
    return out.send(topic, b"value %d" % i, key=b"k%d" % i, headers=headers, partition=i % 3, timestamp_ms=EPOCH + i)


def right(message):
    i = message.offset * 3 + message.partition
    assert (message.key, message.value, message.timestamp) == (b"k%d" % i, b"value %d" % i, EPOCH + i), message
    assert message.headers == (("i", b"%d" % i), ("null", None)), message


async def produce(topic, count, **settings):
    async with producer(**settings) as out:
        sent = await asyncio.gather(*[await send(out, topic, i) for i in range(count)])
    return [metadata.offset for metadata in sent] if settings.get("acks", 1) != 0 else []


async def read(topic, count, begin=None, each=right, **settings):
    """The first COUNT records of the topic, from the beginnings or from an offset in partition 0."""
    async with consumer(auto_offset_reset="none", **settings) as source:
        source.assign(partitions(topic) if begin is None else partitions(topic)[:1])
        due = {}
        if begin is None:
            await source.seek_to_beginning()
        else:
            source.seek(partitions(topic)[0], begin)
            due[0] = begin
        while count:
            message = await asyncio.wait_for(source.getone(), 20)
            assert message.offset == due.get(message.partition, 0), message
            due[message.partition] = message.offset + 1
            each(message)
            count -= 1


async def create(topic, count=3, replication=1, **configs):
    # The timestamps are years old.
    configs = {"retention.ms": "-1", **configs}
    answer = await admin.create_topics([NewTopic(topic, count, replication, topic_configs=configs)])
    return answer.topic_errors[0][1]


async def made(topic):
    error = await create(topic)
    assert error == 0, error


async def codec(name):
    topic = "%s-%s" % (PREFIX, name)
    await made(topic)
    offsets = await produce(topic, RECORDS, compression_type=None if name == "none" else name)
    assert offsets == [i // 3 for i in range(RECORDS)]
    await read(topic, RECORDS)


async def null_and_empty():
    topic = PREFIX + "-null"
    await made(topic)
    want = [(None, b"v"), (b"k", None), (b"", b""), (b"k", b"")]
    async with producer() as out:
        for key, value in want:
            await out.send_and_wait(topic, value, key=key, partition=0)

    def each(message):
        assert (message.key, message.value) == want[message.offset], message

    await read(topic, len(want), begin=0, each=each)


async def large():
    topic = PREFIX + "-large"
    await made(topic)
    async with producer(max_request_size=8_000_000) as out:
        await fails(MessageSizeTooLargeError, out.send_and_wait(topic, b"x" * 2_000_000, partition=0))
    async with producer(max_batch_size=1_000_000) as out:
        sizes = [100_000] * 40 + [900_000]
        await asyncio.gather(*[await out.send(topic, b"x" * size, partition=0) for size in sizes])

    def each(message):
        assert len(message.value) == sizes[message.offset], message.offset

    await read(topic, len(sizes), begin=0, each=each, max_partition_fetch_bytes=1000)


async def acks_0_1_and_all():
    topic = PREFIX + "-acks"
    await made(topic)
    for acks in ["all", 1, 0]:
        await produce(topic, 30, acks=acks)
    async with consumer() as source:
        async def there():
            return list((await source.end_offsets(partitions(topic))).values()) == [30, 30, 30]

        await until("30 records in each partition", there)


async def offsets_by_time():
    first, second, third = partitions(NONE)
    async with consumer() as source:
        assert list((await source.end_offsets(partitions(NONE))).values()) == ends()
        assert list((await source.beginning_offsets(partitions(NONE))).values()) == [0, 0, 0]
        found = await source.offsets_for_times({first: EPOCH + 4, second: 0, third: EPOCH * 2})
        assert (found[first].offset, found[first].timestamp) == (2, EPOCH + 6), found
        assert found[second].offset == 0 and found[third] is None, found


async def seek():
    first, end = partitions(NONE)[0], ends()[0]
    for begin in [0, 7, end - 1]:
        await read(NONE, 1, begin=begin)
    async with consumer() as source:
        source.assign([first])
        await source.seek_to_end(first)
        assert await source.position(first) == end
    await fails(OffsetOutOfRangeError, read(NONE, 1, begin=end + 1))


async def what_is_not_there():
    async with producer() as out:
        await fails(AssertionError, out.send(NONE, b"x", partition=9))
    # A name that could be a topic's would become one.
    described = (await admin.describe_topics(["a/b"]))[0]
    assert described["error_code"] == INVALID_TOPIC, described


async def refusals():
    assert await create(NONE) == TOPIC_ALREADY_EXISTS
    assert await create("a/b") == INVALID_TOPIC
    assert await create(PREFIX + "-bad", count=0) == INVALID_PARTITIONS
    assert await create(PREFIX + "-bad", replication=9) == INVALID_REPLICATION_FACTOR
    assert await create(PREFIX + "-bad", **{"no.such": "1"}) == INVALID_CONFIG
    answer = await admin.delete_topics([PREFIX + "-nowhere"])
    assert answer.topic_error_codes[0][1] == UnknownTopicOrPartitionError.errno, answer


async def configs():
    await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, NONE, configs={"retention.ms": "9000000000000"})])

    async def there():
        return "9000000000000" in repr(await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, NONE)]))

    await until("the new value", there)
    broker = await admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, "1")])
    assert len(broker[0].resources[0][4]) > 100


async def more_partitions():
    topic = PREFIX + "-acks"
    await admin.create_partitions({topic: NewPartitions(6)})

    async def there():
        return len((await admin.describe_topics([topic]))[0]["partitions"]) == 6

    await until("six", there)


async def cluster():
    described = await admin.describe_cluster()
    assert len(described["brokers"]) == 1 and described["controller_id"] == 1, described


async def delete_records():
    first = partitions(NONE)[0]
    assert await admin.delete_records({first: RecordsToDelete(before_offset=5)}) == {first: 5}
    async with consumer() as source:
        assert (await source.beginning_offsets([first]))[first] == 5


async def a_group_shares_commits_and_resumes():
    topic = PREFIX + "-group"
    await made(topic)
    await produce(topic, 30)

    def member():
        settings = dict(auto_offset_reset="earliest", enable_auto_commit=False, heartbeat_interval_ms=200)
        return consumer(group_id=topic, **settings)

    def shared(*members):
        async def holds():
            held = [each.assignment() for each in members]
            return all(held) and sorted(p for each in held for p in each) == partitions(topic)

        return until("each its own of three partitions", holds)

    async with member() as first:
        first.subscribe([topic])
        async with member() as second:
            second.subscribe([topic])
            await shared(first, second)
        await shared(first)
        for _ in range(12):
            right(await asyncio.wait_for(first.getone(), 20))
        await first.commit()
        due = {each: await first.position(each) for each in partitions(topic)}
    assert sum(due.values()) == 12, due
    async with member() as heir:
        heir.subscribe([topic])
        for _ in range(18):
            message = await asyncio.wait_for(heir.getone(), 20)
            where = TopicPartition(message.topic, message.partition)
            assert message.offset == due[where], message
            due[where] += 1
            right(message)
        await heir.commit()
    committed = await admin.list_consumer_group_offsets(topic)
    assert [committed[each].offset for each in partitions(topic)] == [10, 10, 10], committed
    assert topic in [name for name, _ in await admin.list_consumer_groups()]
    state = (await admin.describe_consumer_groups([topic]))[0].groups[0][2]
    assert state == "Empty", state


async def values(topic, isolation):
    """Of partition 0, up to the end that this isolation level sees."""
    async with consumer(auto_offset_reset="earliest", isolation_level=isolation) as source:
        first = partitions(topic)[0]
        source.assign([first])
        end, found = (await source.end_offsets([first]))[first], []
        while await source.position(first) < end:
            fetched = await source.getmany(first, timeout_ms=500)
            found += [message.value.decode() for message in fetched.get(first, [])]
        return found


async def transactions():
    """What is committed is read, with its offsets, and what is aborted is not."""
    topic = PREFIX + "-transactions"
    await made(topic)
    source = TopicPartition(NONE, 0)
    async with producer(transactional_id=topic) as out:
        for i in range(6):
            await out.begin_transaction()
            await asyncio.gather(*[await out.send(topic, b"r%d" % i, partition=partition) for partition in range(3)])
            await out.send_offsets_to_transaction({source: OffsetAndMetadata(i + 1, "m%d" % i)}, topic)
            await (out.abort_transaction() if i % 3 == 1 else out.commit_transaction())
        await out.begin_transaction()
        await out.send_and_wait(topic, b"open", partition=0)
        assert await values(topic, "read_committed") == ["r0", "r2", "r3", "r5"]
        assert await values(topic, "read_uncommitted") == ["r0", "r1", "r2", "r3", "r4", "r5", "open"]
        await out.abort_transaction()
    committed = (await admin.list_consumer_group_offsets(topic))[source]
    assert (committed.offset, committed.metadata) == (6, "m5"), committed


async def a_second_producer_fences_the_first():
    topic = PREFIX + "-fenced"
    await made(topic)
    first = producer(transactional_id=topic)
    await first.start()
    await first.begin_transaction()
    await first.send_and_wait(topic, b"a zombie's", partition=0)
    async with producer(transactional_id=topic) as second:
        await fails(ProducerFenced, first.commit_transaction())
        await second.begin_transaction()
        await second.send_and_wait(topic, b"the heir's", partition=0)
        await second.commit_transaction()
    assert await values(topic, "read_committed") == ["the heir's"]
    # It says again that it was fenced.
    await asyncio.gather(first.stop(), return_exceptions=True)


async def restart(name):
    """A producer and a consumer that were there before the broker was away go on afterwards."""
    topic = "%s-restart-%s" % (PREFIX, name)
    await made(topic)
    async with producer(compression_type=None if name == "none" else name) as out, consumer() as source:
        source.assign(partitions(topic)[:1])
        source.seek(partitions(topic)[0], 0)
        for i in range(2):
            if i == 1:
                await loop.run_in_executor(None, checks.restart)
            await (await send(out, topic, i * 3))
            message = await asyncio.wait_for(source.getone(), 20)
            assert message.offset == i, message
            right(message)


async def delete_topics():
    answer = await admin.delete_topics([NONE])
    assert answer.topic_error_codes[0][1] == 0, answer

    async def gone():
        return NONE not in await admin.list_topics()

    await until("gone", gone)


async def connected():
    admin = AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    await admin.start()
    return admin


admin = loop.run_until_complete(connected())
check("cluster", cluster)
for name in CODECS:
    check(name + " out and in", lambda: codec(name))
check("read committed", lambda: read(NONE, RECORDS, isolation_level="read_committed"))
check("small fetches", lambda: read(NONE, min(RECORDS, 300), max_partition_fetch_bytes=100, fetch_max_bytes=100))
for work in [null_and_empty, large, acks_0_1_and_all, offsets_by_time, seek, what_is_not_there]:
    check(name_of(work), work)
check("a group shares, commits and resumes", a_group_shares_commits_and_resumes)
for work in [transactions, a_second_producer_fences_the_first]:
    check(name_of(work), work)
for work in [refusals, configs, more_partitions, delete_records]:
    check(name_of(work), work)
for name in CODECS if FULL else CODECS[:1]:
    check("a restart, " + name, lambda: restart(name))
check("delete topics", delete_topics)
done()
