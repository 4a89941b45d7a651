// Node's pools behind one face: submit, pids, close.
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const file = fileURLToPath(new URL('./tasks.mjs', import.meta.url))

// Living child processes of this one.
const children = () =>
  readdirSync('/proc').filter((name) => {
    if (!/^\d+$/.test(name)) return false
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'latin1')
      const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      return state !== 'Z' && Number(parent) === process.pid
    } catch {
      return false // it has ended
    }
  }).map(Number).sort((a, b) => a - b)

const piscina = async (least, most) => {
  const { Piscina } = await import('piscina')
  const pool = new Piscina({ filename: file, minThreads: least, maxThreads: most })
  return {
    submit: (name, argument) => pool.run(argument, { name }),
    pids: () => [], // its workers are threads of this process
    workers: () => pool.threads.length,
    close: () => pool.destroy()
  }
}

const workerpool = (forkOpts) => async (least, most) => {
  const { default: library } = await import('workerpool')
  const pool = library.pool(file, { workerType: 'process', minWorkers: least, maxWorkers: most, forkOpts })
  return {
    submit: (name, argument) => pool.exec(name, [argument]),
    pids: children,
    workers: () => pool.stats().totalWorkers,
    close: () => pool.terminate(true)
  }
}

export const pools = {
  piscina,
  workerpool: workerpool({}),
  'workerpool-advanced': workerpool({ serialization: 'advanced' })
}
