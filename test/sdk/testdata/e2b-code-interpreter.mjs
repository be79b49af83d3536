import { Sandbox } from '@e2b/code-interpreter'
let ok = 0, failed = 0
const step = async (name, f) => { const t = Date.now(); try { await f(); ok++; console.log('ok', name, Date.now() - t + 'ms') } catch (e) { failed++; console.log('FAILED', name, e && e.stack || e) } }
const eq = (a, b) => { if (JSON.stringify(a) !== JSON.stringify(b)) throw new Error(JSON.stringify(a) + ' is not ' + JSON.stringify(b)) }
let s
await step('create', async () => { s = await Sandbox.create({ timeoutMs: 120000 }) })
await step('runCode keeps state', async () => { eq((await s.runCode('x = 40')).text, undefined); const r = await s.runCode('x + 2'); eq([r.text, r.executionCount], ['42', 2]) })
await step('stdout, stderr', async () => { let live = ''; const r = await s.runCode('import sys, subprocess\nprint("a"); print("b", file=sys.stderr); subprocess.run("echo sub; echo ü", shell=True)\nNone', { onStdout: (m) => { live += m.line } }); eq([r.logs.stdout.join('').split('\n').sort(), r.logs.stderr.join('')], [['', 'a', 'sub', 'ü'], 'b\n']); if (!live.includes('sub')) throw new Error(live) })
await step('error', async () => { const r = await s.runCode('def f():\n  return 1/0\nf()'); eq([r.error.name, r.error.value], ['ZeroDivisionError', 'division by zero']); if (!r.error.traceback.includes('return 1/0')) throw new Error(r.error.traceback) })
await step('syntax error', async () => eq((await s.runCode('1 +')).error.name, 'SyntaxError'))
await step('html, json, png', async () => {
  const r = await s.runCode('class H:\n  def _repr_html_(self): return "<b>x</b>"\n  def _repr_png_(self): return b"\\x89PNG"\nH()'); eq([r.results[0].html, r.results[0].png, r.results[0].isMainResult], ['<b>x</b>', 'iVBORw==', true])
  const j = await s.runCode('{"a": [1, 2]}'); eq(j.results[0].json, { a: [1, 2] })
  const d = await s.runCode('display(1, "two")\n3'); eq(d.results.map((x) => x.text), ['1', "'two'", '3'])
})
await step('shell lines, await', async () => { eq((await s.runCode('!echo shell')).logs.stdout.join(''), 'shell\n'); eq((await s.runCode('import asyncio\nawait asyncio.sleep(0)\n5')).text, '5') })
await step('envs, cwd', async () => { eq((await s.runCode('import os; os.environ["E"]', { envs: { E: 'v' } })).text, "'v'"); eq((await s.runCode('os.environ.get("E")')).text, undefined); eq((await s.runCode('os.getcwd()')).text, "'/home/user'") })
await step('contexts', async () => {
  const c = await s.createCodeContext({ cwd: '/tmp', language: 'python' }); eq([c.language, c.cwd], ['python', '/tmp'])
  eq((await s.runCode('x', { context: c })).error.name, 'NameError'); await s.runCode('y = 1', { context: c }); eq((await s.runCode('y', { context: c })).text, '1')
  if (!(await s.listCodeContexts()).some((k) => k.id === c.id)) throw new Error('not listed')
  await s.restartCodeContext(c); eq((await s.runCode('y', { context: c })).error.name, 'NameError'); await s.removeCodeContext(c.id)
  if ((await s.listCodeContexts()).some((k) => k.id === c.id)) throw new Error('still listed')
})
await step('timeout interrupts, state stays', async () => { try { await s.runCode('import time; time.sleep(60)', { timeoutMs: 500 }); throw new Error('no error') } catch (e) { eq(e.name, 'TimeoutError') } eq((await s.runCode('x')).text, '40') })
await step('javascript', async () => { await s.runCode('const a = [1, 2]', { language: 'javascript' }); const r = await s.runCode('console.log("log"); a.map((v) => v * 2)', { language: 'javascript' }); eq([r.text, r.logs.stdout.join(''), r.results[0].json], ['[ 2, 4 ]', 'log\n', [2, 4]]); eq((await s.runCode('await Promise.resolve(7)', { language: 'js' })).text, '7'); eq((await s.runCode('nope', { language: 'javascript' })).error.name, 'ReferenceError') })
await step('an unknown language', async () => { try { await s.runCode('x', { language: 'cobol' }); throw new Error('no error') } catch (e) { if (!/cobol|501/.test(e.message)) throw e } })
await step('1 MB of output', async () => { const r = await s.runCode('print("x" * 1000000)'); eq(r.logs.stdout.join('').length, 1000001) })
await step('20 at once', async () => { const r = await Promise.all([...Array(20).keys()].map((i) => s.runCode(`${i} * 2`))); eq(r.map((x) => x.text), [...Array(20).keys()].map((i) => '' + i * 2)) })
await step('a kernel that dies', async () => { const r = await s.runCode('import os; os._exit(9)'); eq(r.error.name, 'KernelDied'); eq((await s.runCode('1')).text, '1') })
await step('kill', async () => { await s.kill() })
console.log(JSON.stringify({ package: '@e2b/code-interpreter', ok, failed })); process.exit(failed ? 1 : 0)
