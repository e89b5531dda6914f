// @platformatic/kafka as a group member or a producer.
import { Consumer, MessagesStreamFallbackModes, MessagesStreamModes, ProduceAcks, Producer, stringDeserializers, stringSerializers } from '@platformatic/kafka'
import * as lines from './lines.mjs'

const { options } = lines
const base = {
  clientId: options.client ?? 'producer',
  bootstrapBrokers: [options.bootstrap],
  retries: 100,
  retryDelay: 200,
  connectTimeout: 1000
}

/**
 * Partitions that this member owns, with the next offset to process.
 *
 * In a rebalance the stream continues with fetched records, and then starts again from the committed
 * offsets, if any. Records during a rebalance therefore wait for its end. Only the next offset of a
 * partition owned by then is processed.
 */
class Holds {
  #next = new Map()
  #round = 0
  #gained = Promise.withResolvers()
  #rebalancing = true
  #seen = '[]'

  lose () {
    this.#round++
    this.#next.clear()
    if (!this.#rebalancing) this.#gained = Promise.withResolvers()
    this.#rebalancing = true
    lines.owns([])
  }

  /** Partitions that it owned already keep their next offset. */
  async gain (consumer, assignments) {
    const round = ++this.#round
    const topics = assignments.filter(({ partitions }) => partitions.length > 0)
    const offsets = topics.length > 0 ? await consumer.listCommittedOffsets({ topics }) : new Map()
    if (round !== this.#round) return
    const before = this.#next
    this.#next = new Map()
    for (const { topic, partitions } of topics) {
      for (const partition of partitions) {
        const at = lines.name(topic, partition)
        const offset = Number(offsets.get(topic)?.[partition] ?? -1)
        this.#next.set(at, before.get(at) ?? Math.max(offset, 0))
      }
    }
    lines.owns(this.#next.keys())
    this.#rebalancing = false
    this.#gained.resolve()
  }

  /**
   * In the consumer protocol partitions come without an event. The heartbeat that acknowledges them
   * is sent once `assignments` has them.
   */
  follow (consumer) {
    const assignments = consumer.assignments ?? []
    const seen = JSON.stringify(assignments)
    if (seen === this.#seen) return
    this.#seen = seen
    const owned = new Set(assignments.flatMap(({ topic, partitions }) =>
      partitions.map((partition) => lines.name(topic, partition))))
    for (const at of this.#next.keys()) {
      if (!owned.has(at)) this.#next.delete(at)
    }
    lines.owns(this.#next.keys())
    this.gain(consumer, assignments).catch((error) => lines.failed('committed offsets', error))
  }

  async take (partition, offset) {
    await this.#gained.promise
    if (this.#next.get(partition) !== offset) return false
    this.#next.set(partition, offset + 1)
    return true
  }
}

function newConsumer (holds) {
  const consumer = new Consumer({
    ...base,
    groupId: options.group,
    groupProtocol: options.protocol ?? 'classic',
    ...(options.protocol ? {} : {
      sessionTimeout: Number(options.session),
      rebalanceTimeout: Math.max(Number(options.session), 10_000),
      heartbeatInterval: Number(options.heartbeat)
    }),
    deserializers: stringDeserializers,
    autocommit: false,
    maxWaitTime: 200
  })
  if (options.protocol) {
    consumer.on('consumer:heartbeat:start', () => holds.follow(consumer))
  } else {
    consumer.on('consumer:group:rebalance', () => holds.lose())
    consumer.on('consumer:group:join', ({ assignments }) => {
      holds.gain(consumer, assignments ?? []).catch((error) => lines.failed('committed offsets', error))
    })
  }
  consumer.on('error', (error) => lines.failed('consumer', error))
  return consumer
}

async function processAll (stream, consumer, holds) {
  for await (const { topic, partition, offset, value } of stream) {
    const at = lines.name(topic, partition)
    if (!await holds.take(at, Number(offset))) continue
    lines.records(at, [Number(offset)], [value])
    await consumer.commit({ offsets: [{ topic, partition, offset: offset + 1n, leaderEpoch: 0 }] })
    lines.committed({ [at]: Number(offset) + 1 })
  }
}

async function consume () {
  const holds = new Holds()
  const consumer = newConsumer(holds)
  let leaving = false
  lines.wish.then(() => { leaving = true; return consumer.close(true) }).then(() => {
    holds.lose()
    lines.left()
    process.exit(0)
  })
  while (!leaving) {
    try {
      const stream = await consumer.consume({
        topics: options.topics.split(','),
        mode: MessagesStreamModes.COMMITTED,
        fallbackMode: MessagesStreamFallbackModes.EARLIEST
      })
      await processAll(stream, consumer, holds)
    } catch (error) {
      if (!leaving) lines.failed('stream', error)
      if (options.protocol) process.exit(3)
    }
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

async function produce () {
  const producers = [...lines.topicOfCodec()].map(([codec, topic]) => [topic, new Producer({
    ...base,
    serializers: stringSerializers,
    compression: codec,
    idempotent: true
  })])
  await lines.feed((messages) => Promise.all(producers.map(([topic, producer]) => producer.send({
    messages: messages.map((message) => ({ topic, ...message })),
    acks: ProduceAcks.ALL
  }))))
  await Promise.all(producers.map(([, producer]) => producer.close()))
  process.exit(0)
}

await (lines.mode === 'produce' ? produce() : consume())
