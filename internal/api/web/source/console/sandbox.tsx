// One sandbox, in tabs.

import { label } from '../dom'
import { ChangesTab } from './changes'
import { Files } from './files'
import { MetricsTab } from './metrics'
import { NetworkTab } from './network'
import { Acts, DeniedHosts, Ports } from './overview'
import { PortsTab } from './ports'
import { Processes } from './processes'
import { Snapshots } from './snapshots'
import { age, bytes, Empty, Label, Problem, State, Table, useAsk, useList, useLive, useSandbox } from './parts'
import { TerminalTab } from './terminal'
import { AgentTab } from './turns'
import type { AtollEvent, Sandbox } from './types'

const tabs: [string, string][] = [['', 'Terminal'], ['agent', 'Agent'], ['changes', 'Changes'], ['files', 'Files'], ['ports', 'Ports'], ['network', 'Network'], ['processes', 'Processes'], ['metrics', 'Metrics'], ['snapshots', 'Snapshots'], ['events', 'Events']]

export function SandboxView({ id, tab }: { id: string; tab: string }) {
  const list = useList()
  const s = list.sandboxes.get(id) ?? [...list.sandboxes.values()].find((s) => s.name === id)
  const live = useSandbox(s?.id ?? id)
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
    case 'files': return <Files key={s.id} of={['sandboxes', s.id]} dir={s.config.dir} />
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
