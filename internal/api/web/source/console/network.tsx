// The connections of a sandbox with their verdicts, and its rules.

import { useEffect, useState } from 'preact/hooks'
import { label } from '../dom'
import { DeniedHosts } from './overview'
import { bytes, clock, Empty, Label, path, Problem, Table, useAct, useAsk, useShared } from './parts'
import { useCalm, useEvents } from './follow'
import type { Connection, Network, Sandbox } from './types'

const mostShown = 300

export function NetworkTab({ s }: { s: Sandbox }) {
  const { api, live } = useShared()
  const run = useAct()
  const rules = useAsk<Network>(path('sandboxes', s.id, 'network'))
  const log = useAsk<{ items: Connection[] }>(path('sandboxes', s.id, 'network', 'connections'))
  const [rule, setRule] = useState('')
  const [filter, setFilter] = useState('')
  const [verdict, setVerdict] = useState('')
  const soon = useCalm(log.reload)
  useEvents(s.id, ['network.', 'process.'], soon)
  useEffect(() => live.watch(s.id, () => { if (live.usage.get(s.id)?.rate) soon() }), [live, s.id]) // bytes went over the network
  useEvents(s.id, ['sandbox.network'], rules.reload)
  const change = async (body: object) => {
    const done = await run(() => api.ask('PATCH', path('sandboxes', s.id, 'network'), body))
    rules.reload()
    return done
  }
  const add = async (kind: 'allow' | 'deny') => { if (await change({ [kind]: [rule.trim()] })) setRule('') }
  const test = () => run(async () => {
    const r = await api.ask<Connection>('GET', path('sandboxes', s.id, 'network', 'test') + '?target=' + encodeURIComponent(rule.trim()))
    setVerdict(`${label(rule)}: ${r.allowed ? 'allowed' : 'denied'}${r.rule ? ' by ' + label(r.rule) : ''}${r.reason ? ' (' + label(r.reason, 200) + ')' : ''}`)
  })
  const list = (kind: 'allow' | 'deny') => (
    <div><h2>{kind === 'allow' ? 'Allowed' : 'Denied'}</h2>{(rules.value?.[kind] ?? []).map((r) => <span class={'chip ' + (kind === 'deny' ? 'denied' : '')}><Label of={r} most={60} />{kind === 'allow' && rules.value?.until?.[r] && <small class="until"> until {clock(rules.value.until[r])}</small>} <button aria-label={'Remove the rule ' + label(r)} onClick={() => void change({ remove: [r] })}>×</button></span>)}
      {!rules.value?.[kind]?.length && <span class="faint">no rule</span>}</div>
  )
  const shown = [...(log.value?.items ?? [])].reverse().filter((c) => !filter || [c.host, c.address, c.reason, c.rule].some((t) => t?.includes(filter))).slice(0, mostShown)
  return (
    <>
      <section class="panel rules" aria-label="Rules">
        <p>Mode <strong>{rules.value?.mode || s.config.network?.mode || 'none'}</strong> <DeniedHosts id={s.id} /></p>
        <Problem error={rules.error} />
        <div class="columns">{list('allow')}{list('deny')}</div>
        <form class="line" onSubmit={(e) => { e.preventDefault(); void add('allow') }}>
          <input aria-label="Host or URL" placeholder="example.com:443 or https://…" value={rule} onInput={(e) => setRule(e.currentTarget.value)} spellcheck={false} />
          <button disabled={!rule.trim()}>Allow</button><button type="button" disabled={!rule.trim()} onClick={() => void add('deny')}>Deny</button><button type="button" disabled={!rule.trim()} onClick={() => void test()}>Test</button>
        </form>
        {verdict && <p role="status">{verdict}</p>}
      </section>
      <div class="line"><input type="search" aria-label="Filter the log" placeholder="Filter the log" value={filter} onInput={(e) => setFilter(e.currentTarget.value)} /><button onClick={log.reload}>Read again</button></div>
      <Problem error={log.error} />
      {log.value && !shown.length && <Empty>No connection was tried.</Empty>}
      {shown.length > 0 && <Table name="Connections" head={['Time', 'Verdict', 'Target', 'Bytes out', 'Bytes in', 'Why']}>{shown.map((c) => (
        <tr><td class="time">{clock(c.time)}</td><td><span class={c.allowed ? 'verdict' : 'verdict no'}>{c.allowed ? 'allowed' : 'denied'}</span></td><th scope="row"><Label of={`${c.method ? c.method + ' ' : ''}${c.host || c.address || ''}${c.port ? ':' + c.port : ''}${c.path ?? ''}`} most={100} /></th><td class="number">{bytes(c.sent)}</td><td class="number">{bytes(c.received)}</td><td><Label of={c.rule || c.reason} /></td></tr>))}</Table>}
    </>
  )
}
