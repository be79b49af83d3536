// The form that creates a sandbox, and the command that does the same.

import { useState } from 'preact/hooks'
import { label } from '../dom'
import { sendMessage, useAgents } from './message'
import { decode, path, quote, text, useAsk, useShared } from './parts'
import type { Sandbox } from './types'

interface Draft { name: string; driver: string; image: string; pool: string; cpu: string; memory: string; disk: string; network: string; allow: string; policy: string; repository: string; agent: string; task: string }

const kept = 'atoll-draft' // what was typed outlives a reload of the page
const blank: Draft = { name: '', driver: '', image: '', pool: '', cpu: '', memory: '', disk: '', network: '', allow: '', policy: '', repository: '', agent: '', task: '' }

function command(d: Draft): string {
  const args = ['atoll', 'create']
  for (const [flag, value] of [['--name', d.name], ['--driver', d.driver], ['--image', d.image], ['--pool', d.pool], ['--cpus', d.cpu], ['--memory', d.memory && d.memory + 'm'], ['--disk', d.disk && d.disk + 'm'], ['--network', d.network], ['--policy', d.policy]]) if (value) args.push(flag, quote(value))
  for (const host of hosts(d)) args.push('--allow', quote(host))
  const lines = [args.join(' ')]
  const name = d.name ? quote(d.name) : 'NAME'
  if (d.repository) lines.push(`atoll exec ${name} -- git clone ${quote(d.repository)} .`)
  if (d.agent && d.task.trim()) lines.push(`atoll agent run ${quote(d.agent)} --sandbox ${name} --ask ${quote(d.task.trim())}`)
  return lines.join('\n')
}

const hosts = (d: Draft): string[] => d.allow.split(/[\s,]+/).filter(Boolean)

function config(d: Draft): object {
  const limits = { ...(d.cpu && { cpu: Number(d.cpu) }), ...(d.memory && { memory: Number(d.memory) * 2 ** 20 }), ...(d.disk && { disk: Number(d.disk) * 2 ** 20 }) }
  const network = { ...(d.network && { mode: d.network }), ...(hosts(d).length && { allow: hosts(d) }) }
  return {
    ...(d.name && { name: d.name }), ...(d.driver && { driver: d.driver }), ...(d.image && { image: d.image }), ...(d.pool && { pool: d.pool }), ...(d.policy && { lifecycle: { policy: d.policy } }),
    ...(Object.keys(limits).length && { limits }), ...(Object.keys(network).length && { network }),
  }
}

export function Create({ done }: { done(): void }) {
  const { api, live, server, toast } = useShared()
  const agents = useAgents()
  const images = useAsk<{ items: { ref: string }[] }>('v1/images')
  const pools = useAsk<{ items: { name: string }[] }>('v1/pools')
  const [draft, setDraft] = useState<Draft>(() => { try { return { ...blank, ...JSON.parse(sessionStorage.getItem(kept) ?? '{}') } } catch { return blank } })
  const [busy, setBusy] = useState('')
  const [error, setError] = useState('')
  const change = (name: keyof Draft) => (e: Event) => {
    const next = { ...draft, [name]: (e.currentTarget as HTMLInputElement).value }
    setDraft(next)
    sessionStorage.setItem(kept, JSON.stringify(next))
  }
  const submit = async (e: Event) => {
    e.preventDefault()
    setBusy('Creating…')
    setError('')
    try {
      const s = await (await api.send('POST', path('sandboxes'), JSON.stringify(config(draft)), 'application/json')).json() as Sandbox
      sessionStorage.removeItem(kept)
      live.refresh(s.id)
      done()
      toast(label(s.name || s.id, 60) + ' was created')
      if (draft.repository) {
        toast('Cloning ' + label(draft.repository, 80))
        const r = await (await api.send('POST', path('sandboxes', s.id, 'exec'), JSON.stringify({ args: ['git', 'clone', '--', draft.repository, '.'], timeout: 600e9 }), 'application/json')).json() as { code: number; stderr?: string }
        if (r.code) throw new Error('git clone: ' + label(decode(r.stderr), 300))
        toast('The repository is in ' + label(s.name || s.id, 60))
      }
      if (draft.agent && draft.task.trim()) {
        await sendMessage(api, { sandbox: s.id, agent: draft.agent, text: draft.task.trim() })
        location.hash = `#/s/${encodeURIComponent(s.id)}/agent`
      }
    } catch (e) {
      setError(text(e))
      toast(text(e), true) // the form may be closed
    } finally {
      setBusy('')
    }
  }
  const field = (name: keyof Draft, title: string, more: object = {}) => <label>{title}<input value={draft[name]} onInput={change(name)} autocomplete="off" spellcheck={false} {...more} /></label>
  return (
    <form class="create panel" aria-label="Create a sandbox" onSubmit={(e) => void submit(e)}>
      <div class="fields">
        {field('name', 'Name', { name: 'name' })}
        <label>Driver<select value={draft.driver} onChange={change('driver')}><option value="">default</option>{server.drivers.filter((d) => !d.error).map((d) => <option>{d.name}</option>)}</select></label>
        {field('image', 'Image', { list: 'create-images' })}
        <datalist id="create-images">{(images.value?.items ?? []).map((i) => <option value={i.ref} />)}</datalist>
        {Boolean(pools.value?.items.length) && <label>Pool of ready sandboxes<select value={draft.pool} onChange={change('pool')}><option value="">none</option>{pools.value!.items.map((p) => <option>{p.name}</option>)}</select></label>}
        {field('cpu', 'CPUs', { type: 'number', min: 0, step: 'any' })}
        {field('memory', 'Memory, MiB', { type: 'number', min: 0 })}
        {field('disk', 'Disk, MiB', { type: 'number', min: 0 })}
        <label>Network<select value={draft.network} onChange={change('network')}><option value="">default</option>{['none', 'nat', 'bridge', 'open'].map((m) => <option>{m}</option>)}</select></label>
        {field('allow', 'Allowed hosts', { placeholder: 'example.com:443, …' })}
        <label>Lifetime<select value={draft.policy} onChange={change('policy')}><option value="">default</option>{['session', 'longrunning', 'persistent'].map((m) => <option>{m}</option>)}</select></label>
        {field('repository', 'Repository to clone', { placeholder: 'https://…', name: 'repository' })}
        {agents.length > 0 && <label>Agent<select value={draft.agent} onChange={change('agent')}><option value="">none</option>{agents.map((a) => <option>{a}</option>)}</select></label>}
        {draft.agent && field('task', 'Task for the agent', { name: 'task' })}
      </div>
      <p class="command">The same on the command line: <code class="lines">{command(draft)}</code></p>
      {error && <p class="problem" role="alert">{error}</p>}
      <button class="yes" disabled={Boolean(busy)}>{busy || 'Create the sandbox'}</button>
    </form>
  )
}
