// Images, warm pools and settings.

import { useState } from 'preact/hooks'
import { label } from '../dom'
import * as look from '../look'
import { age, bytes, confirm, Empty, Label, path, Problem, Table, text, useAct, useAsk, useShared } from './parts'
import type { Config } from './types'

interface Image { driver: string; ref: string; digest?: string; size: number; layers?: number; platform?: string; created?: string }
interface Pool { name: string; config: Config & { driver?: string }; size: number; ready: number; created: string; error?: string }

export function Images() {
  const { api, server } = useShared()
  const run = useAct()
  const l = useAsk<{ items: Image[] }>('v1/images')
  const [ref, setRef] = useState('')
  const [progress, setProgress] = useState('')
  const may = server.scopes.includes('admin')
  const pull = async (e: Event) => {
    e.preventDefault()
    setProgress('Pulling…')
    await run(async () => {
      const answer = await api.send('POST', 'v1/images/pull', JSON.stringify({ ref: ref.trim() }), 'application/json')
      const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader()
      for (let rest = ''; ;) {
        const { done, value } = await reader.read()
        if (done) break
        const blocks = (rest + value).split('\n\n')
        rest = blocks.pop() ?? ''
        for (const b of blocks) {
          const kind = /^event: (.*)$/m.exec(b)?.[1], data = /^data: (.*)$/m.exec(b)?.[1]
          if (kind === 'problem') throw new Error((JSON.parse(data ?? '{}') as { detail?: string }).detail ?? 'the pull failed')
          if (kind === 'progress' && data) setProgress(label((JSON.parse(data) as { message?: string }).message ?? 'Pulling…', 120))
        }
      }
      setRef('')
    }, 'Pulled')
    setProgress('')
    l.reload()
  }
  const remove = async (i: Image) => {
    if (await confirm('Remove this image?', label(i.ref, 200), 'Remove')) await run(() => api.ask('DELETE', 'v1/images?' + new URLSearchParams({ ref: i.ref, driver: i.driver }).toString()))
    l.reload()
  }
  return (
    <>
      <div class="bar-top"><h1>Images</h1><span class="space" /><button onClick={l.reload}>Read again</button></div>
      {may && <form class="line" onSubmit={(e) => void pull(e)}><input aria-label="Image to pull" placeholder="docker.io/library/debian:stable" value={ref} onInput={(e) => setRef(e.currentTarget.value)} spellcheck={false} /><button disabled={!ref.trim() || Boolean(progress)}>Pull</button>{progress && <span class="faint" role="status">{progress}</span>}</form>}
      <Problem error={l.error} />
      {l.value && !l.value.items.length && <Empty>No driver has an image.</Empty>}
      {Boolean(l.value?.items.length) && <Table name="Images" head={['Image', 'Driver', 'Size', 'Platform', 'Created', '']}>{l.value!.items.map((i) => (
        <tr key={i.driver + ' ' + i.ref}><th scope="row"><Label of={i.ref} most={160} /></th><td>{i.driver}</td><td class="number">{bytes(i.size)}</td><td><Label of={i.platform} /></td><td>{i.created && age(i.created) + ' ago'}</td><td><span class="acts">{may && <button class="danger" aria-label={'remove ' + label(i.ref)} onClick={() => void remove(i)}>remove</button>}</span></td></tr>))}</Table>}
    </>
  )
}

export function Pools() {
  const { api, server } = useShared()
  const run = useAct()
  const l = useAsk<{ items: Pool[] }>('v1/pools')
  const [draft, setDraft] = useState({ name: '', size: '1', driver: '', image: '' })
  const may = server.scopes.includes('run') || server.scopes.includes('admin')
  const change = (k: keyof typeof draft) => (e: Event) => setDraft({ ...draft, [k]: (e.currentTarget as HTMLInputElement).value })
  const create = async (e: Event) => {
    e.preventDefault()
    const config = { ...(draft.driver && { driver: draft.driver }), ...(draft.image && { image: draft.image }) }
    if (await run(() => api.ask('PUT', path('pools', draft.name.trim()), { name: draft.name.trim(), size: Number(draft.size), config }), 'The pool is set')) setDraft({ ...draft, name: '' })
    l.reload()
  }
  const resize = async (p: Pool, size: number) => {
    await run(() => api.ask('PUT', path('pools', p.name), { name: p.name, size, config: p.config }))
    l.reload()
  }
  const remove = async (p: Pool) => {
    if (await confirm('Remove this pool and its unclaimed sandboxes?', label(p.name), 'Remove')) await run(() => api.ask('DELETE', path('pools', p.name)))
    l.reload()
  }
  return (
    <>
      <div class="bar-top"><h1>Pools</h1><span class="facts">sandboxes that are ready before they are needed</span><span class="space" /><button onClick={l.reload}>Read again</button></div>
      {may && <form class="line" onSubmit={(e) => void create(e)}>
        <input aria-label="Name of the pool" placeholder="Name" value={draft.name} onInput={change('name')} /><input aria-label="Size of the pool" type="number" min="0" value={draft.size} onInput={change('size')} />
        <select aria-label="Driver of the pool" value={draft.driver} onChange={change('driver')}><option value="">default driver</option>{server.drivers.filter((d) => !d.error).map((d) => <option>{d.name}</option>)}</select>
        <input aria-label="Image of the pool" placeholder="Image (optional)" value={draft.image} onInput={change('image')} spellcheck={false} /><button disabled={!draft.name.trim()}>Set the pool</button>
      </form>}
      <Problem error={l.error} />
      {l.value && !l.value.items.length && <Empty>There is no pool.</Empty>}
      {Boolean(l.value?.items.length) && <Table name="Pools" head={['Pool', 'Driver', 'Image', 'Ready', '']}>{l.value!.items.map((p) => (
        <tr key={p.name}><th scope="row"><Label of={p.name} />{p.error && <small class="problem"><Label of={p.error} most={200} /></small>}</th><td><Label of={p.config.driver ?? 'default'} /></td><td><Label of={p.config.image} most={120} /></td><td class="number">{p.ready} of {p.size}</td>
          <td>{may && <span class="acts"><button aria-label={'one fewer in ' + label(p.name)} disabled={p.size < 1} onClick={() => void resize(p, p.size - 1)}>−</button><button aria-label={'one more in ' + label(p.name)} onClick={() => void resize(p, p.size + 1)}>+</button><button class="danger" aria-label={'remove ' + label(p.name)} onClick={() => void remove(p)}>remove</button></span>}</td></tr>))}</Table>}
    </>
  )
}

/** What a quota limits, with their names. */
export const resources: [string, string][] = [['sandboxes', 'Sandboxes'], ['cpu', 'CPUs'], ['memory', 'Memory, MiB'], ['disk', 'Disk, MiB'], ['workspaces', 'Workspaces'], ['processes', 'Commands at once'], ['tokens', 'Model tokens a month'], ['cost', 'Model cost a month, $']]
const inMiB = ['memory', 'disk']

/** The form by which admins set the quota of an owner. */
export function QuotaForm({ changed }: { changed(): void }) {
  const { api, server } = useShared()
  const run = useAct()
  const [owner, setOwner] = useState([server.owner.app, server.owner.user].filter(Boolean).join('/'))
  const [limits, setLimits] = useState<Record<string, string>>({})
  const set = async (e: Event) => {
    e.preventDefault()
    const [app, user] = owner.split('/')
    const quota = Object.fromEntries(resources.flatMap(([k]) => limits[k] ? [[k, Number(limits[k]) * (inMiB.includes(k) && Number(limits[k]) > 0 ? 2 ** 20 : 1)]] : []))
    await run(() => api.ask('PUT', path('quotas', app ?? '', user ?? ''), quota), 'The quota is set')
    changed()
  }
  return (
    <details class="panel"><summary>Set the quota of an owner</summary>
      <form aria-label="Quota" onSubmit={(e) => void set(e)}>
        <div class="fields">
          <label>Owner, app/user<input name="owner" value={owner} onInput={(e) => setOwner(e.currentTarget.value)} spellcheck={false} /></label>
          {resources.map(([k, name]) => <label key={k}>{name}<input name={k} type="number" step="any" placeholder="server's default" value={limits[k] ?? ''} onInput={(e) => setLimits({ ...limits, [k]: e.currentTarget.value })} /></label>)}
        </div>
        <p class="faint">Empty: the server's default. −1: no limit.</p>
        <button class="yes" disabled={!/^[^/]+\/[^/]+$/.test(owner)}>Set the quota</button>
      </form>
    </details>
  )
}

/** What this browser keeps, and what the server is. */
export function Settings() {
  const { api, server, toast } = useShared()
  const [chosen, choose] = useState(look.chosen())
  const addresses = (server as { addresses?: string[] }).addresses ?? []
  const pick = (v: string) => {
    look.choose(v)
    choose(v)
    document.documentElement.dataset.look = look.isDark() ? 'dark' : 'light'
    dispatchEvent(new Event('look'))
  }
  const forget = () => {
    for (const k of Object.keys(sessionStorage)) if (k !== 'atoll-token') sessionStorage.removeItem(k)
    toast('Drafts of this tab were removed')
  }
  const leave = async () => {
    if (server.provider && server.token) {
      try { await api.ask('DELETE', 'v1/tokens/' + encodeURIComponent(server.token)) } catch (e) { toast(text(e), true) }
    }
    try { sessionStorage.clear() } catch (e) { toast(text(e), true) }
    location.hash = ''
    location.reload()
  }
  return (
    <>
      <div class="bar-top"><h1>Settings</h1></div>
      <section class="panel" aria-label="This browser"><h2>This browser</h2>
        <div class="line"><label>Colours <select value={chosen} onChange={(e) => pick(e.currentTarget.value)}><option value="">as the system</option><option value="dark">dark</option><option value="light">light</option></select></label></div>
        <div class="line"><button onClick={forget}>Remove drafts</button><span class="faint">unsent messages, comments, edited files and forms of this tab</span></div>
        <div class="line"><button class="danger" onClick={() => void leave()}>Log out</button><span class="faint">{server.provider ? 'ends the session that the login has begun' : 'removes the token from this tab; it stays valid until it expires or is revoked'}</span></div>
      </section>
      <section class="panel" aria-label="Server"><h2>Server</h2>
        <Table name="Settings of the server" head={['Setting', 'Value']}>
          <tr><th scope="row">Version</th><td>{server.version}</td></tr>
          <tr><th scope="row">You</th><td><Label of={[server.owner.app, server.owner.user].filter(Boolean).join('/') || 'local'} /> · {server.scopes.join(', ')}</td></tr>
          <tr><th scope="row">Addresses</th><td>{addresses.map((a) => <span class="chip"><Label of={a} /></span>)}</td></tr>
          <tr><th scope="row">Default driver</th><td>{server.drivers.find((d) => d.default)?.name ?? ''}</td></tr>
        </Table>
        <p class="faint">The server is configured with <code>atoll config</code> on its host.</p>
      </section>
    </>
  )
}
