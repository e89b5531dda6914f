// A Kafka for each test: a broker in a process `kohort serve --dev --control`.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'

let control

/** Starts the command `kohort`, which is found by the PATH. One process serves all tests. */
export async function startProcess () {
  const child = spawn('kohort', [
    'serve', '--dev', '--memory', '--listen', '127.0.0.1:0', '--control', '127.0.0.1:0'
  ])
  process.on('exit', () => child.kill())
  const lines = createInterface({ input: child.stderr })
  const log = []
  control = await new Promise((resolve, reject) => {
    child.on('error', reject)
    lines.on('line', (line) => {
      const found = / control=(\S+)/.exec(line)
      log.push(line)
      if (found) resolve(`http://${found[1]}`)
    })
    lines.on('close', () => reject(new Error(`kohort serve ended:\n${log.join('\n')}`)))
  })
  return async () => {
    child.kill()
    if (child.exitCode === null) await once(child, 'exit')
  }
}

async function call (method, path, args) {
  const body = method === 'GET' ? undefined : JSON.stringify(args ?? {})
  const response = await fetch(control + path, { method, body })
  const result = await response.json()
  if (!response.ok) throw new Error(`${path}: ${result.error}`)
  return result
}

/** The broker of one test. */
export class Kafka {
  #closers = []

  /** It is stopped after the test `t`. Faults that no request has met fail the test. */
  static async start (t) {
    const kafka = new Kafka()
    const { broker, bootstrap } = await call('POST', '/brokers')
    kafka.path = `/brokers/${broker}`
    kafka.bootstrap = bootstrap
    t.after(() => kafka.#stop())
    return kafka
  }

  /** Calls `close` after the test, before the broker is stopped. */
  onStop (close) {
    this.#closers.push(close)
  }

  async #stop () {
    try {
      await Promise.all(this.#closers.map((close) => close()))
      await this.#call('POST', '/faults/verify')
    } finally {
      await call('DELETE', this.path)
    }
  }

  topic (name, partitions = 1) {
    return this.#call('POST', '/topics', { name, partitions })
  }

  produce (topic, ...values) {
    const bytes = values.map((value) => Buffer.from(value).toString('base64'))
    return this.#call('POST', `/topics/${topic}/records`, { values: bytes })
  }

  /** Commits offsets of a group without members: `{ 'orders-0': 42 }`. */
  commit (group, offsets) {
    return this.#call('POST', `/groups/${group}/commit`, { offsets })
  }

  group (group) {
    return this.#call('GET', `/groups/${group}`)
  }

  /** Waits until a group has this `state` and number of `members`. */
  wait (group, condition) {
    return this.#call('POST', `/groups/${group}/wait`, { timeout: 60, ...condition })
  }

  /** Cuts the connection of a member, now and whenever it connects again. */
  kill (memberId) {
    return this.#call('POST', '/kill', { member_id: memberId })
  }

  /** Lets killed members leave, so that their clients close without waiting. */
  letKilledLeave () {
    return this.#call('POST', '/let_killed_leave')
  }

  /** Lets so much of the broker's time pass now. */
  advance (seconds) {
    return this.#call('POST', '/advance', { seconds })
  }

  /** Responds to the next request of an API with an error. */
  fail (api, error) {
    return this.#call('POST', '/faults/fail', { api, error })
  }

  #call (method, verb, args) {
    return call(method, this.path + verb, args)
  }
}
