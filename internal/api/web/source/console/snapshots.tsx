// The snapshots of a sandbox: take, restore, fork, compare.

import { useState } from 'preact/hooks'
import { label } from '../dom'
import { bytes, confirm, Empty, Label, path, Problem, Table, text, useAct, useAsk, useShared } from './parts'
import { useEvents } from './follow'
import type { Difference, Sandbox, Snapshot } from './types'

const patience = 300_000 // ms of a comparison, which reads all files

export function Snapshots({ s }: { s: Sandbox }) {
  const { api, live } = useShared()
  const run = useAct()
  const l = useAsk<{ items: Snapshot[] }>(path('sandboxes', s.id, 'snapshots'))
  const [name, setName] = useState('')
  const items = l.value?.items ?? []
  useEvents(s.id, ['sandbox.snapshot', 'sandbox.restored'], l.reload)
  const send = (url: string, body: object) => api.send('POST', url, JSON.stringify(body), 'application/json')
  const take = async (e: Event) => {
    e.preventDefault()
    if (await run(() => send(path('sandboxes', s.id, 'snapshots'), name ? { name } : {}), 'The snapshot was taken')) setName('')
    l.reload()
  }
  const restore = async (n: Snapshot) => {
    if (await confirm('Restore this snapshot? Files changed since are lost.', label(n.name || n.id), 'Restore')) await run(() => send(path('sandboxes', s.id, 'restore'), { snapshot: n.id }), 'Restored')
  }
  const fork = (n: Snapshot) => run(async () => {
    const made = await (await send(path('sandboxes', s.id, 'fork'), { snapshot: n.id })).json() as Sandbox
    live.refresh(made.id)
  }, 'Forked: the new sandbox is in the list')
  const remove = async (n: Snapshot) => {
    if (await confirm('Remove this snapshot?', label(n.name || n.id), 'Remove')) await run(() => api.ask('DELETE', path('sandboxes', s.id, 'snapshots', n.id)))
    l.reload()
  }
  return (
    <>
      <form class="line" onSubmit={(e) => void take(e)}><input aria-label="Name of the snapshot" placeholder="Name (optional)" value={name} onInput={(e) => setName(e.currentTarget.value)} /><button class="yes">Take a snapshot</button></form>
      <Problem error={l.error} />
      {l.value && !l.value.items.length && <Empty>There is no snapshot.</Empty>}
      {Boolean(l.value?.items.length) && <Table name="Snapshots" head={['Name', 'Taken', 'Size', 'Files', '']}>{l.value!.items.map((n) => (
        <tr key={n.id}><th scope="row"><Label of={n.name || n.id} /></th><td>{new Date(n.created).toLocaleString()}</td><td class="number">{bytes(n.size)}</td><td class="number">{n.files}</td>
          <td><span class="acts"><button onClick={() => void restore(n)}>restore</button><button onClick={() => void fork(n)}>fork</button><button class="danger" onClick={() => void remove(n)}>remove</button></span></td></tr>))}</Table>}
      {items.length > 0 && <Compare key={s.id} s={s} list={items} />}
    </>
  )
}

const letters: Record<string, string> = { added: 'A', modified: 'M', deleted: 'D' }

/** What differs between two snapshots, or a snapshot and the files as they are now. */
function Compare({ s, list }: { s: Sandbox; list: Snapshot[] }) {
  const { api, server } = useShared()
  const [from, setFrom] = useState('')
  const [to, setTo] = useState('')
  const [state, set] = useState<{ value?: Difference; busy?: boolean; error?: string }>({})
  const first = list.some((n) => n.id === from) ? from : list[list.length - 1].id
  const second = list.some((n) => n.id === to) ? to : ''
  if (!server.scopes.includes('run')) return null
  const compare = async (e: Event) => {
    e.preventDefault()
    set({ busy: true })
    try {
      const answer = await api.send('GET', path('sandboxes', s.id, 'snapshots', first, 'difference') + (second ? '?to=' + encodeURIComponent(second) : ''), undefined, '', AbortSignal.timeout(patience))
      set({ value: await answer.json() as Difference })
    } catch (e) {
      set({ error: text(e) })
    }
  }
  const title = (id: string | undefined) => { const n = list.find((n) => n.id === id); return n ? n.name || n.id : 'now' }
  const options = list.map((n) => <option value={n.id}>{label(n.name || n.id, 60)}</option>)
  const d = state.value
  return (
    <section aria-label="Comparison">
      <h2>Compare</h2>
      <form class="line" onSubmit={(e) => void compare(e)}>
        <label>From <select value={first} onChange={(e) => setFrom(e.currentTarget.value)}>{options}</select></label>
        <label>to <select value={second} onChange={(e) => setTo(e.currentTarget.value)}><option value="">the files as they are now</option>{options}</select></label>
        <button disabled={state.busy || first === second}>{state.busy ? 'Comparing…' : 'Compare'}</button>
      </form>
      <Problem error={state.error} />
      {d && <p class="facts" role="status">{d.total ? `${d.total} ${d.total === 1 ? 'file differs' : 'files differ'}` : 'No file differs'} between {label(title(d.from), 60)} and {label(title(d.to), 60)}{d.total > d.files.length && `; the first ${d.files.length} are listed`}.</p>}
      {Boolean(d?.files.length) && <Table name="Files that differ" head={['', 'File', 'Size', 'Mode']}>{d!.files.map((f) => (
        <tr key={f.path}><td><span class={'letter ' + f.status} title={f.status}>{letters[f.status] ?? '?'}<span class="hidden"> {f.status}</span></span></td><th scope="row"><Label of={f.path + ((f.new ?? f.old)?.kind === 'directory' ? '/' : '')} most={200} /></th>
          <td class="number">{sides(f.old && bytes(f.old.size), f.new && bytes(f.new.size))}</td><td class="number">{sides(f.old?.mode, f.new?.mode)}</td></tr>))}</Table>}
    </section>
  )
}

const sides = (old: string | undefined, now: string | undefined): string => (old === undefined ? now ?? '' : now === undefined || old === now ? old : `${old} → ${now}`)
