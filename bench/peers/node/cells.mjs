// Measures one Node pool and prints one line of JSON.
import { createHash, randomBytes } from 'node:crypto'
import { readFileSync, writeSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { pools } from './pools.mjs'

const sizes = { null4: 4, null1k: 1 << 10, sha1k: 1 << 10, sha1m: 1 << 20 }
const now = () => performance.now()

const load = (experiment) => {
  const payload = randomBytes(sizes[experiment])
  return experiment.startsWith('sha')
    ? { name: 'digest', payload, want: createHash('sha512').update(payload).digest('base64') }
    : { name: 'nothing', payload, want: '' }
}

const throughput = async (open, experiment, span) => {
  const { name, payload, want } = load(experiment)
  const window = payload.length > 1 << 16 ? 16 : 1000
  const pool = await open(2, 2)
  let done = 0
  let stop = false
  const caller = async () => {
    while (!stop) {
      const got = await pool.submit(name, payload)
      if (got !== want) throw new Error(`wrong answer of ${got?.length} bytes`)
      done++
    }
  }
  const callers = Promise.all(Array.from({ length: window }, caller))
  await Promise.race([callers, pause(span / 4)])
  const [count, begin] = [done, now()]
  await Promise.race([callers, pause(span)])
  const rate = ((done - count) / (now() - begin)) * 1e3
  stop = true
  return { metrics: { rate_per_s: rate }, in_flight: `${window} outstanding` }
}

const roundTrip = async (open, span) => {
  const pool = await open(2, 2)
  const took = []
  const begin = now()
  for (let last = begin; last - begin < span * 1.25;) {
    await pool.submit('nothing', Buffer.from('ping'))
    const at = now()
    if (at - begin > span / 4) took.push(at - last)
    last = at
  }
  took.sort((a, b) => a - b)
  const at = (q) => took[Math.floor((took.length - 1) * q)] * 1e3
  return { metrics: { p50_us: at(0.5), p99_us: at(0.99), calls: took.length }, in_flight: '1' }
}

const cold = async (open, span) => {
  const took = []
  for (const start = now(); took.length < 3 || (now() - start < span && took.length < 15);) {
    const begin = now()
    const pool = await open(2, 2)
    await pool.submit('nothing', Buffer.from('ping'))
    took.push(now() - begin)
    await pool.close()
  }
  const again = took.slice(1).sort((a, b) => a - b)
  const metrics = { first_ms: took[0], again_ms: again[again.length >> 1], pools: took.length }
  return { metrics, in_flight: '1' }
}

const growth = async (open) => {
  const pool = await open(1, 5)
  await pool.submit('nothing', Buffer.from('ping'))
  const begin = now()
  await Promise.all(Array.from({ length: 5 }, () => pool.submit('sleep', 1000)))
  return { metrics: { five_tasks_ms: now() - begin, workers: pool.workers() }, in_flight: '5' }
}

// Starts count tasks. Each gives { state: ok | error | hang, text, at } in the end.
const starts = (pool, count, name, argument, limit) =>
  Array.from({ length: count }, () =>
    Promise.race([
      Promise.resolve(pool.submit(name, argument)).then(
        () => ({ state: 'ok' }),
        (error) => ({ state: 'error', text: String(error).slice(0, 200), at: now() })
      ),
      pause(limit, { state: 'hang', text: `no answer in ${limit / 1e3} s` })
    ]))
const good = async (tasks) => (await Promise.all(tasks)).filter(({ state }) => state === 'ok').length

const kill = async (open) => {
  let pool = await open(2, 2)
  const ping = Buffer.from('ping')
  await good(starts(pool, 8, 'nothing', ping, 2000))
  const long = starts(pool, 2, 'sleep', 1000, 5000)
  await pause(200)
  const queued = starts(pool, 4, 'sleep', 100, 6000)
  await pause(50)
  const [victim] = pool.pids()
  if (!victim) throw new Error('no worker process to kill: the workers are threads, which a crash takes along with the host')
  const begin = now()
  process.kill(victim, 'SIGKILL')
  const bad = (await Promise.all(long)).filter(({ state }) => state !== 'ok')
  const metrics = { neighbour_ok: 2 - Math.max(bad.length, 1) }
  if (bad[0]?.at) metrics.victim_ms = bad[0].at - begin
  metrics.queued_ok = await good(queued)
  metrics.after_ok = await good(starts(pool, 4, 'nothing', ping, 3000))
  metrics.workers_after = pool.pids().length
  await pool.close()
  pool = await open(2, 2)
  await good(starts(pool, 8, 'nothing', ping, 2000))
  await pause(100)
  process.kill(pool.pids()[0], 'SIGKILL')
  metrics.idle_now_ok = await good(starts(pool, 4, 'nothing', ping, 3000))
  await pause(500)
  metrics.idle_later_ok = await good(starts(pool, 4, 'nothing', ping, 3000))
  return { metrics, notes: { victim: bad[0]?.text ?? 'both tasks ended well: the worker killed ran neither, or its task was run again' }, in_flight: '2 running, 4 queued' }
}

const memory = async (open) => {
  const pool = await open(2, 2)
  const { name, payload } = load('sha1k')
  await Promise.all(Array.from({ length: 200 }, () => pool.submit(name, payload)))
  await pause(300)
  const pids = pool.pids()
  if (!pids.length) throw new Error('no worker process: the workers are threads of the host')
  const sum = {}
  for (const pid of pids) {
    for (const [, key, kb] of readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8').matchAll(/^(\w+): +(\d+) kB$/gm)) {
      sum[key] = (sum[key] ?? 0) + Number(kb) / 1024 / pids.length
    }
  }
  const metrics = { rss_mb: sum.Rss, pss_mb: sum.Pss, uss_mb: sum.Private_Clean + sum.Private_Dirty, workers: pids.length }
  return { metrics, in_flight: '0' }
}

const measure = (system, experiment, span) => {
  const open = pools[system]
  if (experiment in sizes) return throughput(open, experiment, span)
  if (experiment.startsWith('rtt')) return roundTrip(open, span)
  return { cold, growth, kill, memory }[experiment](open, span)
}

const { values } = parseArgs({
  options: { system: { type: 'string' }, experiment: { type: 'string' }, span: { type: 'string', default: '1' } }
})
process.on('uncaughtException', (error) => console.error('uncaught:', String(error)))
const result = await measure(values.system, values.experiment, Number(values.span) * 1e3)
  .catch((error) => ({ error: String(error) }))
writeSync(1, JSON.stringify(result) + '\n')
process.exit(0) // a pool whose ending hangs must not hold the cell: the driver cleans up
