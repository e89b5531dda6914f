// Interface between the Node programs and the test that runs them. Arguments are `name=value`, output
// is JSON lines, and stdin has the values to produce. tests/interop/clients/lines.py describes the
// lines.
import { writeSync } from 'node:fs'
import { createInterface } from 'node:readline'

const [, , askedMode, ...named] = process.argv
export const mode = askedMode
export const options = Object.fromEntries(named.map((argument) => {
  const at = argument.indexOf('=')
  return [argument.slice(0, at), argument.slice(at + 1)]
}))

/** Codec → the topic of its records. */
export function topicOfCodec () {
  return new Map(options.codec.split(',').map((codec) => [codec, options.topic.replace('{}', codec)]))
}

/** Settles once SIGTERM has asked the program to leave. */
export const wish = new Promise((resolve) => {
  if (mode === 'consume') process.once('SIGTERM', () => resolve())
})

function say (event, fields) {
  const at = process.hrtime.bigint()
  writeSync(1, `{"event": "${event}", "at": ${at}, ${JSON.stringify(fields).slice(1)}\n`)
}

export const name = (topic, partition) => `${topic}-${partition}`
/** The partitions that this member owns, by `name`. */
export const owns = (partitions) => say('owns', { partitions: [...partitions].sort() })
/** Processed records: offsets as numbers, values as text. */
export const records = (partition, offsets, values) => say('records', { partition, offsets, values })
/** The next offset of each partition, acknowledged by the server. */
export const committed = (offsets) => say('committed', { offsets })
/** An error that is retried. */
export const failed = (what, error) => say('failed', { what: `${what}: ${error?.stack ?? error}` })
export const left = () => say('left', { ended: true })

/** Reads KEY TAB VALUE from stdin and passes the lines so far to `send`, one call at a time. */
export async function feed (send) {
  let waiting = []
  let over = false
  let wake = () => {}
  const input = createInterface({ input: process.stdin })
  input.on('line', (line) => {
    const at = line.indexOf('\t')
    waiting.push({ key: line.slice(0, at), value: line.slice(at + 1) })
    wake()
  })
  input.on('close', () => {
    over = true
    wake()
  })
  while (!over || waiting.length > 0) {
    if (waiting.length === 0) await new Promise((resolve) => { wake = resolve })
    const messages = waiting
    waiting = []
    if (messages.length > 0) await send(messages)
  }
}
