// KafkaJS: producer, admin, consumers in a group, transactions, and what lies under them.
//
// Its consumer cannot be given partitions, it always joins a group. Where single partitions are read here, the broker
// connection below the consumer reads them: its requests, its decoders, its choice of versions.
'use strict'
const assert = require('node:assert/strict')
const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel, Partitioners } = require('kafkajs')
const Cluster = require('kafkajs/src/cluster')
const Batch = require('kafkajs/src/consumer/batch')
const socketFactory = require('kafkajs/src/network/socketFactory')
const { createLogger } = require('kafkajs/src/loggers')
const loggerOfConsole = require('kafkajs/src/loggers/console')
const lz4 = require('lz4-napi')
const snappy = require('snappyjs')
const { ZstdCodec } = require('zstd-codec')
const { bootstrap, prefix, records, full, check, until, restart, done } = require('./checks')

const EPOCH = 1_700_000_000_000 // the timestamp of record 0, in milliseconds
const NONE = `${prefix}-none`
const CODECS = { none: 'None', gzip: 'GZIP', snappy: 'Snappy', lz4: 'LZ4', zstd: 'ZSTD' }
const retry = { initialRetryTime: 50, retries: 6 }
const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING, retry })
const admin = kafka.admin()

// Snappy as Java's library frames it: a magic of 8 bytes, two versions, then blocks with their lengths.
function unsnappy(bytes) {
  if (!bytes.subarray(1, 7).equals(Buffer.from('SNAPPY'))) return Buffer.from(snappy.uncompress(bytes))
  const blocks = []
  for (let at = 16; at < bytes.length; ) {
    const length = bytes.readUInt32BE(at)
    blocks.push(Buffer.from(snappy.uncompress(bytes.subarray(at + 4, at + 4 + length))))
    at += 4 + length
  }
  return Buffer.concat(blocks)
}

const codec = (compress, decompress) => () => ({
  compress: async encoder => Buffer.from(await compress(encoder.buffer)),
  decompress: async bytes => Buffer.from(await decompress(bytes)),
})

function message(i) {
  return {
    key: `k${i}`,
    value: `value ${i}`,
    partition: i % 3,
    timestamp: String(EPOCH + i),
    // It has no null among header values.
    headers: { i: String(i), empty: '' },
  }
}

function right({ partition, offset, key, value, timestamp, headers }) {
  const i = Number(offset) * 3 + partition
  assert.equal(String(key), `k${i}`)
  assert.equal(String(value), `value ${i}`)
  assert.equal(timestamp, String(EPOCH + i))
  assert.equal(String(headers.i), String(i))
  assert.equal(String(headers.empty), '')
}

async function withProducer(work, options = {}) {
  const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner, ...options })
  await producer.connect()
  try {
    return await work(producer)
  } finally {
    await producer.disconnect()
  }
}

const send = (topic, messages, options = {}) => withProducer(producer => producer.send({ topic, messages, ...options }))

const produce = (topic, count, options) => send(topic, Array.from({ length: count }, (_, i) => message(i)), options)

async function withReader(work) {
  const logger = createLogger({ level: logLevel.NOTHING, logCreator: loggerOfConsole })
  const cluster = new Cluster({
    logger,
    socketFactory: socketFactory(),
    brokers: [bootstrap],
    clientId: 'klamm',
    connectionTimeout: 10_000,
    requestTimeout: 30_000,
    enforceRequestTimeout: true,
    metadataMaxAge: 300_000,
    allowAutoTopicCreation: false,
    retry,
  })
  await cluster.connect()
  try {
    return await work(cluster)
  } finally {
    await cluster.disconnect()
  }
}

// Records of one topic from these offsets on, as they come; `accept` answers whether it wants more.
async function read(cluster, topic, offsets, accept, limits = {}) {
  await cluster.addTargetTopic(topic)
  const due = new Map(Object.entries(offsets).map(([partition, offset]) => [Number(partition), offset]))
  for (;;) {
    const broker = await cluster.findBroker({ nodeId: '1' })
    const partitions = [...due].map(([partition, fetchOffset]) => ({
      partition,
      currentLeaderEpoch: -1,
      fetchOffset,
      maxBytes: limits.maxBytes ?? 1_048_576,
    }))
    const { responses } = await broker.fetch({
      isolationLevel: limits.isolationLevel ?? 0,
      maxWaitTime: 100,
      minBytes: 1,
      maxBytes: limits.maxBytes ?? 10_485_760,
      topics: [{ topic, partitions }],
    })
    for (const { partition, messages } of responses.flatMap(response => response.partitions)) {
      for (const message of messages) {
        // A batch comes whole, also when its middle was asked for.
        if (Number(message.offset) < due.get(partition)) continue
        assert.equal(Number(message.offset), due.get(partition))
        due.set(partition, due.get(partition) + 1)
        if (!accept({ partition, ...message })) return
      }
    }
  }
}

const consume = (topic, count, limits) =>
  withReader(cluster => {
    let seen = 0
    const accept = record => {
      right(record)
      return ++seen < count
    }
    return read(cluster, topic, { 0: 0, 1: 0, 2: 0 }, accept, limits)
  })

const ends = [0, 1, 2].map(partition => Math.floor((records + 2 - partition) / 3))

function create(topic, { partitions = 3, replicas = 1, configs = {} } = {}) {
  // The timestamps are years old.
  const configEntries = Object.entries({ 'retention.ms': '-1', ...configs }).map(([name, value]) => ({ name, value }))
  return admin.createTopics({ topics: [{ topic, numPartitions: partitions, replicationFactor: replicas, configEntries }] })
}

// The protocol's name of the error, also where KafkaJS wraps it.
async function fails(type, promise) {
  try {
    await promise
  } catch (error) {
    const inner = error.errors?.[0] ?? error.cause ?? error
    assert.equal(inner.type, type, `${inner.type ?? inner.message} where ${type} was due`)
    return
  }
  assert.fail(`no ${type}`)
}

async function outAndIn(name) {
  const topic = `${prefix}-${name}`
  await create(topic)
  const sent = await produce(topic, records, { compression: CompressionTypes[CODECS[name]] })
  assert.deepEqual(sent.map(answer => answer.baseOffset), ['0', '0', '0'])
  await consume(topic, records)
}

async function nulls() {
  const topic = `${prefix}-null`
  await create(topic)
  const want = [[null, 'v'], ['k', null], ['', ''], [null, null]]
  await send(topic, want.map(([key, value]) => ({ key, value, partition: 0 })))
  await withReader(cluster =>
    read(cluster, topic, { 0: 0 }, ({ offset, key, value }) => {
      assert.deepEqual([key && String(key), value && String(value)].map(text => text ?? null), want[offset])
      return Number(offset) < want.length - 1
    })
  )
}

async function large() {
  const topic = `${prefix}-large`
  await create(topic)
  const sized = size => ({ partition: 0, value: Buffer.alloc(size, 'x') })
  await fails('MESSAGE_TOO_LARGE', send(topic, [sized(2_000_000)]))
  const sizes = [...Array(40).fill(20_000), 900_000]
  await send(topic, sizes.slice(0, 40).map(sized))
  await send(topic, sizes.slice(40).map(sized))
  await withReader(cluster =>
    read(
      cluster,
      topic,
      { 0: 0 },
      ({ offset, value }) => {
        assert.equal(value.length, sizes[offset])
        return Number(offset) < sizes.length - 1
      },
      { maxBytes: 1000 }
    )
  )
}

async function acks() {
  const topic = `${prefix}-acks`
  await create(topic)
  for (const acks of [-1, 1, 0]) await produce(topic, 30, { acks })
  await until('30 records in each partition', async () =>
    (await admin.fetchTopicOffsets(topic)).every(({ low, high }) => low === '0' && high === '30')
  )
}

async function offsets() {
  const found = await admin.fetchTopicOffsets(NONE)
  const high = found.sort((a, b) => a.partition - b.partition).map(partition => Number(partition.high))
  assert.deepEqual(high, ends)
  const at = async time => {
    const partitions = await admin.fetchTopicOffsetsByTimestamp(NONE, time)
    return Number(partitions.find(({ partition }) => partition === 0).offset)
  }
  assert.equal(await at(EPOCH + 4), 2)
  assert.equal(await at(0), 0)
  // Past the last record KafkaJS answers the end.
  assert.equal(await at(EPOCH * 2), ends[0])
}

async function seek() {
  await withReader(async cluster => {
    for (const from of [0, 7, ends[0] - 1]) {
      await read(cluster, NONE, { 0: from }, record => {
        right(record)
        return false
      })
    }
    await fails('OFFSET_OUT_OF_RANGE', read(cluster, NONE, { 0: ends[0] + 1 }, () => false))
  })
}

async function absent() {
  await withReader(async cluster => {
    await fails('UNKNOWN_TOPIC_OR_PARTITION', read(cluster, NONE, { 9: 0 }, () => false))
  })
  // One that does not ask again.
  const hasty = kafka.admin({ retry: { retries: 0 } })
  await hasty.connect()
  await fails('UNKNOWN_TOPIC_OR_PARTITION', hasty.fetchTopicMetadata({ topics: [`${prefix}-nowhere`] }))
  await hasty.disconnect()
}

async function refusals() {
  // What exists already is no error to KafkaJS but the answer that nothing was made.
  assert.equal(await create(NONE), false)
  await fails('INVALID_TOPIC_EXCEPTION', create('a/b'))
  await fails('INVALID_PARTITIONS', create(`${prefix}-bad`, { partitions: 0 }))
  await fails('INVALID_REPLICATION_FACTOR', create(`${prefix}-bad`, { replicas: 9 }))
  await fails('INVALID_CONFIG', create(`${prefix}-bad`, { configs: { 'no.such': '1' } }))
  await fails('UNKNOWN_TOPIC_OR_PARTITION', admin.deleteTopics({ topics: [`${prefix}-nowhere`] }))
}

async function configs() {
  const topic = { type: ConfigResourceTypes.TOPIC, name: NONE }
  const configEntries = [{ name: 'retention.ms', value: '9000000000000' }]
  await admin.alterConfigs({ validateOnly: false, resources: [{ ...topic, configEntries }] })
  const entries = async resource =>
    (await admin.describeConfigs({ includeSynonyms: true, resources: [resource] })).resources[0].configEntries
  await until('the new value', async () =>
    (await entries(topic)).some(entry => entry.configName === 'retention.ms' && entry.configValue === '9000000000000')
  )
  const broker = await entries({ type: ConfigResourceTypes.BROKER, name: '1' })
  assert.ok(broker.length > 100, `${broker.length} configs of the broker`)
}

async function morePartitions() {
  const topic = `${prefix}-acks`
  await admin.createPartitions({ topicPartitions: [{ topic, count: 6 }] })
  await until('six', async () => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    return topics[0].partitions.length === 6
  })
}

async function deleteRecords() {
  // Leaders are looked up in the metadata of what was asked for last.
  await admin.fetchTopicOffsets(NONE)
  await admin.deleteTopicRecords({ topic: NONE, partitions: [{ partition: 0, offset: '5' }] })
  const found = await admin.fetchTopicOffsets(NONE)
  assert.equal(found.find(({ partition }) => partition === 0).low, '5')
}

// Members of a group share the partitions; what one commits is where the next begins.
async function group() {
  const topic = `${prefix}-group`
  await create(topic)
  await produce(topic, 30)
  const read = [0, 0, 0]
  const total = () => read.reduce((sum, count) => sum + count, 0)
  const failures = []

  // `limit` records are read, and none before `reading` is set.
  async function member(limit) {
    const consumer = kafka.consumer({ groupId: topic, heartbeatInterval: 200, sessionTimeout: 6000, maxWaitTimeInMs: 100 })
    const self = { held: [], reading: false, stop: () => consumer.disconnect() }
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => (self.held = payload.memberAssignment[topic] ?? []))
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      eachBatch: async ({ batch, resolveOffset }) => {
        for (const message of batch.messages) {
          if (!self.reading || total() === limit) return
          try {
            assert.equal(Number(message.offset), read[batch.partition])
            right({ partition: batch.partition, ...message })
          } catch (error) {
            failures.push(error)
          }
          read[batch.partition]++
          resolveOffset(message.offset)
        }
      },
    })
    self.commit = () =>
      consumer.commitOffsets(read.map((count, partition) => ({ topic, partition, offset: String(count) })))
    return self
  }

  const shared = (...members) =>
    until('each its own of three partitions', async () => {
      const held = members.map(({ held }) => held)
      return held.every(({ length }) => length > 0) && String(held.flat().sort()) === '0,1,2'
    })

  const first = await member(12)
  const second = await member(12)
  await shared(first, second)
  await second.stop()
  await shared(first)
  first.reading = true
  await until('12 records', async () => total() === 12)
  await first.commit()
  await first.stop()
  const heir = await member(30)
  heir.reading = true
  await until('30 records', async () => total() === 30)
  await heir.commit()
  await heir.stop()
  assert.deepEqual(failures, [])
  const [{ partitions }] = await admin.fetchOffsets({ groupId: topic, topics: [topic] })
  assert.deepEqual(partitions.map(({ offset }) => offset), ['10', '10', '10'])
  assert.ok((await admin.listGroups()).groups.some(({ groupId }) => groupId === topic))
  await admin.deleteGroups([topic])
}

// Of partition 0, up to the end that this isolation level sees.
const values = (topic, isolationLevel) =>
  withReader(async cluster => {
    await cluster.addTargetTopic(topic)
    const broker = await cluster.findBroker({ nodeId: '1' })
    const found = []
    for (let fetchOffset = 0; ; ) {
      const partitions = [{ partition: 0, currentLeaderEpoch: -1, fetchOffset, maxBytes: 1_048_576 }]
      const topics = [{ topic, partitions }]
      const { responses } = await broker.fetch({ isolationLevel, maxWaitTime: 100, minBytes: 1, maxBytes: 1_048_576, topics })
      const [{ messages, abortedTransactions, highWatermark, lastStableOffset }] = responses[0].partitions
      const end = Number(isolationLevel === 1 ? lastStableOffset : highWatermark)
      const batch = new Batch(topic, fetchOffset, { partition: 0, highWatermark, abortedTransactions, messages })
      found.push(...batch.messages.map(({ value }) => String(value)))
      fetchOffset = Number(batch.lastOffset()) + 1
      if (fetchOffset >= end) return found
    }
  })

const transactional = (transactionalId, work) => withProducer(work, { transactionalId, idempotent: true, maxInFlightRequests: 1 })

// What is committed is read, with its offsets, and what is aborted is not.
async function transactions() {
  const topic = `${prefix}-transactions`
  await create(topic)
  await transactional(topic, async producer => {
    for (let i = 0; i < 6; i++) {
      const transaction = await producer.transaction()
      await transaction.send({ topic, messages: [0, 1, 2].map(partition => ({ value: `r${i}`, partition })) })
      const partitions = [{ partition: 0, offset: String(i + 1) }]
      await transaction.sendOffsets({ consumerGroupId: topic, topics: [{ topic: NONE, partitions }] })
      await (i % 3 === 1 ? transaction.abort() : transaction.commit())
    }
    const last = await producer.transaction()
    await last.send({ topic, messages: [{ value: 'open', partition: 0 }] })
    assert.deepEqual(await values(topic, 1), ['r0', 'r2', 'r3', 'r5'])
    assert.deepEqual(await values(topic, 0), ['r0', 'r1', 'r2', 'r3', 'r4', 'r5', 'open'])
    await last.abort()
  })
  const [{ partitions }] = await admin.fetchOffsets({ groupId: topic, topics: [NONE] })
  assert.equal(partitions.find(({ partition }) => partition === 0).offset, '6')
}

async function fenced() {
  const topic = `${prefix}-fenced`
  await create(topic)
  await transactional(topic, first =>
    transactional(topic, async second => {
      const zombie = await first.transaction()
      await zombie.send({ topic, messages: [{ value: "a zombie's", partition: 0 }] })
      const heir = await second.transaction()
      await heir.send({ topic, messages: [{ value: "the heir's", partition: 0 }] })
      // Its versions of the requests know fencing by the older of two names.
      await fails('INVALID_PRODUCER_EPOCH', zombie.commit())
      await heir.commit()
    })
  )
  assert.deepEqual(await values(topic, 1), ["the heir's"])
}

// A producer and a reader that were there before the broker was away go on afterwards.
async function again(name) {
  const topic = `${prefix}-restart-${name}`
  await create(topic)
  const compression = CompressionTypes[CODECS[name]]
  await withProducer(producer =>
    withReader(async cluster => {
      for (const i of [0, 1]) {
        if (i === 1) await restart()
        await producer.send({ topic, compression, messages: [message(i * 3)] })
        const one = () =>
          read(cluster, topic, { 0: i }, record => {
            right(record)
            return false
          })
        // Which is the consumer's part in KafkaJS: a lost connection is made anew with the next request.
        await one().catch(async () => {
          await cluster.refreshMetadata()
          await one()
        })
      }
    })
  )
}

async function deleteTopics() {
  await admin.deleteTopics({ topics: [NONE] })
  await until('gone', async () => !(await admin.listTopics()).includes(NONE))
}

async function main() {
  const zstd = await new Promise(resolve => ZstdCodec.run(made => resolve(new made.Simple())))
  CompressionCodecs[CompressionTypes.Snappy] = codec(snappy.compress, unsnappy)
  CompressionCodecs[CompressionTypes.LZ4] = codec(lz4.compressFrame, lz4.decompressFrame)
  CompressionCodecs[CompressionTypes.ZSTD] = codec(bytes => zstd.compress(bytes), bytes => zstd.decompress(bytes))
  await admin.connect()

  await check('cluster', async () => {
    const { brokers, controller } = await admin.describeCluster()
    assert.deepEqual([brokers.length, controller], [1, 1])
  })
  for (const name of Object.keys(CODECS)) await check(`${name} out and in`, () => outAndIn(name))
  await check('read committed', () => consume(NONE, records, { isolationLevel: 1 }))
  await check('small fetches', () => consume(NONE, Math.min(records, 300), { maxBytes: 100 }))
  await check('null and empty', nulls)
  await check('large', large)
  await check('acks 0, 1 and all', acks)
  await check('offsets by time', offsets)
  await check('seek', seek)
  await check('what is not there', absent)
  await check('a group shares, commits and resumes', group)
  await check('transactions', transactions)
  await check('a second producer fences the first', fenced)
  await check('refusals', refusals)
  await check('configs', configs)
  await check('more partitions', morePartitions)
  await check('delete records', deleteRecords)
  for (const name of full ? Object.keys(CODECS) : ['none']) await check(`a restart, ${name}`, () => again(name))
  await check('delete topics', deleteTopics)
  done()
}

main()
