// The form that creates a sandbox, and the command that does the same.

import { useState } from 'preact/hooks'
import { path, quote, text, useShared } from './parts'
import type { Sandbox } from './types'

interface Draft { name: string; driver: string; image: string; cpu: string; memory: string; network: string; allow: string }

const kept = 'atoll-draft' // what was typed outlives a reload of the page
const blank: Draft = { name: '', driver: '', image: '', cpu: '', memory: '', network: '', allow: '' }

function command(d: Draft): string {
  const args = ['atoll', 'create']
  for (const [flag, value] of [['--name', d.name], ['--driver', d.driver], ['--image', d.image], ['--cpus', d.cpu], ['--memory', d.memory && d.memory + 'm'], ['--network', d.network]]) if (value) args.push(flag, quote(value))
  for (const host of hosts(d)) args.push('--allow', quote(host))
  return args.join(' ')
}

const hosts = (d: Draft): string[] => d.allow.split(/[\s,]+/).filter(Boolean)

function config(d: Draft): object {
  const limits = { ...(d.cpu && { cpu: Number(d.cpu) }), ...(d.memory && { memory: Number(d.memory) * 2 ** 20 }) }
  const network = { ...(d.network && { mode: d.network }), ...(hosts(d).length && { allow: hosts(d) }) }
  return {
    ...(d.name && { name: d.name }), ...(d.driver && { driver: d.driver }), ...(d.image && { image: d.image }),
    ...(Object.keys(limits).length && { limits }), ...(Object.keys(network).length && { network }),
  }
}

export function Create({ done }: { done(): void }) {
  const { api, live, server, toast } = useShared()
  const [draft, setDraft] = useState<Draft>(() => { try { return { ...blank, ...JSON.parse(sessionStorage.getItem(kept) ?? '{}') } } catch { return blank } })
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState('')
  const change = (name: keyof Draft) => (e: Event) => {
    const next = { ...draft, [name]: (e.currentTarget as HTMLInputElement).value }
    setDraft(next)
    sessionStorage.setItem(kept, JSON.stringify(next))
  }
  const submit = async (e: Event) => {
    e.preventDefault()
    setBusy(true)
    setError('')
    try {
      const s = await (await api.send('POST', path('sandboxes'), JSON.stringify(config(draft)), 'application/json')).json() as Sandbox
      sessionStorage.removeItem(kept)
      live.refresh(s.id)
      toast((s.name || s.id) + ' was created')
      done()
    } catch (e) {
      setError(text(e))
    } finally {
      setBusy(false)
    }
  }
  const field = (name: keyof Draft, title: string, more: object = {}) => <label>{title}<input value={draft[name]} onInput={change(name)} autocomplete="off" spellcheck={false} {...more} /></label>
  return (
    <form class="create panel" aria-label="Create a sandbox" onSubmit={(e) => void submit(e)}>
      <div class="fields">
        {field('name', 'Name', { name: 'name' })}
        <label>Driver<select value={draft.driver} onChange={change('driver')}><option value="">default</option>{server.drivers.filter((d) => !d.error).map((d) => <option>{d.name}</option>)}</select></label>
        {field('image', 'Image')}
        {field('cpu', 'CPUs', { type: 'number', min: 0, step: 'any' })}
        {field('memory', 'Memory, MiB', { type: 'number', min: 0 })}
        <label>Network<select value={draft.network} onChange={change('network')}><option value="">default</option>{['none', 'nat', 'bridge', 'open'].map((m) => <option>{m}</option>)}</select></label>
        {field('allow', 'Allowed hosts', { placeholder: 'example.com:443, …' })}
      </div>
      <p class="command">The same on the command line: <code>{command(draft)}</code></p>
      {error && <p class="problem" role="alert">{error}</p>}
      <button class="yes" disabled={busy}>{busy ? 'Creating…' : 'Create the sandbox'}</button>
    </form>
  )
}
