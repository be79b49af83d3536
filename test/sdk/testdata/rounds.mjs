// Creates, uses and removes sandboxes with the SDKs of E2B and Daytona, many times, and prints what it took.
const [, , vendor, rounds, width] = process.argv
let unhandled = 0
process.on('unhandledRejection', (e) => { unhandled++; console.error('unhandled', e) })
const { Sandbox } = vendor === 'e2b' ? await import('e2b') : {}
const { Daytona } = vendor === 'daytona' ? await import('@daytona/sdk') : {}
const daytona = Daytona && new Daytona()
const times = { create: [], run: [], kill: [] }
const timed = async (name, f) => { const t = performance.now(); const r = await f(); times[name].push(performance.now() - t); return r }
const round = vendor === 'e2b'
  ? async (i) => {
    const s = await timed('create', () => Sandbox.create())
    try { const r = await timed('run', () => s.commands.run('echo ' + i)); if (r.stdout !== i + '\n') throw new Error('round ' + i + ': ' + JSON.stringify(r)) } finally { await timed('kill', () => s.kill()) }
  }
  : async (i) => {
    const s = await timed('create', () => daytona.create())
    try { const r = await timed('run', () => s.process.executeCommand('echo ' + i)); if (r.result !== i + '\n') throw new Error('round ' + i + ': ' + JSON.stringify(r)) } finally { await timed('kill', () => s.delete()) }
  }
let next = 0, failed = 0
await Promise.all([...Array(Number(width)).keys()].map(async () => {
  while (next < Number(rounds)) { const i = next++; try { await round(i) } catch (e) { failed++; console.error('round', i, e) } }
}))
const median = (l) => l.sort((a, b) => a - b)[l.length >> 1]
console.log(JSON.stringify({ ok: times.kill.length, failed, unhandled, create: median(times.create), run: median(times.run), kill: median(times.kill) }))
process.exit(failed || unhandled ? 1 : 0)
