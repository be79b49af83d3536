// Calls every public method of the classes of the package e2b and reports each.
import http from 'node:http'
const pkg = process.argv[2] || 'e2b'
const e2b = await import(pkg)
const { Sandbox, CommandExitError, FileType, FilesystemEventType } = e2b
let ok = 0, failed = 0
const refused = []
const step = async (name, f) => {
  const t = Date.now()
  try { await f(); ok++; console.log('ok', name, Date.now() - t + 'ms') } catch (e) { failed++; console.log('FAILED', name, e && e.stack || e) }
}
// A call that the server refuses, with its reason.
const refuse = (name, want, f) => step(name, async () => {
  try { await f() } catch (e) { if (!String(e.message).match(want)) throw e; refused.push(name); return }
  throw new Error('it was not refused')
})
const eq = (a, b) => { if (JSON.stringify(a) !== JSON.stringify(b)) throw new Error(JSON.stringify(a) + ' is not ' + JSON.stringify(b)) }
const sleep = (ms) => new Promise((r) => setTimeout(r, ms))
const until = async (f) => { for (let i = 0; i < 800; i++) { if (await f()) return; await sleep(25) } throw new Error('it did not happen') }

let s
await step('Sandbox.create', async () => { s = await Sandbox.create({ timeoutMs: 120_000, metadata: { user: 'a b', k: 'ü&=' }, envs: { FOO: 'bar' } }) })
await step('commands.run', async () => { const r = await s.commands.run('echo out; echo err >&2; echo $FOO'); eq([r.stdout, r.stderr, r.exitCode], ['out\nbar\n', 'err\n', 0]) })
await step('commands.run exit code', async () => { try { await s.commands.run('exit 3'); throw new Error('no error') } catch (e) { if (!(e instanceof CommandExitError)) throw e; eq(e.exitCode, 3) } })
await step('commands.run callbacks, cwd, envs', async () => { let o = '', e = ''; await s.commands.run('pwd; echo $A; echo x >&2', { cwd: '/tmp', envs: { A: '1' }, onStdout: (d) => { o += d }, onStderr: (d) => { e += d } }); eq([o, e], ['/tmp\n1\n', 'x\n']) })
await step('commands.run timeout', async () => { const t = Date.now(); try { await s.commands.run('sleep 30', { timeoutMs: 500 }); throw new Error('no error') } catch (e) { eq(e.name, 'TimeoutError') } if (Date.now() - t > 5000) throw new Error('too late') })
await step('commands.run 5 MB', async () => { const r = await s.commands.run('head -c 5000000 /dev/zero | tr "\\0" x'); eq(r.stdout.length, 5000000) })
await step('commands.run user', async () => { const r = await s.commands.run('id -un', { user: 'root' }); eq(r.stdout, 'root\n') })
await step('commands background, list, kill', async () => {
  const h = await s.commands.run('sleep 60', { background: true })
  const l = await s.commands.list(); const me = l.find((p) => p.pid === h.pid)
  eq([me.cmd, me.args], ['/bin/bash', ['-l', '-c', 'sleep 60']])
  eq(await s.commands.kill(h.pid), true); eq(await s.commands.kill(h.pid), false)
  try { await h.wait(); throw new Error('no error') } catch (e) { if (!(e instanceof CommandExitError)) throw e }
})
await step('commands.sendStdin, closeStdin', async () => {
  const h = await s.commands.run('cat', { background: true, stdin: true })
  await s.commands.sendStdin(h.pid, 'hello\n')
  if (s.commands.closeStdin) { await s.commands.closeStdin(h.pid); const r = await h.wait(); eq(r.stdout, 'hello\n') } else { await until(() => h.stdout === 'hello\n'); await h.kill() }
})
await step('handle.sendStdin, closeStdin, exitCode, stdout', async () => {
  const h = await s.commands.run('read x; echo got $x; exit 5', { background: true, stdin: true })
  if (h.sendStdin) await h.sendStdin('abc\n'); else await s.commands.sendStdin(h.pid, 'abc\n')
  try { await h.wait() } catch { }
  eq([h.exitCode, h.stdout, h.stderr], [5, 'got abc\n', ''])
})
await step('commands.connect, handle.disconnect', async () => {
  const h = await s.commands.run('echo first; sleep 0.5; echo late', { background: true })
  await h.disconnect()
  const h2 = await s.commands.connect(h.pid); const r = await h2.wait()
  if (!r.stdout.endsWith('late\n')) throw new Error(JSON.stringify(r))
})
await step('commands.connect after the end', async () => { const h = await s.commands.run('echo done', { background: true }); await h.wait(); const r = await (await s.commands.connect(h.pid)).wait(); eq([r.exitCode, r.stdout], [0, 'done\n']) })
await step('pty.create, sendInput, resize, kill', async () => {
  let out = ''; const dec = new TextDecoder()
  const p = await s.pty.create({ cols: 80, rows: 24, onData: (d) => { out += dec.decode(d) } })
  await s.pty.sendInput(p.pid, new TextEncoder().encode('stty size; echo m$((1+1))k\n'))
  await until(() => out.includes('m2k') && out.includes('24 80'))
  await s.pty.resize(p.pid, { cols: 100, rows: 30 })
  await s.pty.sendInput(p.pid, new TextEncoder().encode('stty size\n')); await until(() => out.includes('30 100'))
  if (s.pty.connect) { let o2 = ''; const p2 = await s.pty.connect(p.pid, { onData: (d) => { o2 += dec.decode(d) } }); await s.pty.sendInput(p.pid, new TextEncoder().encode('echo aga$((1))in\n')); await until(() => o2.includes('aga1in')); await p2.disconnect() }
  eq(await s.pty.kill(p.pid), true)
})
await step('files.write, read', async () => { eq((await s.files.write('/home/user/a.txt', 'hi there')).path, '/home/user/a.txt'); eq(await s.files.read('/home/user/a.txt'), 'hi there') })
await step('files relative path', async () => { await s.files.write('rel/x.txt', 'r'); eq(await s.files.read('/home/user/rel/x.txt'), 'r') })
await step('files.write several', async () => { eq((await s.files.write([{ path: '/home/user/m/1', data: 'one' }, { path: '/home/user/m/2', data: new Uint8Array([1, 2, 255]).buffer }])).length, 2); eq([...await s.files.read('/home/user/m/2', { format: 'bytes' })], [1, 2, 255]) })
if (s.files.writeFiles) await step('files.writeFiles', async () => { eq((await s.files.writeFiles([{ path: '/home/user/w', data: 'w' }])).length, 1) })
await step('files.write octet-stream', async () => { await s.files.write('/home/user/o', 'octets', { useOctetStream: true }); eq(await s.files.read('/home/user/o'), 'octets') })
await step('files.write gzip, read gzip', async () => { await s.files.write('/home/user/z', 'zipped '.repeat(1000), { gzip: true }); eq(await s.files.read('/home/user/z', { gzip: true }), 'zipped '.repeat(1000)) })
await step('files.write stream', async () => { const st = new Blob(['st', 'ream']).stream(); await s.files.write('/home/user/st', st); eq(await s.files.read('/home/user/st'), 'stream') })
await step('files.read blob, stream, empty', async () => {
  eq(await (await s.files.read('/home/user/a.txt', { format: 'blob' })).text(), 'hi there')
  eq(await new Response(await s.files.read('/home/user/a.txt', { format: 'stream' })).text(), 'hi there')
  await s.files.write('/home/user/empty', ''); eq(await s.files.read('/home/user/empty'), '')
  eq((await s.files.read('/home/user/empty', { format: 'bytes' })).length, 0)
})
await step('files.read missing', async () => { try { await s.files.read('/nope'); throw new Error('no error') } catch (e) { if (!/NotFound/.test(e.name)) throw e } })
await step('files.write 8 MB', async () => { const d = new Uint8Array(8 << 20).fill(7); await s.files.write('/tmp/big', d.buffer); const b = await s.files.read('/tmp/big', { format: 'bytes' }); eq(b.length, d.length); eq(b[12345], 7) })
if (pkg === 'e2b') await refuse('files.write metadata', /metadata/, () => s.files.write('/home/user/meta', 'x', { metadata: { a: 'b' } }))
await step('files.makeDir', async () => { eq(await s.files.makeDir('/home/user/d/e'), true); eq(await s.files.makeDir('/home/user/d/e'), false) })
await step('files.list', async () => { const l = await s.files.list('/home/user/d'); eq(l.map((e) => [e.name, e.type]), [['e', 'dir']]); const deep = await s.files.list('/home/user', { depth: 2 }); if (!deep.some((e) => e.path === '/home/user/d/e')) throw new Error('no depth') })
await step('files.exists', async () => { eq([await s.files.exists('/home/user/a.txt'), await s.files.exists('/nope')], [true, false]) })
if (s.files.getInfo) await step('files.getInfo', async () => { const i = await s.files.getInfo('/home/user/a.txt'); eq([i.name, i.type, i.size, i.mode], ['a.txt', 'file', 8, 0o644]); await s.commands.run('ln -s a.txt /home/user/link'); const l = await s.files.getInfo('/home/user/link'); eq([l.symlinkTarget, l.type], ['a.txt', 'file']) })
await step('files.rename', async () => { eq((await s.files.rename('/home/user/a.txt', '/home/user/c.txt')).path, '/home/user/c.txt'); eq(await s.files.exists('/home/user/a.txt'), false) })
await step('files.rename missing', async () => { try { await s.files.rename('/nope', '/nope2'); throw new Error('no error') } catch (e) { if (!/NotFound/.test(e.name)) throw e } })
await step('files.watchDir', async () => {
  const events = []; const w = await s.files.watchDir('/home/user', (e) => { events.push(e) }, { recursive: true })
  await s.files.write('/home/user/d/new.txt', 'x'); await until(() => events.some((e) => e.name === 'd/new.txt' && e.type === FilesystemEventType.CREATE)); await s.files.remove('/home/user/d/new.txt'); await until(() => events.some((e) => e.type === FilesystemEventType.REMOVE)); await w.stop()
})
await step('files.remove', async () => { await s.files.remove('/home/user/d'); eq(await s.files.exists('/home/user/d'), false) })
await step('isRunning', async () => eq(await s.isRunning(), true))
await step('getHost', async () => { if (!s.getHost(3000).startsWith('3000-' + s.sandboxId)) throw new Error(s.getHost(3000)) })
// openPort asks the proxy of the server for a path: names below localhost are not resolved by Node.
const openPort = (host, path = '/x', headers = {}) => new Promise((resolve, reject) => {
  http.get({ host: '127.0.0.1', port: host.split(':')[1], path, headers: { Host: host, ...headers } }, (r) => { let text = ''; r.on('data', (b) => { text += b }); r.on('end', () => resolve(r.statusCode + ' ' + text)) }).on('error', reject)
})
const serveWeb = (t) => t.commands.run('mkdir -p /tmp/www && echo of a port > /tmp/www/x && cd /tmp/www && exec python3 -m http.server 3000 --bind 127.0.0.1', { background: true, timeoutMs: 0 })
await step('getHost: a port opens', async () => { const h = await serveWeb(s); await until(async () => await openPort(s.getHost(3000)) === '200 of a port\n'); await h.kill() })
if (pkg === 'e2b') await step('allowPublicTraffic: false', async () => {
  const t = await Sandbox.create({ network: { allowPublicTraffic: false } }); await serveWeb(t)
  await until(async () => await openPort(t.getHost(3000), '/x', { 'e2b-traffic-access-token': t.trafficAccessToken }) === '200 of a port\n'); eq((await openPort(t.getHost(3000))).slice(0, 3), '401'); await t.kill()
})
if (s.getInfo) await step('getInfo', async () => { const i = await s.getInfo(); eq([i.sandboxId, i.templateId, i.metadata.user, i.metadata.k, i.state ?? 'running'], [s.sandboxId, 'base', 'a b', 'ü&=', 'running']); if (!(i.endAt > new Date())) throw new Error(i.endAt) })
await step('setTimeout', async () => { await s.setTimeout(60_000); const i = await s.getInfo(); const left = i.endAt - Date.now(); if (left > 61_000 || left < 50_000) throw new Error('' + left) })
await step('Sandbox.setTimeout, getInfo', async () => { await Sandbox.setTimeout(s.sandboxId, 90_000); if (Sandbox.getInfo) eq((await Sandbox.getInfo(s.sandboxId)).sandboxId, s.sandboxId) })
if (s.getMetrics) await step('getMetrics', async () => { const m = await s.getMetrics(); if (!(m.length >= 1 && m[0].diskUsed > 0 && m[0].cpuCount > 0)) throw new Error(JSON.stringify(m)) })
await step('Sandbox.list with metadata', async () => {
  let p = Sandbox.list({ query: { metadata: { user: 'a b', k: 'ü&=' }, state: ['running', 'paused'] } }); let l = p.nextItems ? await p.nextItems() : await p
  if (!l.some((i) => i.sandboxId === s.sandboxId)) throw new Error(JSON.stringify(l))
  p = Sandbox.list({ query: { metadata: { user: 'nobody' } } }); l = p.nextItems ? await p.nextItems() : await p; eq(l.length, 0)
})
await step('Sandbox.list pages', async () => {
  const t = await Sandbox.create(); const p = Sandbox.list({ limit: 1 }); if (!p.nextItems) return t.kill(); const seen = []
  while (p.hasNext) { const l = await p.nextItems(); if (l.length > 1) throw new Error('too many'); seen.push(...l.map((i) => i.sandboxId)) }
  for (const id of [s.sandboxId, t.sandboxId]) if (!seen.includes(id)) throw new Error('missing ' + id)
  await t.kill()
})
if (s.uploadUrl) await step('uploadUrl, downloadUrl', async () => {
  const up = await s.uploadUrl('/home/user/up.txt', { useSignatureExpiration: 60 }); const f = new FormData(); f.append('file', new Blob(['signed']), 'up.txt')
  eq((await fetch(up, { method: 'POST', body: f })).status, 200)
  const down = await s.downloadUrl('/home/user/up.txt', { useSignatureExpiration: 60 }); eq(await (await fetch(down)).text(), 'signed')
  eq((await fetch(down.replace('up.txt', 'c.txt'))).status, 502)
  eq((await fetch(await s.downloadUrl('/home/user/up.txt'))).status, 200)
  eq((await fetch(await s.downloadUrl('/home/user/up.txt', { useSignatureExpiration: -10 }))).status, 502)
})
await step('connect', async () => { const t = await Sandbox.connect(s.sandboxId); eq((await t.commands.run('echo $FOO')).stdout, 'bar\n'); if (s.connect) await s.connect({ timeoutMs: 300_000 }) })
if (s.git) await step('git: every method', async () => {
  const g = s.git, at = { path: '/home/user/repo' }
  await g.init('/home/user/origin', { bare: true, initialBranch: 'main' }); await g.init('/home/user/repo', { initialBranch: 'main' })
  await g.configureUser('A', 'a@example.com', { scope: 'global' }); await g.setConfig('core.abbrev', '8', { scope: 'global' }); eq(await g.getConfig('core.abbrev', { scope: 'global' }), '8')
  await s.files.write('/home/user/repo/f', '1'); await g.add('/home/user/repo'); await g.commit('/home/user/repo', 'first')
  await g.remoteAdd('/home/user/repo', 'origin', '/home/user/origin'); eq(await g.remoteGet('/home/user/repo', 'origin'), '/home/user/origin')
  await g.push('/home/user/repo', { remote: 'origin', branch: 'main', setUpstream: true }); await g.pull('/home/user/repo', { remote: 'origin', branch: 'main' })
  await g.createBranch('/home/user/repo', 'b'); await g.checkoutBranch('/home/user/repo', 'main'); await g.deleteBranch('/home/user/repo', 'b', { force: true })
  eq((await g.branches('/home/user/repo')).currentBranch, 'main'); await s.files.write('/home/user/repo/f', '2'); eq((await g.status('/home/user/repo')).fileStatus.length, 1)
  await g.restore('/home/user/repo', { paths: ['f'] }); await g.reset('/home/user/repo', { mode: 'hard', target: 'HEAD' }); await g.clone('/home/user/origin', { path: '/home/user/cloned' })
  await g.dangerouslyAuthenticate({ username: 'u', password: 'p' })
})
if (s.updateNetwork) await step('updateNetwork', async () => { await s.updateNetwork({ allowOut: ['example.com'], denyOut: ['0.0.0.0/0'] }); const i = await s.getInfo(); eq(i.network.allowOut, ['example.com']); await s.updateNetwork({ allowInternetAccess: true }) })
if (s.pause || s.betaPause) await step('pause, connect', async () => {
  const h = await s.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
  const pause = s.pause ? s.pause.bind(s) : s.betaPause.bind(s)
  eq(await pause(), true); eq(await (s.pause ? s.pause() : s.betaPause()), false); eq(await s.isRunning(), false)
  const p = Sandbox.list({ query: { state: ['paused'] } }); if (p.nextItems && !(await p.nextItems()).some((i) => i.sandboxId === s.sandboxId)) throw new Error('not listed')
  const t = await Sandbox.connect(s.sandboxId, { timeoutMs: 120_000 }); eq(await t.files.read('/home/user/c.txt'), 'hi there')
  if (!(await t.commands.list()).some((p) => p.pid === h.pid)) throw new Error('the process did not survive')
  await h.kill()
})
if (s.betaPause && s.pause) await step('betaPause', async () => { eq(await s.betaPause(), true); await s.connect() })
if (s.pause && pkg === 'e2b') await step('pause without memory', async () => { eq(await s.pause({ keepMemory: false }), true); await s.connect(); eq(await s.files.read('/home/user/c.txt'), 'hi there') })
if (s.createSnapshot) await step('createSnapshot, listSnapshots, create of it, deleteSnapshot', async () => {
  const sn = await s.createSnapshot({ name: 'mysnap' }); const l = await s.listSnapshots().nextItems(); if (!l.some((i) => i.snapshotId === sn.snapshotId)) throw new Error(JSON.stringify([sn, l]))
  if (!(await Sandbox.listSnapshots().nextItems()).length) throw new Error('none')
  const t = await Sandbox.create(sn.snapshotId); eq(await t.files.read('/home/user/c.txt'), 'hi there'); await t.kill()
  const u = await Sandbox.create('mysnap'); await u.kill()
  eq(await Sandbox.deleteSnapshot(sn.snapshotId), true); eq(await Sandbox.deleteSnapshot(sn.snapshotId), false)
})
if (s.fork) await step('fork', async () => { const f = await s.fork({ count: 2 }); eq(f.length, 2); for (const t of f) { if (t instanceof Error) throw t; eq(await t.files.read('/home/user/c.txt'), 'hi there'); await t.kill() } })
if (s.getMcpUrl) await step('getMcpUrl', async () => { if (!s.getMcpUrl().startsWith('https://50005-' + s.sandboxId)) throw new Error(s.getMcpUrl()) })
if (s.getMcpToken) await refuse('getMcpToken', /not found|denied/i, () => s.getMcpToken())
if (pkg === 'e2b') await refuse('Sandbox.create mcp', /mcp/, () => Sandbox.create({ mcp: { browserbase: {} } }))
if (e2b.Template) {
  const { Template, waitForFile } = e2b
  const build = (t, name, o = {}) => pkg === 'e2b28' ? Template.build(t, { alias: name, ...o }) : Template.build(t, name, o)
  await step('Template.build, start command, create', async () => {
    const logs = []; const t = Template().fromBaseImage().setEnvs({ BUILT: 'yes' }).setWorkdir('/home/user/app').runCmd('echo $BUILT > built.txt; echo out of the build').setStartCmd('touch /tmp/started; sleep 1000', waitForFile('/tmp/started'))
    const b = await build(t, 'mytemplate', { cpuCount: 1, memoryMB: 512, onBuildLogs: (l) => logs.push(l.message) }); if (!logs.some((l) => l.includes('out of the build'))) throw new Error(logs.join('\n'))
    const x = await Sandbox.create('mytemplate'); eq((await x.commands.run('cat /home/user/app/built.txt; ls /tmp/started')).stdout, 'yes\n/tmp/started\n'); await x.kill()
    if (Template.exists) { eq(await Template.exists('mytemplate'), true); eq(await Template.exists('nope'), false) }
    if (Template.aliasExists) eq(await Template.aliasExists('mytemplate'), true)
    if (Template.assignTags) { await Template.assignTags('mytemplate:latest', ['v1']); const tags = await Template.getTags('mytemplate'); if (!tags.some((t) => t.tag === 'v1')) throw new Error(JSON.stringify(tags)); await Template.removeTags('mytemplate', ['v1']) }
    const of = await build(Template().fromTemplate('mytemplate').runCmd('test -f /home/user/app/built.txt'), 'second'); void of
  })
  await step('Template.buildInBackground, getBuildStatus', async () => { const b = await Template.buildInBackground(Template().fromBaseImage().runCmd('true'), pkg === 'e2b28' ? { alias: 'background' } : 'background'); for (;;) { const st = await Template.getBuildStatus(b); if (st.status === 'ready') break; if (st.status === 'error') throw new Error(JSON.stringify(st)); await sleep(100) } })
  await step('Template.build that fails', async () => { try { await build(Template().fromBaseImage().runCmd('exit 7'), 'failing'); throw new Error('no error') } catch (e) { if (!/exit status 7/.test(e.message)) throw e } })
  await step('Template.toJSON, toDockerfile', async () => { const t = Template().fromImage('debian:12').runCmd('true'); JSON.parse(await Template.toJSON(t)); Template.toDockerfile(t) })
}
if (e2b.Volume) {
  const { Volume } = e2b; let v; const name = 'vol-' + Date.now()
  await step('Volume.create, connect, getInfo, list', async () => { v = await Volume.create(name); eq((await Volume.getInfo(v.volumeId)).name, name); v = await Volume.connect(v.volumeId); if (!(await Volume.list()).some((x) => x.name === name)) throw new Error('not listed') })
  await step('volume: files', async () => {
    await v.makeDir('/d'); await v.writeFile('/d/f', 'text'); eq(await v.readFile('/d/f'), 'text'); eq((await v.list('/d')).map((e) => e.name), ['f']); eq((await v.getInfo('/d/f')).size, 4); eq([await v.exists('/d/f'), await v.exists('/x')], [true, false])
    eq([...await v.readFile('/d/f', { format: 'bytes' })], [...new TextEncoder().encode('text')])
  })
  await refuse('volume.updateMetadata', /not support/, () => v.updateMetadata('/d/f', { mode: 0o600 }))
  await step('Sandbox.create with a volume', async () => { const t = await Sandbox.create({ volumeMounts: { '/mnt/v': v } }); eq((await t.commands.run('cat /mnt/v/d/f; echo more > /mnt/v/g')).stdout, 'text'); eq(await v.readFile('/g'), 'more\n'); await t.kill() })
  await step('volume.remove, Volume.destroy', async () => { await v.remove('/d'); eq(await v.exists('/d'), false); eq(await Volume.destroy(v.volumeId), true); eq(await Volume.destroy(v.volumeId), false) })
}
if (e2b.Secret) for (const m of ['create', 'update', 'getInfo', 'exists', 'destroy']) await refuse('Secret.' + m, /not support/, () => m === 'create' ? e2b.Secret.create('n', 'v') : m === 'update' ? e2b.Secret.update('n', 'v') : e2b.Secret[m]('n'))
if (e2b.Secret) await refuse('Secret.list', /not support/, () => e2b.Secret.list().nextItems())
await step('autoPause at the timeout, then connect', async () => {
  const t = await Sandbox.create(pkg === 'e2b' ? { timeoutMs: 3000, lifecycle: { onTimeout: 'pause' } } : { timeoutMs: 3000, autoPause: true })
  if (pkg !== 'e2b' && pkg !== 'e2b225') return t.kill()
  if (pkg === 'e2b225') { await t.kill(); return }
  await t.files.write('/home/user/kept', '1'); await until(async () => !(await t.isRunning())); const u = await Sandbox.connect(t.sandboxId, { timeoutMs: 60_000 }); eq(await u.files.read('/home/user/kept'), '1'); await u.kill()
})
await step('timeout kills', async () => { const t = await Sandbox.create({ timeoutMs: 1000 }); await until(async () => !(await t.isRunning())); try { await t.commands.run('true'); throw new Error('no error') } catch (e) { if (!/^(TimeoutError|SandboxNotFoundError|NotFoundError)$/.test(e.name)) throw e } })
await step('20 calls at once', async () => { const r = await Promise.all([...Array(20).keys()].map((i) => s.commands.run('echo ' + i))); eq(r.map((x) => x.stdout), [...Array(20).keys()].map((i) => i + '\n')) })
await step('kill', async () => { eq(await s.kill() ?? true, true); eq(await s.kill() ?? false, false); eq(await Sandbox.kill(s.sandboxId), false); eq(await s.isRunning(), false) })
await step('a dead sandbox', async () => { for (const f of [() => s.commands.run('true'), () => s.files.read('/x'), () => s.files.list('/')]) { try { await f(); throw new Error('no error') } catch (e) { if (!/^(TimeoutError|SandboxNotFoundError|NotFoundError)$/.test(e.name)) throw e } } })
await step('another key', async () => { try { await Sandbox.create({ apiKey: 'e2b_' + '0'.repeat(40) }); throw new Error('no error') } catch (e) { eq(e.name, 'AuthenticationError') } })
console.log(JSON.stringify({ package: pkg, ok, failed, refused }))
process.exit(failed ? 1 : 0)
