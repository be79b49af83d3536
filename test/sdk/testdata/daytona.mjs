// Calls every public method of the classes of an SDK of Daytona and reports each.
import fs from 'node:fs'
import http from 'node:http'
import os from 'node:os'
import path from 'node:path'
const pkg = process.argv[2] || '@daytona/sdk'
const sdk = await import(pkg)
const { Daytona, Image } = sdk
let ok = 0, failed = 0
const refused = [], missing = []
const step = async (name, f) => {
  const t = Date.now()
  try { await f(); ok++; console.log('ok', name, Date.now() - t + 'ms') } catch (e) { failed++; console.log('FAILED', name, e && e.stack || e, e && e.statusCode || '') }
}
// A call that the server refuses, with its reason.
const refuse = (name, want, f) => step(name, async () => {
  try { await f() } catch (e) { if (!String(e.message).match(want)) throw e; refused.push(name); return }
  throw new Error('it was not refused')
})
// A method that older versions do not have is named in the report.
const has = (o, m) => { if (o && typeof o[m] === 'function') return true; missing.push((o && o.constructor && o.constructor.name || '?') + '.' + m); return false }
const eq = (a, b) => { if (JSON.stringify(a) !== JSON.stringify(b)) throw new Error(JSON.stringify(a) + ' is not ' + JSON.stringify(b)) }
const truth = (v, what) => { if (!v) throw new Error('not true: ' + JSON.stringify(what)) }
const sleep = (ms) => new Promise((r) => setTimeout(r, ms))
const until = async (f) => { for (let i = 0; i < 400; i++) { if (await f()) return; await sleep(25) } throw new Error('it did not happen') }
const fails = async (f, want) => { try { await f() } catch (e) { if (want && !want(e)) throw e; return } throw new Error('no error') }

const d = new Daytona()
const tag = 't' + Date.now()
const all = async (q) => { const r = d.list(q); if (r[Symbol.asyncIterator]) { const l = []; for await (const s of r) l.push(s); return l } return (await r).items ?? await r }
const listOf = (labels) => pkg === '@daytona/sdk' || pkg === '@daytonaio/sdk' ? all({ labels }) : all(labels)
let s
await step('Daytona.create', async () => { s = await d.create({ name: tag, labels: { a: 'b', tag }, envVars: { FOO: 'bar' }, autoStopInterval: 5 }); eq([s.state, s.labels.a, s.name ?? tag, s.autoStopInterval], ['started', 'b', tag, 5]) })
await step('Daytona.get by id and name', async () => { eq((await d.get(s.id)).id, s.id); eq((await d.get(tag)).id, s.id) })
await step('Daytona.get missing', () => fails(() => d.get('nothing-such'), (e) => /not found/i.test(e.message)))
await step('Daytona.list', async () => { const l = await listOf({ tag }); eq(l.map((x) => x.id), [s.id]); eq((await listOf({ tag: 'other' })).length, 0) })
if (has(d, 'findOne')) await step('Daytona.findOne', async () => eq((await d.findOne({ labels: { tag } })).id, s.id))

const p = s.process
await step('process.executeCommand', async () => { const r = await p.executeCommand('echo out; echo err >&2; echo $FOO $X; pwd; exit 4', '/tmp', { X: 'y' }, 10); eq(r.exitCode, 4); eq(r.result.split('\n').sort(), ['', '/tmp', 'bar y', 'err', 'out']) })
await step('process.executeCommand timeout', async () => { const t = Date.now(); await fails(() => p.executeCommand('sleep 30 & sleep 30', undefined, undefined, 1)); truth(Date.now() - t < 8000, 'too late') })
await step('process.executeCommand 3 MB', async () => eq((await p.executeCommand('head -c 3000000 /dev/zero | tr "\\0" x')).result.length, 3000000))
await step('process.codeRun', async () => { const r = await p.codeRun('import sys, os\nprint(1+1, sys.argv[1:], os.environ["A"])', { argv: ['x'], env: { A: '1' } }); eq(r.exitCode, 0); eq(r.result.trim(), "2 ['x'] 1") })
await step('process.createSession, getSession, listSessions', async () => { await p.createSession('s1'); eq((await p.getSession('s1')).sessionId, 's1'); truth((await p.listSessions()).some((x) => x.sessionId === 's1')) })
await step('process.createSession twice', () => fails(() => p.createSession('s1')))
let cmd
await step('process.executeSessionCommand', async () => {
  cmd = await p.executeSessionCommand('s1', { command: "cd /tmp; X='a b'; echo hi; echo e >&2" }); eq([cmd.exitCode, cmd.stdout, cmd.stderr], [0, 'hi\n', 'e\n'])
  const r = await p.executeSessionCommand('s1', { command: 'pwd; echo "$X"; false' }); eq([r.exitCode, r.stdout ?? r.output], [1, '/tmp\na b\n'])
  eq((await p.executeSessionCommand('s1', { command: 'exit 7' })).exitCode, 7); eq((await p.executeSessionCommand('s1', { command: 'cat <<X\nhere\nX' })).stdout, 'here\n')
})
await step('process.getSessionCommand', async () => { const k = await p.getSessionCommand('s1', cmd.cmdId); eq([k.id, k.exitCode], [cmd.cmdId, 0]) })
await step('process.getSessionCommandLogs', async () => { const l = await p.getSessionCommandLogs('s1', cmd.cmdId); eq([l.stdout, l.stderr], ['hi\n', 'e\n']) })
await step('process.getSessionCommandLogs stream', async () => {
  const k = await p.executeSessionCommand('s1', { command: 'for i in 1 2 3; do echo $i; echo e$i >&2; sleep 0.1; done', runAsync: true }); let o = '', e = ''
  await p.getSessionCommandLogs('s1', k.cmdId, (x) => { o += x }, (x) => { e += x }); eq([o, e], ['1\n2\n3\n', 'e1\ne2\ne3\n'])
})
await step('process.getSessionCommandLogs 3 MB', async () => { const k = await p.executeSessionCommand('s1', { command: 'head -c 3000000 /dev/zero | tr "\\0" x', runAsync: true }); let n = 0; await p.getSessionCommandLogs('s1', k.cmdId, (x) => { n += x.length }, () => {}); eq(n, 3000000) })
if (has(p, 'sendSessionCommandInput')) await step('process.sendSessionCommandInput', async () => { const k = await p.executeSessionCommand('s1', { command: 'read a; echo got $a', runAsync: true }); await until(async () => { try { await p.sendSessionCommandInput('s1', k.cmdId, 'zz\n'); return true } catch (e) { return false } }); let o = ''; await p.getSessionCommandLogs('s1', k.cmdId, (x) => { o += x }, () => {}); eq(o, 'got zz\n') })
if (has(p, 'getEntrypointSession')) await step('process.getEntrypointSession', async () => eq((await p.getEntrypointSession()).sessionId, 'entrypoint'))
if (has(p, 'getEntrypointLogs')) await step('process.getEntrypointLogs', async () => { eq((await p.getEntrypointLogs()).output, ''); await p.getEntrypointLogs(() => {}, () => {}) })
await step('process.deleteSession', async () => { await p.executeSessionCommand('s1', { command: 'sleep 1000', runAsync: true }); await p.deleteSession('s1'); await fails(() => p.getSession('s1')) })
await step('process.createPty, PtyHandle', async () => {
  let out = ''; const dec = new TextDecoder(); const h = await p.createPty({ id: 'p1', cols: 80, rows: 24, envs: { ZZ: 'q' }, onData: (b) => { out += dec.decode(b) } })
  await h.waitForConnection(); eq(h.isConnected(), true); await h.sendInput('stty size; echo m$((1+1))k $ZZ\n'); await until(() => out.includes('m2k q') && out.includes('24 80'))
  await h.resize(101, 31); await h.sendInput('stty size\n'); await until(() => out.includes('31 101'))
  truth((await p.listPtySessions()).some((x) => x.id === 'p1')); eq((await p.getPtySessionInfo('p1')).cols, 101); eq((await p.resizePtySession('p1', 90, 20)).rows, 20)
  let o2 = ''; const h2 = await p.connectPty('p1', { onData: (b) => { o2 += dec.decode(b) } }); await h2.waitForConnection(); await h2.sendInput('echo aga$((1))in\n'); await until(() => o2.includes('aga1in')); await h2.disconnect()
  await h.sendInput('exit 5\n'); eq((await h.wait()).exitCode, 5); await h.disconnect()
})
await step('PtyHandle.kill, process.killPtySession', async () => { const h = await p.createPty({ id: 'p2', onData: () => {} }); await h.waitForConnection(); await h.kill(); await h.wait(); const g = await p.createPty({ id: 'p3', onData: () => {} }); await g.waitForConnection(); await p.killPtySession('p3'); await g.wait() })

const ci = s.codeInterpreter
if (has(ci, 'runCode')) {
  await step('codeInterpreter.runCode', async () => { let o = ''; const r = await ci.runCode('x = 41\nprint(x + 1)', { onStdout: (m) => { o += m.output } }); eq([r.stdout, o], ['42\n', '42\n']); eq((await ci.runCode('print(x)')).stdout, '41\n') })
  await step('codeInterpreter.runCode error', async () => { const r = await ci.runCode('1/0'); eq(r.error.name, 'ZeroDivisionError') })
  await step('codeInterpreter.runCode timeout', () => fails(() => ci.runCode('import time; time.sleep(60)', { timeout: 1 }), (e) => /time/i.test(e.message)))
  await step('codeInterpreter contexts', async () => { const c = await ci.createContext('/tmp'); eq((await ci.runCode('import os; y = 1; print(os.getcwd())', { context: c })).stdout, '/tmp\n'); truth((await ci.listContexts()).some((x) => x.id === c.id)); await ci.deleteContext(c); truth(!(await ci.listContexts()).some((x) => x.id === c.id)) })
}

const f = s.fs
const tmp = fs.mkdtempSync(path.join(os.tmpdir(), 'daytona-'))
await step('fs.uploadFile, downloadFile', async () => {
  await f.uploadFile(Buffer.from('hello'), 'a.txt'); eq((await f.downloadFile('a.txt')).toString(), 'hello')
  fs.writeFileSync(tmp + '/local', 'of a file'); await f.uploadFile(tmp + '/local', '/home/daytona/b.txt'); await f.downloadFile('/home/daytona/b.txt', tmp + '/back'); eq(fs.readFileSync(tmp + '/back', 'utf8'), 'of a file')
})
await step('fs.uploadFile 8 MB', async () => { const b = Buffer.alloc(8 << 20, 7); await f.uploadFile(b, '/tmp/big'); const r = await f.downloadFile('/tmp/big'); eq([r.length, r[12345]], [b.length, 7]) })
await step('fs.downloadFile missing', () => fails(() => f.downloadFile('/nope')))
await step('fs.uploadFiles', async () => { await f.uploadFiles([{ source: Buffer.from('1'), destination: 'm/one "q".txt' }, { source: Buffer.from('2'), destination: 'm/zwei ü.txt' }]); eq((await f.downloadFile('m/zwei ü.txt')).toString(), '2') })
if (has(f, 'downloadFiles')) await step('fs.downloadFiles', async () => { const r = await f.downloadFiles([{ source: 'a.txt' }, { source: '/nope' }]); eq(r[0].result.toString(), 'hello'); truth(r[1].error, r) })
if (has(f, 'uploadFileStream')) await step('fs.uploadFileStream', async () => { await f.uploadFileStream(fs.createReadStream(tmp + '/local'), 'st.txt'); eq((await f.downloadFile('st.txt')).toString(), 'of a file') })
if (has(f, 'downloadFileStream')) await step('fs.downloadFileStream', async () => { let o = ''; for await (const b of await f.downloadFileStream('a.txt')) o += b; eq(o, 'hello') })
await step('fs.createFolder, listFiles', async () => { await f.createFolder('dir/sub', '755'); truth((await f.listFiles('dir')).some((x) => x.name === 'sub' && x.isDir)) })
await step('fs.getFileDetails', async () => { const i = await f.getFileDetails('a.txt'); eq([i.name, i.size, i.isDir], ['a.txt', 5, false]) })
await step('fs.findFiles', async () => { const m = await f.findFiles('/home/daytona', 'hell'); truth(m.some((x) => x.file.endsWith('/a.txt') && x.line === 1 && x.content === 'hello'), m) })
await step('fs.searchFiles', async () => truth((await f.searchFiles('/home/daytona', '*.txt')).files.some((x) => x.endsWith('/a.txt'))))
await step('fs.replaceInFiles', async () => { const r = await f.replaceInFiles(['a.txt', '/nope'], 'hello', 'bye'); eq([r[0].success, r[1].success], [true, false]); eq((await f.downloadFile('a.txt')).toString(), 'bye') })
await step('fs.setFilePermissions', async () => { await f.setFilePermissions('a.txt', { mode: '600' }); eq((await p.executeCommand('stat -c %a /home/daytona/a.txt')).result, '600\n') })
await step('fs.moveFiles', async () => { await f.moveFiles('a.txt', 'c.txt'); eq((await f.downloadFile('c.txt')).toString(), 'bye') })
await step('fs.deleteFile', async () => { await f.deleteFile('c.txt'); await fails(() => f.getFileDetails('c.txt')); if (f.deleteFile.length > 1) await f.deleteFile('dir', true) })

const g = s.git
await p.executeCommand('git init -q --bare -b main origin; git clone -q origin seed; cd seed; git config user.name n; git config user.email e@x; git checkout -qb main; echo 1 > f; git add f; git commit -qm first; git push -q origin main', '/home/daytona')
await step('git.clone, status, add, commit, push, pull', async () => {
  await g.clone('/home/daytona/origin', 'repo'); eq((await g.status('repo')).currentBranch, 'main'); await f.uploadFile(Buffer.from('x'), 'repo/new'); const st = await g.status('repo'); truth(st.fileStatus.some((x) => x.name === 'new' && x.worktree === 'Untracked'), st)
  await g.add('repo', ['new']); const c = await g.commit('repo', 'second', 'me', 'me@x'); truth((c.sha ?? c.hash).length === 40, c); eq((await g.status('repo')).ahead, 1); await g.push('repo'); await g.pull('repo')
})
await step('git.branches, createBranch, checkoutBranch, deleteBranch', async () => { await g.createBranch('repo', 'b'); await g.checkoutBranch('repo', 'b'); truth((await g.branches('repo')).branches.includes('b')); await g.checkoutBranch('repo', 'main'); await g.deleteBranch('repo', 'b'); truth(!(await g.branches('repo')).branches.includes('b')) })
await step('git.status without a repository', () => fails(() => g.status('/tmp')))
if (has(g, 'init')) await step('git.init', () => g.init('fresh', false, 'trunk'))
if (has(g, 'reset')) await step('git.reset', () => g.reset('repo', 'hard', 'HEAD'))
if (has(g, 'restore')) await step('git.restore', async () => { await f.uploadFile(Buffer.from('2'), 'repo/f'); await g.restore('repo', ['f']); eq((await f.downloadFile('repo/f')).toString(), '1\n') })
if (has(g, 'remoteAdd')) await step('git.remoteAdd, remotes, remoteGet', async () => { await g.remoteAdd('repo', 'second', '/home/daytona/origin'); const r = await g.remotes('repo'); truth((r.remotes ?? r).length === 2, r); eq(await g.remoteGet('repo', 'second'), '/home/daytona/origin') })
if (has(g, 'setConfig')) await step('git.setConfig, getConfig, configureUser', async () => { await g.setConfig('core.abbrev', '8'); eq(await g.getConfig('core.abbrev'), '8'); await g.configureUser('n', 'e@x', 'local', 'repo'); eq(await g.getConfig('user.name', 'local', 'repo'), 'n') })
if (has(g, 'dangerouslyAuthenticate')) await step('git.dangerouslyAuthenticate', () => g.dangerouslyAuthenticate('u', 'secret', 'git.example.com'))

for (const m of ['getUserHomeDir', 'getUserRootDir', 'getWorkDir']) if (has(s, m)) await step('sandbox.' + m, async () => eq(await s[m](), '/home/daytona'))
await step('sandbox.setLabels', async () => { await s.setLabels({ tag, z: '1' }); await s.refreshData(); eq([s.labels.z, s.labels.a], ['1', undefined]) })
await step('sandbox.setAutostopInterval', async () => { await s.setAutostopInterval(30); await s.refreshData(); eq(s.autoStopInterval, 30) })
await step('sandbox.setAutoArchiveInterval', () => s.setAutoArchiveInterval(60))
if (has(s, 'setAutoDeleteInterval')) await step('sandbox.setAutoDeleteInterval', async () => { await s.setAutoDeleteInterval(60); await s.refreshData(); eq(s.autoDeleteInterval, 60); await s.setAutoDeleteInterval(-1) })
if (has(s, 'setAutoPauseInterval')) await step('sandbox.setAutoPauseInterval', async () => { await s.setAutoPauseInterval(5); await s.refreshData(); eq([s.autoPauseInterval, s.autoStopInterval], [5, 0]); await s.setAutoPauseInterval(0); await s.setAutostopInterval(30) })
if (has(s, 'setTtl')) await step('sandbox.setTtl', async () => { await s.setTtl(60); await s.setTtl(0) })
if (has(s, 'refreshActivity')) await step('sandbox.refreshActivity', () => s.refreshActivity())
if (has(s, 'getMetricsLatest')) await step('sandbox.getMetricsLatest', async () => { const m = await s.getMetricsLatest(); truth(m.cpuCount > 0, m) })
if (has(s, 'getMetrics')) await refuse('sandbox.getMetrics', /./, () => s.getMetrics(new Date(Date.now() - 60000), new Date()))
if (has(s, 'updateNetworkSettings')) await step('sandbox.updateNetworkSettings', async () => { await s.updateNetworkSettings({ networkBlockAll: true }); await s.refreshData(); eq(s.networkBlockAll, true); await s.updateNetworkSettings({ networkBlockAll: false }) })
if (has(s, 'updateSecrets')) await refuse('sandbox.updateSecrets', /not support/, () => s.updateSecrets({ A: 'b' }))
if (has(s, 'updateEnv')) await refuse('sandbox.updateEnv', /not support/, () => s.updateEnv({ A: 'b' }))
await p.createSession('web'); await p.executeSessionCommand('web', { command: 'mkdir -p /tmp/www && echo of a port > /tmp/www/x && cd /tmp/www && exec python3 -m http.server 3000 --bind 127.0.0.1', runAsync: true })
// openPort asks the proxy of the server for a path: names below localhost are not resolved by Node.
const openPort = (url, path = '/x', headers = {}) => new Promise((resolve, reject) => {
  http.get({ host: '127.0.0.1', port: new URL(url).port, path, headers: { Host: new URL(url).host, ...headers } }, (r) => { let text = ''; r.on('data', (b) => { text += b }); r.on('end', () => resolve(r.statusCode + ' ' + text)) }).on('error', reject)
})
await step('sandbox.getPreviewLink', async () => {
  const l = await s.getPreviewLink(3000); eq((await openPort(l.url)).slice(0, 3), '401'); await until(async () => await openPort(l.url, '/x', { 'x-daytona-preview-token': l.token }) === '200 of a port\n')
  eq(await openPort(l.url, '/x?DAYTONA_SANDBOX_AUTH_KEY=' + l.token), '200 of a port\n'); eq((await openPort(l.url, '/x', { 'x-daytona-preview-token': l.token + '0' })).slice(0, 3), '401')
})
if (has(s, 'getSignedPreviewUrl')) await step('sandbox.getSignedPreviewUrl, expireSignedPreviewUrl', async () => {
  const l = await s.getSignedPreviewUrl(3000, 60); eq(await openPort(l.url), '200 of a port\n'); eq((await openPort(l.url.replace('3000-', '3001-'))).slice(0, 3), '401')
  await s.expireSignedPreviewUrl(3000, l.token); eq((await openPort(l.url)).slice(0, 3), '401'); await fails(() => s.expireSignedPreviewUrl(3000, l.token))
  const short = await s.getSignedPreviewUrl(3000, 1); await until(async () => (await openPort(short.url)).startsWith('401'))
})
await step('Daytona.create of a public sandbox', async () => {
  const x = await d.create({ public: true }); eq(x.public, true); await x.process.createSession('web'); await x.process.executeSessionCommand('web', { command: 'cd /etc && exec python3 -m http.server 3000 --bind 127.0.0.1', runAsync: true })
  const l = await x.getPreviewLink(3000); await until(async () => (await openPort(l.url, '/passwd')).startsWith('200')); await x.delete()
})
await p.deleteSession('web')
if (has(s, 'downloadUrl')) await step('sandbox.downloadUrl, uploadUrl, rotateSigningKey', async () => {
  const u = await s.downloadUrl('/home/daytona/b.txt', 60); eq(await (await fetch(u)).text(), 'of a file'); eq((await fetch(u.replace('b.txt', 'm'))).status, 401)
  const body = new FormData(); body.append('file', new Blob(['up'])); const r = await fetch(await s.uploadUrl('/home/daytona/signed', 60), { method: 'POST', body }); eq(r.status, 200); eq((await f.downloadFile('signed')).toString(), 'up')
  await s.rotateSigningKey(); eq((await fetch(u)).status, 401)
})
if (has(s, 'createSshAccess')) for (const [m, a] of [['createSshAccess', 10], ['revokeSshAccess', 'x'], ['validateSshAccess', 'x']]) await refuse('sandbox.' + m, /not support/, () => s[m](a))
if (has(s, 'createLspServer')) { const l = await s.createLspServer('python', 'repo'); for (const [m, ...a] of [['start'], ['didOpen', 'f'], ['didClose', 'f'], ['documentSymbols', 'f'], ['sandboxSymbols', 'x'], ['completions', 'f', { line: 0, character: 0 }], ['stop']]) await refuse('lsp.' + m, /not support/, () => l[m](...a)) }
if (has(s.computerUse, 'start')) await refuse('computerUse.start', /not support/, () => s.computerUse.start())
if (has(s, 'resize')) await refuse('sandbox.resize', /not support/, () => s.resize({ cpu: 7 }))
if (has(s, 'fork')) await step('sandbox.fork, Daytona.fork', async () => { const x = await s.fork({ name: tag + '-fork' }); eq((await x.fs.downloadFile('b.txt')).toString(), 'of a file'); await x.delete(); const y = await d.fork(s); await d.delete(y) })
let snap
if (has(s, 'createSnapshot')) await step('sandbox.createSnapshot, snapshot.get, create of it, snapshot.delete', async () => { await s.createSnapshot(tag + '-snap'); snap = await d.snapshot.get(tag + '-snap'); const x = await d.create({ snapshot: tag + '-snap' }); eq((await x.fs.downloadFile('b.txt')).toString(), 'of a file'); await x.delete(); await d.snapshot.delete(snap); await fails(() => d.snapshot.get(tag + '-snap')) })
if (has(d.snapshot, 'create')) {
  const image = Image.base('daytonaio/sandbox:0.6.0').workdir('/home/daytona/app').runCommands('echo built > built', 'echo out of the build').env({ BUILT: 'yes' })
  await step('snapshot.create of a Dockerfile', async () => {
    let logs = ''; snap = await d.snapshot.create({ name: tag + '-image', image }, { onLogs: (x) => { logs += x }, timeout: 60 }); eq(snap.state, 'active'); truth(logs.includes('out of the build'), logs)
    const x = await d.create({ snapshot: tag + '-image' }); eq((await x.process.executeCommand('cat built; echo $BUILT; pwd')).result, 'built\nyes\n/home/daytona/app\n'); await x.delete()
  })
  await step('snapshot.list, get, activate, delete', async () => { truth((await d.snapshot.list()).items.some((x) => x.name === tag + '-image')); const x = await d.snapshot.get(tag + '-image'); if (d.snapshot.activate) await d.snapshot.activate(x); await d.snapshot.delete(x) })
  await step('snapshot.create that fails', () => fails(() => d.snapshot.create({ name: tag + '-bad', image: Image.base('daytonaio/sandbox:0.6.0').runCommands('exit 7') }, { timeout: 60 })))
  await step('Daytona.create of an image', async () => { const x = await d.create({ image }, { timeout: 60 }); eq((await x.process.executeCommand('cat built; echo $BUILT')).result, 'built\nyes\n'); await x.delete() })
  await refuse('Image.addLocalFile', /not support/, () => d.create({ image: Image.base('daytonaio/sandbox:0.6.0').addLocalFile(tmp + '/local', '/x') }))
}
if (has(d.volume, 'create')) await step('volume.create, get, list, mount, delete', async () => {
  const v = await d.volume.create(tag + '-vol'); eq((await d.volume.get(tag + '-vol')).id, v.id); eq((await d.volume.get(tag + '-vol2', true)).name, tag + '-vol2'); truth((await d.volume.list()).length >= 2)
  const x = await d.create({ volumes: [{ volumeId: v.id, mountPath: '/data' }] }); await x.process.executeCommand('echo kept > /data/f'); await x.delete(); const y = await d.create({ volumes: [{ volumeId: v.id, mountPath: '/data' }] }); eq((await y.process.executeCommand('cat /data/f')).result, 'kept\n'); await y.delete()
  await d.volume.delete(v); await d.volume.delete(await d.volume.get(tag + '-vol2'))
})
if (has(d.secret, 'list')) for (const [m, ...a] of [['list'], ['get', 'x'], ['create', { name: 'n', value: 'v' }], ['update', 'x', { value: 'v' }], ['delete', 'x']]) await refuse('secret.' + m, /not support/, () => d.secret[m](...a))
if (has(d.warmPool, 'list')) for (const [m, ...a] of [['list'], ['create', { snapshot: 'x', target: 'local', pool: 1 }], ['update', 'x', { pool: 1 }], ['delete', 'x']]) await refuse('warmPool.' + m, /not support/, () => d.warmPool[m](...a))
if (has(s, 'pause')) await step('sandbox.pause, start', async () => { await s.pause(); await s.start(); eq(s.state, 'started') })
await step('sandbox.stop, waitUntilStopped, archive, start, waitUntilStarted', async () => { await s.stop(); await s.waitUntilStopped(); eq(s.state, 'stopped'); await fails(() => p.executeCommand('true')); await s.archive(); await s.refreshData(); eq(s.state, 'archived'); await s.start(); await s.waitUntilStarted(); eq((await f.downloadFile('b.txt')).toString(), 'of a file') })
if (pkg.startsWith('@')) await step('events: a stop from another client is seen', async () => {
  const waits = s.waitUntilStopped(30); await (await new Daytona().get(s.id)).stop(); await waits; eq(s.state, 'stopped'); await s.start()
})
if (has(s, 'recover')) await step('sandbox.recover', () => s.recover())
await step('Daytona.stop, start', async () => { await d.stop(s); await d.start(s) })
await step('20 calls at once', async () => { const r = await Promise.all([...Array(20).keys()].map((i) => p.executeCommand('echo ' + i))); eq(r.map((x) => x.result), [...Array(20).keys()].map((i) => i + '\n')) })
await step('another key', () => fails(() => new Daytona({ apiKey: 'dtn_' + '0'.repeat(40) }).get(s.id)))
await step('sandbox.delete, Daytona.delete', async () => { const x = await d.create({ ephemeral: true }); await d.delete(x); await s.delete(); await fails(() => d.get(tag)) })
await step('a deleted sandbox', async () => { await fails(() => p.executeCommand('true')); await fails(() => f.downloadFile('b.txt')) })
fs.rmSync(tmp, { recursive: true })
console.log(JSON.stringify({ package: pkg, ok, failed, refused, missing }))
process.exit(failed ? 1 : 0)
