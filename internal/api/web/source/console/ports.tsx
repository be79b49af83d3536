// The ports of a sandbox: what listens, who may open it, and links for others.

import { useState } from 'preact/hooks'
import { age, confirm, Empty, Label, path, Problem, Table, useAct, useAsk, useSandbox, useShared } from './parts'
import { Preview } from './preview'
import { useEvents } from './follow'
import type { Link, Port, Sandbox } from './types'

const lifetimes: [string, string][] = [['1', 'an hour'], ['12', '12 hours'], ['168', 'a week']]

export function PortsTab({ s }: { s: Sandbox }) {
  const { api, server } = useShared()
  const live = useSandbox(s.id)
  const run = useAct()
  const l = useAsk<{ items: Port[] }>(path('sandboxes', s.id, 'ports'))
  const links = useAsk<{ items: Link[] }>('v1/routes/links')
  const [made, setMade] = useState<{ port: number; url: string; hours: string }>()
  const [hours, setHours] = useState('12')
  const [shown, show] = useState(0)
  useEvents(s.id, ['sandbox.port.'], l.reload)
  const share = (port: number) => run(async () => {
    const { url } = await api.ask<{ url: string }>('POST', 'v1/routes/links', { sandbox: s.id, port, expires: new Date(Date.now() + Number(hours) * 3600_000).toISOString() })
    setMade({ port, url, hours })
    links.reload()
  })
  const revoke = async (k: Link) => {
    if (await confirm('Revoke this link? Who opened the ports with it loses them at once.', `valid until ${new Date(k.expires).toLocaleString()}`, 'Revoke')) await run(() => api.ask('DELETE', path('routes', 'links', k.id)), 'Revoked')
    links.reload()
  }
  const valid = (links.value?.items ?? []).filter((k) => k.sandbox === s.id || k.sandbox === s.name)
  const routes = live.ports.get(s.id) ?? []
  const locked = routes.some((r) => r.locked) && server.scopes.includes('run') // else a link would open nothing that is not open
  const who = !routes.some((r) => r.url) ? 'The server gives ports no names: “atoll up” and “atoll serve” with a proxy do.' : s.config.public_ports ? 'The ports of this sandbox are public: everyone who reaches the proxy may open them.' : routes.some((r) => r.locked) ? 'You, and who has a link, may open the ports of this sandbox.' : 'Everyone who reaches the proxy of ports may open the ports.'
  return (
    <>
      <Problem error={l.error} />
      {l.value && !l.value.items.length && <Empty>No program listens on a port.</Empty>}
      {l.value && l.value.items.length > 0 && <p class="line faint">{who}
        <span class="space" />{locked && <label>Links are valid for <select value={hours} onChange={(e) => setHours(e.currentTarget.value)}>{lifetimes.map(([k, name]) => <option value={k}>{name}</option>)}</select></label>}</p>}
      {made && <p class="panel">Link to port {made.port} and the others of this sandbox, shown this once, for {lifetimes.find(([k]) => k === made.hours)![1]}: <code>{made.url}</code></p>}
      {Boolean(l.value?.items.length) && <Table name="Ports" head={['Port', 'Address', 'Program', '']}>{l.value!.items.map((p) => {
        const url = live.ports.get(s.id)?.find((r) => r.port === p.port)?.url
        return <tr><th scope="row">{url ? <a href={url} target="_blank" rel="noopener noreferrer">{p.port}</a> : p.port}</th><td><Label of={p.address} /></td><td><Label of={p.command} /></td><td><span class="acts">{url && <button aria-expanded={shown === p.port} aria-label={'preview ' + p.port} onClick={() => show(shown === p.port ? 0 : p.port)}>preview</button>}{locked && <button onClick={() => void share(p.port)}>create a link</button>}</span></td></tr>
      })}</Table>}
      {shown > 0 && live.ports.get(s.id)?.some((r) => r.port === shown) && <Preview key={shown} port={shown} url={live.ports.get(s.id)!.find((r) => r.port === shown)!.url!} />}
      {valid.length > 0 && <><h2>Links</h2><Table name="Links" head={['Created', 'Valid until', '']}>{valid.map((k) => (
        <tr key={k.id}><th scope="row">{age(k.created)} ago</th><td>{new Date(k.expires).toLocaleString([], { hour12: false })}</td><td><span class="acts"><button class="danger" onClick={() => void revoke(k)}>revoke</button></span></td></tr>))}</Table></>}
    </>
  )
}
