// Every sandbox a row, with what can be done to it.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { label } from '../dom'
import { Create } from './create'
import { useCalm } from './follow'
import { age, bytes, confirm, Empty, Label, memo, path, State, text, useAct, useList, useSandbox, useShared } from './parts'
import { projectPath, summaryOf, type Ledger } from './project'
import type { Sandbox, Turn } from './types'

type Act = 'start' | 'stop' | 'archive' | 'pause' | 'resume' | 'remove'

const possible: Record<Act, (s: Sandbox) => boolean> = {
  start: (s) => s.state === 'stopped' || s.state === 'archived',
  stop: (s) => (s.state === 'running' || s.state === 'paused') && Boolean(s.features.stop),
  archive: (s) => s.state === 'stopped' && Boolean(s.features.archive),
  pause: (s) => s.state === 'running' && Boolean(s.features.pause),
  resume: (s) => s.state === 'paused',
  remove: () => true,
}

const grace = 6_000 // ms until sandboxes are removed: it can be undone until then
const opposite: Partial<Record<Act, Act>> = { stop: 'start', start: 'stop', archive: 'start', pause: 'resume', resume: 'pause' }

/** Returns a function that does one act to sandboxes, after a question where something ends. */
export function useSandboxActs(): (act: Act, list: Sandbox[]) => Promise<void> {
  const { api, live } = useShared()
  const run = useAct()
  const { toast } = useShared()
  const send = async (act: Act, list: Sandbox[]): Promise<Sandbox[]> => {
    const done: Sandbox[] = []
    for (const s of list) {
      if (await run(() => act === 'remove' ? api.ask('DELETE', path('sandboxes', s.id)) : api.ask('POST', path('sandboxes', s.id, act)))) done.push(s)
      live.refresh(s.id)
    }
    return done
  }
  return async (act, list) => {
    const names = list.map((s) => label(s.name || s.id, 40)).join(', ')
    const n = list.length === 1 ? names : list.length + ' sandboxes'
    if (act === 'remove') {
      if (!(await confirm(`Remove ${n} with all files? You have ${grace / 1000} seconds to undo it.`, names, 'Remove'))) return
      const timer = setTimeout(() => { live.spare(list.map((s) => s.id)); void send('remove', list) }, grace)
      live.doom(list.map((s) => s.id))
      toast(`Removing ${n}`, false, { title: 'Undo', until: grace, undo: () => { clearTimeout(timer); live.spare(list.map((s) => s.id)) } })
      return
    }
    if (act === 'stop' && list.length > 1 && !(await confirm(`Stop ${n}? Programs in them end; files stay.`, names, 'Stop'))) return
    const done = await send(act, list)
    const back = opposite[act]
    if (back && done.length && list.length > 1) toast(`${done.length} sandboxes: ${act}`, false, { title: 'Undo', undo: () => void send(back, done) })
  }
}

export function Acts({ s }: { s: Sandbox }) {
  const act = useSandboxActs()
  const name = label(s.name || s.id, 40)
  return <span class="acts">{(Object.keys(possible) as Act[]).filter((a) => possible[a](s)).map((a) => <button key={a} class={a === 'remove' ? 'danger' : ''} aria-label={`${a} ${name}`} onClick={() => void act(a, [s])}>{a}</button>)}</span>
}

export function Ports({ id }: { id: string }) {
  const ports = useSandbox(id).ports.get(id) ?? []
  return <>{ports.map((p) => p.url
    ? <a class="chip" href={p.url} target="_blank" rel="noopener noreferrer" title={label(p.command ?? '', 80)}>{p.port}</a>
    : <span class="chip" title={label(p.command ?? '', 80)}>{p.port}</span>)}</>
}

const once = 600 // seconds that a host is allowed once

export function DeniedHosts({ id }: { id: string }) {
  const { api } = useShared()
  const live = useSandbox(id)
  const run = useAct()
  const allow = async (host: string, seconds?: number) => {
    if (await run(() => api.ask('PATCH', path('sandboxes', id, 'network'), { allow: [host], ...(seconds && { seconds }) }), label(host) + (seconds ? ' is allowed for 10 minutes' : ' is allowed'))) live.settle(id, host)
  }
  const allowed = live.sandboxes.get(id)?.config.network?.allow // by another window, perhaps
  return <>{(live.denied.get(id) ?? []).filter((d) => !allowed?.includes(d.host)).map((d) => (
    <span class="chip denied" title={label(d.message, 200)}><Label of={d.host} most={40} /> <button aria-label={'Allow once: ' + label(d.host)} title="For 10 minutes" onClick={() => void allow(d.host, once)}>once</button> <button aria-label={'Allow always: ' + label(d.host)} onClick={() => void allow(d.host)}>always</button> <button aria-label={'Dismiss ' + label(d.host)} onClick={() => live.settle(id, d.host)}>×</button></span>))}</>
}

/** What an agent is doing: working, waiting, or how its last turn ended. */
function agentState(t: Turn): string {
  if (t.state !== 'finished') return t.state === 'waiting' ? 'waits for approval' : t.state === 'queued' ? 'queued' : 'working'
  return t.result?.outcome === 'ok' ? 'done' + (t.result.text ? ': ' + t.result.text : '') : [t.result?.outcome, t.result?.message].filter(Boolean).join(': ')
}

const compareAtOnce = 20 // sandboxes whose branches are compared when the list is opened

/** Says whether an event may mean that a sandbox has new commits or changes. */
export const changesBranches = (type: string) => type === 'process.exited' || type.startsWith('turn.') && type !== 'turn.running'

/**
 * Returns a function that compares the branches of sandboxes with those of the host, one after the other, since each
 * runs git in its sandbox, and not while the page is hidden. Errors of a comparison that nobody has asked for are not shown.
 */
function useComparison(setBranches: (f: (m: Map<string, string>) => Map<string, string>) => void, setComparing: (on: boolean) => void): (ids: string[], unasked?: boolean) => void {
  const { api } = useShared()
  const due = useRef({ ids: new Map<string, boolean>(), busy: false, over: false }) // unasked, by id
  const work = useCallback(async () => {
    const d = due.current
    if (d.busy || !d.ids.size) return
    d.busy = true
    setComparing(true)
    for (const [id, unasked] of d.ids) {
      if (d.over || document.hidden) break
      d.ids.delete(id)
      const said = await api.ask<Ledger>('GET', path('sandboxes', id, 'project')).then(summaryOf, (e: unknown) => unasked ? '' : text(e))
      if (said) setBranches((m) => new Map(m).set(id, said))
    }
    d.busy = false
    setComparing(false)
  }, [api])
  useEffect(() => {
    const shown = () => void work()
    document.addEventListener('visibilitychange', shown)
    return () => { due.current.over = true; document.removeEventListener('visibilitychange', shown) }
  }, [])
  return useCallback((ids: string[], unasked = false) => {
    for (const id of ids) due.current.ids.set(id, unasked)
    void work()
  }, [work])
}

interface RowProperties { minute: number; s: Sandbox; turn?: Turn; cost?: number; branches?: string; chosen: boolean; choose(id: string, on: boolean): void; near: Near }

/** A sandbox. What is far below the window has its name only, until it comes near. */
const Row = memo(function ({ s, turn, cost, branches, chosen, choose, near }: RowProperties) {
  const live = useSandbox(s.id)
  const [seen, see] = useState(false)
  const row = useRef<HTMLTableRowElement>(null)
  useEffect(() => near.watch(row.current!, () => see(true)), [near])
  const u = live.usage.get(s.id)
  const doomed = live.doomed.has(s.id)
  const name = label(s.name || s.id, 60)
  const isolation = s.isolation || s.features.isolation
  const project = projectPath(s).split('/').pop()
  return (
    <tr ref={row} class={(chosen ? 'chosen' : '') + (doomed ? ' doomed' : '')} data-id={s.id}>
      <td><input type="checkbox" aria-label={'Choose ' + name} checked={chosen} onChange={(e) => choose(s.id, e.currentTarget.checked)} /></td>
      <th scope="row"><a href={'#/s/' + encodeURIComponent(s.id)}><bdi>{name}</bdi></a>{project && <small><Label of={project} most={40} /></small>}</th>
      {!seen ? <td colSpan={12} /> : <>
      <td data-head="State"><State state={doomed ? 'removing' : s.state} />{turn && <small class={turn.state === 'waiting' ? 'waits' : ''}><a href={`#/s/${encodeURIComponent(s.id)}/agent`}><Label of={(turn.agent || turn.assistant || 'agent') + ': ' + agentState(turn)} most={60} /></a></small>}</td>
      <td data-head="Driver"><Label of={s.driver} />{isolation && isolation !== s.driver && <small>{isolation}</small>}</td>
      <td data-head="CPU" class="number">{u?.cpu === undefined ? '–' : Math.round(u.cpu * 100) + ' %'}</td>
      <td data-head="Memory" class="number">{u ? bytes(u.memory) : '–'}</td>
      <td data-head="Disk" class="number">{u ? bytes(u.disk) : '–'}</td>
      <td data-head="Network" class="number">{u?.rate === undefined ? '–' : bytes(Math.round(u.rate)) + '/s'}</td>
      <td data-head="Branches">{branches && <a href={`#/s/${encodeURIComponent(s.id)}/changes`}><Label of={branches} most={40} /></a>}</td>
      <td data-head="Cost" class="number">{cost ? '$' + cost.toFixed(2) : ''}</td>
      <td data-head="Ports"><Ports id={s.id} /></td>
      <td data-head="Denied"><DeniedHosts id={s.id} /></td>
      <td data-head="Age" class="number">{age(s.created)}</td>
      <td>{!doomed && <Acts s={s} />}</td>
      </>}
    </tr>
  )
})

/** Calls a function once for each row when it comes near the window. */
class Near {
  private readonly calls = new Map<Element, () => void>()
  private readonly observer = new IntersectionObserver((list) => {
    for (const e of list) if (e.isIntersecting) this.calls.get(e.target)?.()
  }, { rootMargin: '600px' })

  watch(row: Element, f: () => void): () => void {
    const end = () => { this.observer.unobserve(row); this.calls.delete(row) }
    this.calls.set(row, () => { end(); f() })
    this.observer.observe(row)
    return end
  }
}

export function Overview() {
  const live = useList()
  const { api, server } = useShared()
  const act = useSandboxActs()
  const [search, setSearch] = useState('')
  const [state, setState] = useState('')
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const [creating, setCreating] = useState(false)
  const [turns, setTurns] = useState(new Map<string, Turn>())
  const [costs, setCosts] = useState(new Map<string, number>())
  const [branches, setBranches] = useState(new Map<string, string>())
  const [comparing, setComparing] = useState(false)
  const [near] = useState(() => new Near())
  const [minute, tick] = useState(0) // rows that nothing changes grow older, too
  useEffect(() => { const timer = setInterval(() => tick((n) => n + 1), 60_000); return () => clearInterval(timer) }, [])
  const choose = useCallback((id: string, on: boolean) => setChosen((before) => {
    const next = new Set(before)
    if (on) next.add(id)
    else next.delete(id)
    return next
  }), [])
  const readTurns = () => void api.ask<{ items: Turn[] }>('GET', 'v1/turns?limit=1000').then((l) => {
    setTurns(new Map(l.items.flatMap((t) => t.sandbox ? [[t.sandbox, t] as const] : [])))
    const all = new Map<string, number>()
    for (const t of l.items) if (t.sandbox && t.result?.usage?.cost) all.set(t.sandbox, (all.get(t.sandbox) ?? 0) + t.result.usage.cost)
    setCosts(all)
  }, () => undefined)
  const soon = useCalm(readTurns)
  useEffect(() => {
    readTurns()
    return live.follow((e) => { if (e.type.startsWith('turn.')) soon() })
  }, [live])
  const all = [...live.sandboxes.values()]
  const words = search.toLowerCase().split(/\s+/).filter(Boolean)
  const shown = all.filter((s) => (!state || s.state === state) && words.every((w) =>
    [s.name, s.id, s.driver, s.config.image, projectPath(s), ...Object.entries(s.labels ?? {}).map((l) => l.join('='))].some((t) => t?.toLowerCase().includes(w))))
  const picked = shown.filter((s) => chosen.has(s.id))
  const projects = shown.filter((s) => projectPath(s))
  const mayCompare = server.scopes.includes('host') && server.scopes.includes('run')
  const compare = useComparison(setBranches, setComparing)
  useEffect(() => live.follow((e) => { if (mayCompare && changesBranches(e.type) && branches.has(e.object)) compare([e.object], true) }), [live, branches])
  const first = mayCompare ? all.filter((s) => projectPath(s) && s.state === 'running').slice(0, compareAtOnce).map((s) => s.id).join(' ') : ''
  useEffect(() => compare(first.split(' ').filter((id) => id && !branches.has(id)), true), [first])
  const may = server.scopes.includes('run') || server.scopes.includes('admin')
  return (
    <>
      <div class="bar-top">
        <h1>Sandboxes <small>{shown.length === all.length ? all.length : `${shown.length} of ${all.length}`}</small></h1>
        <input type="search" placeholder="Search" aria-label="Search sandboxes" value={search} onInput={(e) => setSearch(e.currentTarget.value)} />
        <select aria-label="State" value={state} onChange={(e) => setState(e.currentTarget.value)}>
          <option value="">Every state</option>
          {[...new Set(all.map((s) => s.state))].sort().map((s) => <option>{s}</option>)}
        </select>
        <span class="space" />
        {projects.length > 0 && mayCompare && <button disabled={comparing} onClick={() => compare(projects.map((s) => s.id))}>{comparing ? 'Comparing…' : 'Compare branches'}</button>}
        {may && <button class="yes" aria-expanded={creating} onClick={() => setCreating(!creating)}>{creating ? 'Close the form' : 'Create'}</button>}
      </div>
      {creating && <Create done={() => setCreating(false)} />}
      {picked.length > 0 && (
        <div class="bulk" role="group" aria-label="Acts on the chosen sandboxes">
          <span>{picked.length} chosen</span>
          {(Object.keys(possible) as Act[]).map((a) => {
            const able = picked.filter(possible[a])
            return able.length > 0 && <button class={a === 'remove' ? 'danger' : ''} onClick={() => void act(a, able)}>{a} {able.length}</button>
          })}
          <button onClick={() => setChosen(new Set())}>choose none</button>
        </div>
      )}
      {!live.loaded ? <Empty>Loading…</Empty> : !all.length ? <Empty>There is no sandbox. “Create” makes one; so does <code>atoll create</code>.</Empty> : !shown.length ? <Empty>No sandbox matches.</Empty> : (
        <div class="scroll" role="region" aria-label="Sandboxes" tabIndex={0}>
          <table class="cards choice">
            <thead><tr>
              <th scope="col"><input type="checkbox" aria-label="Choose all shown" checked={picked.length === shown.length} onChange={(e) => setChosen(new Set(e.currentTarget.checked ? shown.map((s) => s.id) : []))} /></th>
              {['Name', 'State', 'Driver', 'CPU', 'Memory', 'Disk', 'Network', 'Branches', 'Cost', 'Ports', 'Denied', 'Age'].map((h) => <th scope="col">{h}</th>)}
              <th scope="col"><span class="hidden">Actions</span></th>
            </tr></thead>
            <tbody>{shown.map((s) => <Row key={s.id} s={s} turn={turns.get(s.id)} cost={costs.get(s.id)} branches={branches.get(s.id)} chosen={chosen.has(s.id)} choose={choose} near={near} minute={minute} />)}</tbody>
          </table>
        </div>
      )}
    </>
  )
}
