// Views of what is not one sandbox.

import { useEffect, useState } from 'preact/hooks'
import { label } from '../dom'
import { QuotaForm, resources } from './admin'
import { Files } from './files'
import { age, bytes, confirm, Empty, Label, path, Problem, Table, useAct, useAsk, useShared } from './parts'
import type { Owner } from './types'

interface Workspace { name: string; bytes?: number; files?: number; used?: string; expires?: string; sandboxes?: string[] }
interface Token { id: string; name?: string; owner: Owner; scopes?: string[]; created?: string; expires?: string; used?: string; secret?: string; provider?: string; subject?: string; link?: { sandbox: string } }
interface Quota { [name: string]: number | undefined }
interface Allowance { owner: Owner; limit: Quota; used: Quota }
interface Audited { id: number; time: string; owner: Owner; action: string; object?: string; outcome: string; detail?: string }

const scopeSets: Record<string, string[]> = { read: ['read'], run: ['read', 'run'], admin: ['read', 'run', 'host', 'admin'] }

const who = (o: Owner | undefined): string => [o?.app, o?.user].filter(Boolean).join('/') || 'local'

export function Workspaces() {
  const { api, live } = useShared()
  const run = useAct()
  const l = useAsk<{ items: Workspace[] }>('v1/workspaces')
  const [name, setName] = useState('')
  const create = async (e: Event) => {
    e.preventDefault()
    if (await run(() => api.ask('POST', 'v1/workspaces', { name: name.trim() }), 'Created')) setName('')
    l.reload()
  }
  const remove = async (w: Workspace) => {
    if (await confirm('Remove this workspace with all its files?', label(w.name), 'Remove')) await run(() => api.ask('DELETE', path('workspaces', w.name)))
    l.reload()
  }
  return (
    <>
      <div class="bar-top"><h1>Workspaces</h1></div>
      <form class="line" onSubmit={(e) => void create(e)}><input aria-label="Name of a new workspace" placeholder="Name" value={name} onInput={(e) => setName(e.currentTarget.value)} /><button disabled={!name.trim()}>Create</button></form>
      <Problem error={l.error} />
      {l.value && !l.value.items.length && <Empty>There is no workspace.</Empty>}
      {Boolean(l.value?.items.length) && <Table name="Workspaces" head={['Name', 'Files', 'Size', 'Used', 'Sandboxes', '']}>{l.value!.items.map((w) => (
        <tr key={w.name}><th scope="row"><a href={'#/workspaces/' + encodeURIComponent(w.name)}><Label of={w.name} /></a></th><td class="number">{w.files ?? '–'}</td><td class="number">{bytes(w.bytes)}</td><td>{w.used && age(w.used) + ' ago'}</td><td>{w.sandboxes?.map((s) => <a class="chip" href={'#/s/' + encodeURIComponent(s)}><Label of={live.name(s)} /></a>)}</td><td><span class="acts"><button class="danger" onClick={() => void remove(w)}>remove</button></span></td></tr>))}</Table>}
    </>
  )
}

/** The files of a workspace. */
export function WorkspaceView({ name }: { name: string }) {
  return (
    <>
      <div class="bar-top"><h1><Label of={name} /></h1><a href="#/workspaces">All workspaces</a></div>
      <Files of={['workspaces', name]} dir="/" />
    </>
  )
}

export function Access() {
  const { api, server } = useShared()
  const run = useAct()
  const tokens = useAsk<{ items: Token[] }>('v1/tokens')
  const quota = useAsk<Allowance>('v1/quota')
  const [changes, change] = useState(0) // of quotas
  const [name, setName] = useState('')
  const [scope, setScope] = useState('read')
  const [days, setDays] = useState('30')
  const [made, setMade] = useState<Token>()
  const create = async (e: Event) => {
    e.preventDefault()
    await run(async () => {
      setMade(await api.ask<Token>('POST', 'v1/tokens', { name, scopes: scopeSets[scope], owner: server.owner, ...(days && { expires: new Date(Date.now() + Number(days) * 86400_000).toISOString() }) }))
      setName('')
    })
    tokens.reload()
  }
  const revoke = async (t: Token) => {
    if (await confirm('Revoke this token? Its connections are closed at once.', label(t.name || t.id), 'Revoke')) await run(() => api.ask('DELETE', path('tokens', t.id)))
    tokens.reload()
  }
  const q = quota.value
  return (
    <>
      <div class="bar-top"><h1>Access</h1><span class="facts">{who(server.owner)} · {server.scopes.join(', ')}</span></div>
      <h2>Tokens</h2>
      <form class="line" onSubmit={(e) => void create(e)}><input aria-label="Name of a new token" placeholder="Name" value={name} onInput={(e) => setName(e.currentTarget.value)} /><select aria-label="Rights" value={scope} onChange={(e) => setScope(e.currentTarget.value)}><option value="read">read</option><option value="run">read and run</option>{server.scopes.includes('admin') && <option value="admin">all, as an admin</option>}</select><select aria-label="Expires" value={days} onChange={(e) => setDays(e.currentTarget.value)}><option value="1">for a day</option><option value="30">for 30 days</option><option value="365">for a year</option><option value="">without an end</option></select><button>Create a token</button></form>
      {made && <p class="panel">The token, shown this once: <code>{made.secret}</code></p>}
      <Problem error={tokens.error} />
      {Boolean(tokens.value?.items.length) && <Table name="Tokens" head={['Name', 'Owner', 'Scopes', 'Used', 'Expires', '']}>{tokens.value!.items.map((t) => (
        <tr key={t.id}><th scope="row"><Label of={t.name || t.id} />{t.provider && <small>login: <Label of={`${t.provider}, ${t.subject ?? ''}`} /></small>}{t.link && <small>link</small>}</th><td><Label of={who(t.owner)} /></td><td>{t.scopes?.join(', ')}</td><td>{t.used ? age(t.used) + ' ago' : 'never'}</td><td>{t.expires ? new Date(t.expires).toLocaleString() : 'never'}</td><td><span class="acts"><button class="danger" onClick={() => void revoke(t)}>revoke</button></span></td></tr>))}</Table>}
      <h2>Quota</h2>
      <Problem error={quota.error} />
      {operates(server.scopes) && <QuotaForm changed={() => { quota.reload(); change(changes + 1) }} />}
      {q && <Table name="Quota" head={['Resource', 'Used', 'Limit']}>{[...new Set([...Object.keys(q.limit), ...Object.keys(q.used)])].sort().map((k) => {
        return <tr><th scope="row">{k}</th><td class="number">{amount(k, q.used[k])}</td><td class="number">{(q.limit[k] ?? 0) > 0 ? amount(k, q.limit[k]) : 'none'}</td></tr>
      })}</Table>}
      {operates(server.scopes) && <Quotas key={changes} />}
    </>
  )
}

const operates = (scopes: string[]) => scopes.includes('admin') || scopes.includes('operate')

/** The quotas of all owners, page by page. */
function Quotas() {
  const { api } = useShared()
  const run = useAct()
  const [list, setList] = useState<Allowance[]>([])
  const [next, setNext] = useState<string>()
  const read = (after: string) => run(async () => {
    const page = await api.ask<{ items: Allowance[]; next?: string }>('GET', 'v1/quotas?after=' + encodeURIComponent(after))
    setList((l) => [...(after ? l : []), ...page.items])
    setNext(page.next)
  })
  useEffect(() => void read(''), [])
  return (
    <>
      <h2>Quotas of all owners</h2>
      {Boolean(list.length) && <Table name="Quotas of all owners" head={['Owner', ...resources.map(([, name]) => name.replace(', MiB', ''))]}>{list.map((q) => (
        <tr key={who(q.owner)}><th scope="row"><Label of={who(q.owner)} /></th>{resources.map(([k]) => {
          const limit = q.limit[k] ?? 0
          return <td class={limit > 0 && (q.used[k] ?? 0) >= limit ? 'number full' : 'number'}>{amount(k, q.used[k] ?? 0)}{limit > 0 && ' of ' + amount(k, limit)}</td>
        })}</tr>))}</Table>}
      {next && <button onClick={() => void read(next)}>More owners</button>}
    </>
  )
}

const amount = (k: string, n: number | undefined) => n === undefined ? '–' : k === 'memory' || k === 'disk' ? bytes(n) : String(n)

export function Audit() {
  const { server } = useShared()
  const [all, setAll] = useState(false)
  const l = useAsk<{ items: Audited[] }>('v1/audit?limit=200' + (all ? '&all_owners=true' : ''))
  return (
    <>
      <div class="bar-top"><h1>Audit</h1><span class="space" />{server.scopes.includes('admin') && <label class="check"><input type="checkbox" checked={all} onChange={(e) => setAll(e.currentTarget.checked)} /> all owners</label>}<button onClick={l.reload}>Read again</button></div>
      <Problem error={l.error} />
      {l.value && !l.value.items.length && <Empty>No call was audited.</Empty>}
      {Boolean(l.value?.items.length) && <Table name="Audited calls" head={['Time', 'Owner', 'Action', 'Object', 'Outcome', 'Detail']}>{l.value!.items.map((a) => (
        <tr key={a.id}><td class="time">{new Date(a.time).toLocaleString([], { hour12: false })}</td><td><Label of={who(a.owner)} /></td><th scope="row"><Label of={a.action} /></th><td><Label of={a.object} /></td><td><Label of={a.outcome} /></td><td><Label of={a.detail} most={160} /></td></tr>))}</Table>}
    </>
  )
}

export function Drivers() {
  const { server } = useShared()
  return (
    <>
      <div class="bar-top"><h1>Drivers</h1><span class="facts">atoll {server.version}</span></div>
      <Table name="Drivers" head={['Driver', 'Isolation', 'State', 'Abilities', 'Notes']}>{server.drivers.map((d) => {
        const f = d.features ?? {}
        return <tr><th scope="row"><Label of={d.name} />{d.default && <small>default</small>}</th><td>{String(f.isolation ?? '')}</td><td>{d.error ? <span class="verdict no">not usable</span> : 'usable'}</td>
          <td>{Object.keys(f).filter((k) => f[k] === true).map((k) => <span class="chip">{k}</span>)}</td><td class="wide">{d.error ? d.error : (f.notes as string[] | undefined)?.map((n) => <p>{n}</p>)}{Object.entries((f.lacks as Record<string, string> | undefined) ?? {}).map(([k, why]) => <p class="faint">{k}: {why}</p>)}</td></tr>
      })}</Table>
      <p class="faint"><code>atoll doctor</code> checks this host and names what to install.</p>
    </>
  )
}
