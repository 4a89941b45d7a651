// The handlers of both Node pools. Piscina calls the named exports; workerpool
// gets the same functions by registration.
import { createHash } from 'node:crypto'
import workerpool from 'workerpool'
import { isMainThread } from 'node:worker_threads'

// JSON turns a Buffer into an object of numbers: take either.
const bytes = (payload) =>
  payload instanceof Uint8Array ? payload : Buffer.from(payload.data)

export const nothing = () => ''
export const digest = (payload) => createHash('sha512').update(bytes(payload)).digest('base64')
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms, ''))

if (isMainThread && process.send) workerpool.worker({ nothing, digest, sleep })
