// kafkajs as a group member or a producer.
import zlib from 'node:zlib'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import kafkajs from 'kafkajs'
import snappy from 'kafkajs-snappy'
import lz4 from 'lz4-napi'
import * as lines from './lines.mjs'

const { CompressionCodecs, CompressionTypes, Kafka, PartitionAssigners, logLevel } = kafkajs
const { options } = lines

CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: (encoder) => lz4.compressFrame(encoder.buffer),
  decompress: (buffer) => lz4.decompressFrame(buffer)
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: (encoder) => promisify(zlib.zstdCompress)(encoder.buffer),
  decompress: (buffer) => promisify(zlib.zstdDecompress)(buffer)
})
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD
}

function security ({ mechanism, username, secret, cafile, certificate }) {
  if (cafile === undefined) return {}
  const ca = [readFileSync(cafile)]
  if (certificate !== undefined) {
    const both = readFileSync(certificate)
    return { ssl: { ca, key: both, cert: both } }
  }
  const login = mechanism === 'OAUTHBEARER'
    ? { oauthBearerProvider: async () => ({ value: secret }) }
    : { username, password: secret }
  return { ssl: { ca }, sasl: { mechanism: mechanism.toLowerCase(), ...login } }
}

const kafka = new Kafka({
  ...security(options),
  brokers: [options.bootstrap],
  clientId: options.client ?? 'producer',
  logLevel: logLevel.ERROR,
  retry: { initialRetryTime: 100, maxRetryTime: 500, retries: 100 }
})

function tellOwned (consumer) {
  const { GROUP_JOIN, REBALANCING, CRASH } = consumer.events
  consumer.on(GROUP_JOIN, ({ payload }) => {
    lines.owns(Object.entries(payload.memberAssignment).flatMap(
      ([topic, partitions]) => partitions.map((partition) => lines.name(topic, partition))))
  })
  consumer.on(REBALANCING, () => lines.owns([]))
  consumer.on(CRASH, ({ payload }) => {
    lines.owns([])
    lines.failed('crash', payload.error)
  })
}

async function consume () {
  const consumer = kafka.consumer({
    groupId: options.group,
    partitionAssigners: [PartitionAssigners.roundRobin],
    sessionTimeout: Number(options.session),
    heartbeatInterval: Number(options.heartbeat),
    maxWaitTimeInMs: 200
  })
  tellOwned(consumer)
  await consumer.connect()
  await consumer.subscribe({ topics: options.topics.split(','), fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachBatchAutoResolve: false,
    eachBatch: async ({ batch, resolveOffset, isStale, isRunning }) => {
      if (!isRunning() || isStale() || batch.messages.length === 0) return
      const { topic, partition, messages } = batch
      const at = lines.name(topic, partition)
      lines.records(at, messages.map(({ offset }) => Number(offset)), messages.map(({ value }) => value.toString()))
      resolveOffset(batch.lastOffset())
      const next = Number(batch.lastOffset()) + 1
      try {
        await consumer.commitOffsets([{ topic, partition, offset: String(next) }])
      } catch (error) {
        lines.failed('commit', error.message)
        throw error
      }
      lines.committed({ [at]: next })
    }
  })
  await lines.wish
  await consumer.disconnect()
  lines.left()
}

async function produce () {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  await lines.feed((messages) => Promise.all([...lines.topicOfCodec()].map(
    ([codec, topic]) => producer.send({ topic, messages, acks: -1, compression: CODECS[codec] }))))
  await producer.disconnect()
}

await (lines.mode === 'produce' ? produce() : consume())
process.exit(0)
