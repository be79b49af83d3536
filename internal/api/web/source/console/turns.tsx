// Turns of agents: the conversation as it comes, and what waits for an answer.

import { useEffect, useState } from 'preact/hooks'
import { Refused } from '../api'
import { age, Empty, Label, path, Problem, State, Table, text, useAct, useAsk, useShared } from './parts'
import type { Permission, ToolCall, Turn, TurnEvent } from './types'

export function Turns() { return <><div class="bar-top"><h1>Agents</h1></div><TurnList /></> }

export function TurnList({ sandbox }: { sandbox?: string }) {
  const { live } = useShared()
  const l = useAsk<{ items: Turn[] }>('v1/turns')
  useEffect(() => live.follow((e) => { if (e.type.startsWith('process.')) l.reload() })) // an agent is a process
  const list = [...(l.value?.items ?? [])].reverse().filter((t) => !sandbox || t.sandbox === sandbox)
  return (
    <>
      <Start sandbox={sandbox} />
      <Problem error={l.error} />
      {l.value && !list.length && <Empty>There is no turn of an agent.</Empty>}
      {list.length > 0 && <Table name="Turns" head={['Turn', 'State', 'Sandbox', 'Started', 'Result']}>{list.map((t) => (
        <tr key={t.id}><th scope="row"><a href={'#/turns/' + encodeURIComponent(t.id)}><Label of={t.agent || t.assistant || t.id} /></a></th><td><State state={t.state} /></td><td>{t.sandbox && <a href={'#/s/' + encodeURIComponent(t.sandbox)}><Label of={live.name(t.sandbox)} /></a>}</td><td>{age(t.started)} ago</td><td><Label of={t.result && `${t.result.outcome}: ${t.result.text || t.result.message || ''}`} most={100} /></td></tr>))}</Table>}
    </>
  )
}

function Start({ sandbox }: { sandbox?: string }) {
  const { api } = useShared()
  const run = useAct()
  const agents = useAsk<{ items: { name: string }[] }>(sandbox ? 'v1/agents' : undefined)
  const key = 'atoll-prompt ' + sandbox
  const [agent, setAgent] = useState('')
  const [prompt, setPrompt] = useState(sessionStorage.getItem(key) ?? '')
  if (!sandbox || !agents.value?.items.length) return null
  const send = async (e: Event) => {
    e.preventDefault()
    await run(async () => {
      const t = await api.ask<Turn>('POST', 'v1/turns?stream=false', { agent: agent || agents.value!.items[0].name, sandbox, ask: true, prompt: [{ type: 'text', text: prompt }] })
      sessionStorage.removeItem(key)
      location.hash = '#/turns/' + encodeURIComponent(t.id)
    })
  }
  return (
    <form class="panel" onSubmit={(e) => void send(e)}>
      <div class="line"><label>Agent <select value={agent} onChange={(e) => setAgent(e.currentTarget.value)}>{agents.value.items.map((a) => <option>{a.name}</option>)}</select></label><span class="space" /><button class="yes" disabled={!prompt.trim()}>Send</button></div>
      <textarea class="prompt" aria-label="Message to the agent" placeholder="Message to the agent" value={prompt} onInput={(e) => { setPrompt(e.currentTarget.value); sessionStorage.setItem(key, e.currentTarget.value) }} />
    </form>
  )
}

/** Reads the events of a turn until its end, over interruptions. */
function useTurnEvents(id: string): { events: TurnEvent[]; error: string } {
  const { api } = useShared()
  const [events, setEvents] = useState<TurnEvent[]>([])
  const [error, setError] = useState('')
  useEffect(() => {
    const stop = new AbortController()
    const follow = async () => {
      let after = 0
      for (;;) {
        try {
          const answer = await api.send('GET', path('turns', id, 'events') + '?after=' + after, undefined, '', stop.signal)
          setError('')
          const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader()
          for (let rest = ''; ;) {
            const { done, value } = await reader.read()
            if (done) break
            const blocks = (rest + value).split('\n\n')
            rest = blocks.pop() ?? ''
            const fresh = blocks.flatMap((b) => { const line = b.split('\n').find((l) => l.startsWith('data: ')); return line ? [JSON.parse(line.slice(6)) as TurnEvent] : [] }).filter((e) => e.seq > after)
            if (!fresh.length) continue
            after = fresh[fresh.length - 1].seq
            setEvents((l) => [...l, ...fresh])
            if (fresh.some((e) => e.result)) return
          }
        } catch (e) {
          if (stop.signal.aborted) return
          setError(text(e))
          if (e instanceof Refused && e.status >= 400 && e.status < 500) return
        }
        await new Promise((done) => setTimeout(done, 1000))
        if (stop.signal.aborted) return
      }
    }
    void follow()
    return () => stop.abort()
  }, [id])
  return { events, error }
}

/** A part of the conversation: pieces of text that follow each other are one. */
interface Part { kind: 'text' | 'thinking' | 'tool' | 'other'; text: string; tool?: ToolCall; open?: boolean }

function partsOf(events: TurnEvent[]): Part[] {
  const list: Part[] = []
  const tools = new Map<string, Part>()
  for (const e of events) {
    if (e.tool) {
      const known = tools.get(e.tool.id)
      if (known) known.tool = { ...known.tool, ...Object.fromEntries(Object.entries(e.tool).filter(([, v]) => v)) } as ToolCall
      else {
        const p: Part = { kind: 'tool', text: '', tool: e.tool }
        tools.set(e.tool.id, p)
        list.push(p)
      }
    } else if (e.text) {
      const kind = e.type.startsWith('thought') ? 'thinking' : e.type.startsWith('text') ? 'text' : 'other'
      const last = list[list.length - 1]
      const goes = last?.kind === kind && last.open // deltas of the same block
      if (!goes) list.push({ kind, text: e.text, open: e.type.endsWith('.delta') })
      else if (e.type.endsWith('.delta')) last.text += e.text
      else Object.assign(last, { text: e.text, open: false }) // the whole block, whose deltas came before
    }
  }
  return list
}

function Tool({ tool }: { tool: ToolCall }) {
  return (
    <details class="tool"><summary><strong><Label of={tool.name || tool.kind} most={40} /></strong> <Label of={tool.title} most={120} /> <span class="faint">{tool.status}</span></summary>
      {tool.diffs?.map((d) => <div class="diff"><p><Label of={d.path} most={200} /></p>{d.old && <pre class="old">{d.old}</pre>}<pre class="new">{d.new}</pre></div>)}
      {tool.input !== undefined && <pre>{JSON.stringify(tool.input, null, 2).slice(0, 20_000)}</pre>}
      {tool.output && <pre>{tool.output.slice(0, 50_000)}</pre>}
    </details>
  )
}

export function TurnView({ id }: { id: string }) {
  const { api, live } = useShared()
  const run = useAct()
  const { events, error } = useTurnEvents(id)
  const ended = events.find((e) => e.result)?.result
  const turn = useAsk<Turn>(path('turns', id), [Boolean(ended), events.filter((e) => e.permission).length])
  const answered = new Set(events.filter((e) => e.permission?.decision).map((e) => e.permission!.id))
  const open = ended ? [] : [...new Map([...(turn.value?.permissions ?? []), ...events.flatMap((e) => e.permission ?? [])].map((p) => [p.id, p] as const)).values()].filter((p) => !p.decision && !answered.has(p.id))
  const decide = (p: Permission, allow: boolean, always = false) => run(async () => {
    await api.ask('POST', path('turns', id, 'decisions'), { permission: p.id, allow, ...(always && { always }) })
    turn.reload()
  })
  const usage = turn.value?.result?.usage ?? events.findLast((e) => e.usage)?.usage
  return (
    <>
      <div class="bar-top"><h1><Label of={turn.value?.agent || turn.value?.assistant || 'Turn'} /></h1>{turn.value && <State state={ended ? ended.outcome : turn.value.state} />}
        {turn.value?.sandbox && <a href={`#/s/${encodeURIComponent(turn.value.sandbox)}/agent`}><Label of={live.name(turn.value.sandbox)} /></a>}
        {usage && <span class="facts">{usage.input} tokens in, {usage.output} out{usage.cost ? `, $${usage.cost.toFixed(4)}` : ''}</span>}<span class="space" />
        {!ended && <button onClick={() => void run(() => api.ask('POST', path('turns', id, 'interrupt')), 'Interrupted')}>Interrupt</button>}</div>
      <Problem error={error || turn.error} />
      <div class="talk" role="log" aria-label="Conversation">{partsOf(events).map((p) => p.kind === 'tool' ? <Tool tool={p.tool!} /> : p.kind === 'thinking' ? <details class="tool"><summary class="faint">Thinking</summary><pre>{p.text}</pre></details> : <p class={'said ' + p.kind}>{p.text}</p>)}</div>
      {open.map((p) => (
        <section class="panel asks" aria-label="Request for permission" key={p.id}><p>The agent asks to use <strong><Label of={p.tool.name || p.tool.kind} /></strong> <Label of={p.tool.title} most={200} /></p>
          {p.tool.input !== undefined && <pre>{JSON.stringify(p.tool.input, null, 2).slice(0, 20_000)}</pre>}
          <div class="line"><button class="yes" onClick={() => void decide(p, true)}>Allow once</button><button onClick={() => void decide(p, true, true)}>Always</button><button class="danger" onClick={() => void decide(p, false)}>Deny</button></div></section>))}
      {ended && <p class="panel">{ended.outcome}{ended.message ? ': ' + ended.message : ''}</p>}
    </>
  )
}
