// Consumers of @platformatic/kafka, in the classic protocol.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { Consumer, MessagesStreamFallbackModes, MessagesStreamModes, stringDeserializers } from '@platformatic/kafka'
import { Kafka, startProcess } from './kafka.mjs'

let stopProcess
before(async () => { stopProcess = await startProcess() })
after(() => stopProcess())

/** A consumer of the group `billing` and its stream of records; it is closed after the test. */
async function startConsumer (kafka, options = {}) {
  const consumer = new Consumer({
    clientId: 'billing',
    bootstrapBrokers: [kafka.bootstrap],
    groupId: 'billing',
    sessionTimeout: 45_000,
    heartbeatInterval: 50,
    retryDelay: 50,
    maxWaitTime: 50,
    autocommit: false,
    deserializers: stringDeserializers,
    ...options
  })
  consumer.on('error', () => {}) // that of a killed consumer
  const stream = await consumer.consume({
    topics: ['orders'],
    mode: MessagesStreamModes.COMMITTED,
    fallbackMode: MessagesStreamFallbackModes.EARLIEST
  })
  stream.on('error', () => {})
  kafka.onStop(() => consumer.close(true))
  return { consumer, stream }
}

test('another member takes over after a crash', { timeout: 120_000 }, async (t) => {
  const kafka = await Kafka.start(t)
  await kafka.topic('orders', 4)
  const [a] = await Promise.all([startConsumer(kafka), startConsumer(kafka)])
  await kafka.wait('billing', { state: 'Stable', members: 2 })
  await kafka.kill(a.consumer.memberId) // its connection is gone, without a LeaveGroup
  await kafka.advance(45) // its session expires now
  const stable = await kafka.wait('billing', { state: 'Stable', members: 1 })
  assert.equal(stable.members[0].assignment.length, 4)
  assert.equal(stable.rebalances.at(-1).cause, 'session expired')
  await kafka.letKilledLeave()
})

test('an offset that does not exist is reset to the earliest', { timeout: 120_000 }, async (t) => {
  const kafka = await Kafka.start(t)
  await kafka.topic('orders')
  await kafka.produce('orders', 'first', 'second')
  await kafka.commit('billing', { 'orders-0': 99 }) // beyond the end
  const { stream } = await startConsumer(kafka)
  const read = []
  for await (const { value } of stream) {
    read.push(value)
    if (read.length === 2) break
  }
  assert.deepEqual(read, ['first', 'second'])
})

test('a static member restarts after a crash without a rebalance', { timeout: 120_000 }, async (t) => {
  const kafka = await Kafka.start(t)
  await kafka.topic('orders', 4)
  const named = { groupInstanceId: 'billing-1' }
  const first = await startConsumer(kafka, named)
  const before = await kafka.wait('billing', { state: 'Stable', members: 1 })
  await kafka.kill(first.consumer.memberId) // this client leaves when it is closed
  await kafka.advance(30) // the restart takes less than its session timeout
  const again = await startConsumer(kafka, named)
  assert.equal(again.consumer.assignments[0].partitions.length, 4)
  const restarted = await kafka.group('billing')
  assert.notEqual(restarted.members[0].member_id, before.members[0].member_id)
  assert.equal(restarted.generation, before.generation)
  assert.equal(restarted.rebalances.length, before.rebalances.length)
  await kafka.letKilledLeave()
})
