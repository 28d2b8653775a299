// What the Node programs share: their arguments and how they say what became of a check.
// Arguments: BOOTSTRAP PREFIX RECORDS light|full.
'use strict'
const readline = require('node:readline')

const [bootstrap, prefix, records, form] = process.argv.slice(2)
const PATIENCE_MS = 60_000

class Skip extends Error {}

const late = (ms, what) =>
  new Promise((_, reject) => setTimeout(() => reject(new Error(what)), ms).unref())

async function check(name, work) {
  try {
    await Promise.race([work(), late(PATIENCE_MS, 'not done in time')])
    console.log(`ok ${name}`)
  } catch (error) {
    const kind = error instanceof Skip ? 'skip' : 'FAIL'
    console.log(`${kind} ${name}: ${String(error.message).replaceAll('\n', ' ')}`)
  }
}

async function until(what, holds) {
  const end = Date.now() + 20_000
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`never: ${what}`)
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

// Has the broker stopped and started again.
async function restart() {
  const lines = readline.createInterface({ input: process.stdin })
  console.log('restart')
  const answer = await new Promise(resolve => {
    lines.once('line', resolve)
    lines.once('close', () => resolve('failed: nobody answers'))
  })
  lines.close()
  if (answer.startsWith('failed')) throw new Error(answer)
  if (answer !== 'restarted') throw new Skip(answer)
}

function done() {
  console.log('done')
  process.exit(0)
}

module.exports = { bootstrap, prefix, records: Number(records), full: form === 'full', check, until, restart, done }
