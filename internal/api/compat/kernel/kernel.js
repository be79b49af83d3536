// A kernel of a code interpreter: it runs the code of each request line in one context, and writes
// one JSON object per line.
const fs = require('fs'), vm = require('vm'), util = require('util'), readline = require('readline'), path = require('path')
const { createRequire } = require('module')

const wire = 1 // output of child processes comes here, too: it is no JSON
const send = (type, fields) => {
  const line = Buffer.from(JSON.stringify({ type, ...fields }) + '\n')
  for (let at = 0; at < line.length;) {
    try { at += fs.writeSync(wire, line, at) } catch (e) { if (e.code !== 'EAGAIN') throw e }
  }
}
for (const name of ['stdout', 'stderr']) {
  process[name].write = (data, encoding, done) => {
    send(name, { text: typeof data === 'string' ? data : Buffer.from(data).toString() })
    const f = typeof encoding === 'function' ? encoding : done
    if (f) f()
    return true
  }
}
const formats = { html: 'text/html', png: 'image/png', svg: 'image/svg+xml', markdown: 'text/markdown', json: 'application/json', latex: 'text/latex' }
const describe = (value) => {
  const fields = { text: typeof value === 'string' ? util.inspect(value) : util.inspect(value, { depth: 4 }) }
  if (value && typeof value === 'object') {
    const bundle = value[Symbol.for('Jupyter.display')] ? value[Symbol.for('Jupyter.display')]() : {}
    for (const [name, mime] of Object.entries(formats)) if (bundle[mime] !== undefined) fields[name] = bundle[mime]
    try { if (fields.json === undefined) fields.json = JSON.parse(JSON.stringify(value)) } catch { /* it is no JSON */ }
  }
  return fields
}
const space = vm.createContext(Object.create(globalThis, {
  require: { value: createRequire(path.join(process.cwd(), 'cell.js')), writable: true },
  module: { value: { exports: {} }, writable: true },
  exports: { value: {}, writable: true },
  display: { value: (...all) => all.forEach((v) => send('result', { is_main_result: false, ...describe(v) })), writable: true },
}))
space.globalThis = space
space.global = space
for (const name of Object.getOwnPropertyNames(globalThis)) {
  if (!(name in space) || ['console', 'process', 'Buffer', 'fetch', 'URL', 'setTimeout', 'setInterval', 'clearTimeout', 'clearInterval', 'setImmediate', 'queueMicrotask', 'structuredClone', 'TextEncoder', 'TextDecoder', 'AbortController'].includes(name)) {
    try { space[name] = globalThis[name] } catch { /* it can't be set */ }
  }
}
space.console = new console.Console(process.stdout, process.stderr)

const run = async (code, name) => {
  const options = { filename: name, importModuleDynamically: vm.constants && vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER }
  if (/\bawait\b/.test(code)) {
    try {
      new vm.Script(code, options)
    } catch {
      // Declarations of an asynchronous cell become properties of the context, so that they stay.
      const body = code.replace(/^(\s*)(?:const|let|var)\s+([A-Za-z_$][\w$]*)\s*=/gm, '$1globalThis.$2 =')
      const lines = body.trimEnd().split('\n')
      const last = lines.pop()
      const value = /^\s*(?:return|throw|if|for|while|switch|try|globalThis\.|[}\])])|[{;]\s*$/.test(last) ? last : `return (${last})`
      return vm.runInContext(`(async () => {\n${lines.join('\n')}\n${value}\n})()`, space, options)
    }
  }
  return vm.runInContext(code, space, options)
}
let count = 0
process.on('SIGINT', () => {})
process.on('unhandledRejection', (e) => send('stderr', { text: String(e && e.stack || e) + '\n' }))
const lines = readline.createInterface({ input: process.stdin })
send('ready', {});
(async () => {
  for await (const line of lines) {
    const request = JSON.parse(line)
    count++
    send('number_of_executions', { execution_count: count })
    const before = {}
    for (const [k, v] of Object.entries(request.env || {})) { before[k] = process.env[k]; process.env[k] = v }
    try {
      const value = await run(request.code, `<cell ${count}>`)
      if (value !== undefined) send('result', { is_main_result: true, ...describe(value) })
    } catch (e) {
      const known = e && e.name
      send('error', { name: known ? String(e.name) : 'Error', value: known ? String(e.message) : util.inspect(e), traceback: String(e && e.stack || e) })
    }
    for (const [k, v] of Object.entries(before)) { if (v === undefined) delete process.env[k]; else process.env[k] = v }
    send('end_of_execution', {})
  }
  process.exit(0)
})()
