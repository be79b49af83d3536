// One sandbox, in tabs.

import { useEffect, useState } from 'preact/hooks'
import { label } from '../dom'
import { ChangesTab } from './changes'
import { Files } from './files'
import { MetricsTab } from './metrics'
import { NetworkTab } from './network'
import { Acts, DeniedHosts, Ports } from './overview'
import { Preview } from './preview'
import { age, bytes, clock, confirm, Empty, Label, path, Problem, State, Table, text, useAct, useAsk, useLive, useShared } from './parts'
import { TerminalTab } from './terminal'
import { AgentTab } from './turns'
import type { AtollEvent, Port, Process, Sandbox, Snapshot } from './types'

const tabs: [string, string][] = [['', 'Terminal'], ['agent', 'Agent'], ['changes', 'Changes'], ['files', 'Files'], ['ports', 'Ports'], ['network', 'Network'], ['processes', 'Processes'], ['metrics', 'Metrics'], ['snapshots', 'Snapshots'], ['events', 'Events']]

export function SandboxView({ id, tab }: { id: string; tab: string }) {
  const live = useLive()
  const s = live.sandboxes.get(id) ?? [...live.sandboxes.values()].find((s) => s.name === id)
  if (!s) return <Empty>{live.loaded ? 'This sandbox does not exist, or was removed. ' : 'Loading… '}<a href="#/">All sandboxes</a></Empty>
  const u = live.usage.get(s.id)
  return (
    <div class="sandbox">
      <div class="bar-top">
        <h1><bdi>{label(s.name || s.id, 60)}</bdi></h1><State state={s.state} />
        <span class="facts"><Label of={s.driver} />{u && ` · ${u.cpu === undefined ? '–' : Math.round(u.cpu * 100)} % CPU · ${bytes(u.memory)} · ${u.processes} processes`} · {age(s.created)} old</span>
        <Ports id={s.id} /><DeniedHosts id={s.id} />
        <span class="space" /><Acts s={s} />
      </div>
      <nav class="tabs" aria-label="Parts of the sandbox">{tabs.map(([p, name]) => <a href={`#/s/${encodeURIComponent(s.id)}/${p}`} aria-current={p === tab ? 'page' : undefined}>{name}</a>)}</nav>
      <Tab s={s} tab={tab} />
    </div>
  )
}

function Tab({ s, tab }: { s: Sandbox; tab: string }) {
  const rests = s.state !== 'running' && s.state !== 'paused' && ['', 'changes', 'ports', 'processes'].includes(tab)
  if (rests) return <Empty>The sandbox is {s.state}. Start it to use it.</Empty>
  switch (tab) {
    case 'files': return <Files id={s.id} dir={s.config.dir} />
    case 'changes': return <ChangesTab key={s.id} s={s} />
    case 'ports': return <PortsTab s={s} />
    case 'network': return <NetworkTab s={s} />
    case 'processes': return <Processes s={s} />
    case 'metrics': return <MetricsTab s={s} />
    case 'snapshots': return <Snapshots s={s} />
    case 'agent': return <AgentTab sandbox={s.id} />
    case 'events': return <Events id={s.id} />
    default: return <TerminalTab id={s.id} />
  }
}

/** Calls f after events of a sandbox whose types begin with one of the prefixes. */
export function useEvents(id: string, prefixes: string[], f: () => void): void {
  const { live } = useShared()
  useEffect(() => live.follow((e) => { if (e.object === id && prefixes.some((p) => e.type.startsWith(p))) f() }))
}

function PortsTab({ s }: { s: Sandbox }) {
  const { api, live } = useShared()
  const run = useAct()
  const l = useAsk<{ items: Port[] }>(path('sandboxes', s.id, 'ports'))
  const [link, setLink] = useState<{ port: number; url: string }>()
  const [shown, show] = useState(0)
  useEvents(s.id, ['sandbox.port.'], l.reload)
  const share = (port: number) => run(async () => {
    const made = await api.ask<{ url: string }>('POST', 'v1/routes/links', { sandbox: s.id, port, expires: new Date(Date.now() + 12 * 3600_000).toISOString() })
    setLink({ port, url: made.url })
  })
  return (
    <>
      <Problem error={l.error} />
      {l.value && !l.value.items.length && <Empty>No program listens on a port.</Empty>}
      {link && <p class="panel">Link to port {link.port} for 12 hours: <code>{link.url}</code></p>}
      {Boolean(l.value?.items.length) && <Table name="Ports" head={['Port', 'Address', 'Program', '']}>{l.value!.items.map((p) => {
        const url = live.ports.get(s.id)?.find((r) => r.port === p.port)?.url
        return <tr><th scope="row">{url ? <a href={url} target="_blank" rel="noopener noreferrer">{p.port}</a> : p.port}</th><td><Label of={p.address} /></td><td><Label of={p.command} /></td><td><span class="acts">{url && <button aria-expanded={shown === p.port} aria-label={'preview ' + p.port} onClick={() => show(shown === p.port ? 0 : p.port)}>preview</button>}<button onClick={() => void share(p.port)}>create a link</button></span></td></tr>
      })}</Table>}
      {shown > 0 && live.ports.get(s.id)?.some((r) => r.port === shown) && <Preview key={shown} port={shown} url={live.ports.get(s.id)!.find((r) => r.port === shown)!.url!} />}
    </>
  )
}

function Processes({ s }: { s: Sandbox }) {
  const { api } = useShared()
  const run = useAct()
  const l = useAsk<{ items: Process[] }>(path('sandboxes', s.id, 'processes'))
  const list = [...(l.value?.items ?? [])].sort((a, b) => Number(b.running) - Number(a.running) || Date.parse(b.started) - Date.parse(a.started))
  const [command, setCommand] = useState('')
  const [shown, show] = useState<Process>()
  useEvents(s.id, ['process.'], l.reload)
  const kill = async (p: Process) => {
    if (!(await confirm('Kill this process and its descendants?', label(p.command, 200), 'Kill'))) return
    await run(() => api.ask('DELETE', path('sandboxes', s.id, 'processes', p.id)), 'Killed')
    l.reload()
  }
  const start = async (e: Event) => {
    e.preventDefault()
    if (await run(() => api.ask('POST', path('sandboxes', s.id, 'processes'), { shell: command }), 'Started')) setCommand('')
    l.reload()
  }
  return (
    <>
      <form class="line" onSubmit={(e) => void start(e)}><input aria-label="Command to start in the background" placeholder="Command to start in the background" value={command} onInput={(e) => setCommand(e.currentTarget.value)} /><button disabled={!command.trim()}>Start</button><button type="button" onClick={l.reload}>Read again</button></form>
      <Problem error={l.error} />
      {l.value && !l.value.items.length && <Empty>No command runs.</Empty>}
      {Boolean(l.value?.items.length) && <Table name="Processes" head={['Command', 'State', 'Started', '']}>{list.map((p) => (
        <tr key={p.id}><th scope="row"><code><Label of={p.command} most={120} /></code></th><td>{p.running ? 'running' : p.signal ? 'ended by ' + label(p.signal) : 'status ' + p.code}</td><td>{clock(p.started)}</td>
          <td><span class="acts"><button aria-expanded={shown?.id === p.id} aria-label={'output of ' + label(p.command, 40)} onClick={() => show(shown?.id === p.id ? undefined : p)}>output</button>{p.running && <button class="danger" aria-label={'kill ' + label(p.command, 40)} onClick={() => void kill(p)}>kill</button>}</span></td></tr>))}</Table>}
      {shown && <Output key={shown.id} s={s} p={shown} />}
    </>
  )
}

const shownOutput = 200_000 // characters of the end

/** The output of a process, as it comes. */
function Output({ s, p }: { s: Sandbox; p: Process }) {
  const { api } = useShared()
  const [output, setOutput] = useState('')
  const [state, setState] = useState<{ ended?: boolean; error?: string }>({})
  useEffect(() => {
    const stop = new AbortController()
    const follow = async () => {
      const answer = await api.send('GET', path('sandboxes', s.id, 'processes', p.id, 'output') + '?follow=true', undefined, '', stop.signal)
      const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader()
      for (let all = ''; reader;) {
        const { done, value } = await reader.read()
        if (done) break
        setOutput(all = (all + value).slice(-shownOutput))
      }
      setState({ ended: true })
    }
    follow().catch((e: unknown) => { if (!stop.signal.aborted) setState({ error: text(e) }) })
    return () => stop.abort()
  }, [])
  return (
    <section class="panel" aria-label={'Output of ' + label(p.command, 80)}>
      <h2><code><Label of={p.command} most={120} /></code></h2>
      <pre tabIndex={0} aria-label="Output">{output || (state.ended ? '(no output)' : '(no output yet)')}</pre>
      <Problem error={state.error} />
    </section>
  )
}

function Snapshots({ s }: { s: Sandbox }) {
  const { api, live } = useShared()
  const run = useAct()
  const l = useAsk<{ items: Snapshot[] }>(path('sandboxes', s.id, 'snapshots'))
  const [name, setName] = useState('')
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
    </>
  )
}

function Events({ id }: { id: string }) {
  const live = useLive()
  const l = useAsk<{ items: AtollEvent[] }>('v1/events?follow=false&object=' + encodeURIComponent(id))
  const fresh = live.events.filter((e) => e.object === id)
  const known = new Set(fresh.map((e) => e.id))
  const list = [...fresh, ...[...(l.value?.items ?? [])].reverse().filter((e) => !known.has(e.id))].slice(0, 500)
  return (
    <>
      <Problem error={l.error} />
      <Table name="Events" head={['Time', 'Event', 'Details']}>{list.map((e) => (
        <tr><td class="time">{new Date(e.time).toLocaleString([], { hour12: false })}</td><th scope="row">{e.type}</th><td><Label of={[e.message, ...Object.entries(e.data ?? {}).map(([k, v]) => k + '=' + v)].filter(Boolean).join(' · ')} most={300} /></td></tr>))}</Table>
    </>
  )
}
