// Conversations with agents: turns as they come, and what waits for an answer.

import { useEffect, useRef, useState } from 'preact/hooks'
import { Refused } from '../api'
import { label } from '../dom'
import { followTurn, sendMessage, sentText, steer, useAgents, usePrompts, useTurns } from './message'
import { age, Empty, Label, path, Problem, State, Table, text, useAct, useAsk, useShared } from './parts'
import type { ChatMessage, Permission, Session, ToolCall, Turn, TurnEvent, Usages } from './types'

export function Turns() {
  const { api, live } = useShared()
  const run = useAct()
  const l = useTurns(undefined)
  const list = [...(l.turns ?? [])].reverse()
  const chats = useAsk<{ items: Session[] }>('v1/sessions', [l.turns?.length, list.filter((t) => t.result).length])
  const assistants = useAsk<{ items: Assistant[] }>('v1/assistants')
  const retry = async (t: Turn) => {
    await run(() => api.ask('POST', path('turns', t.id, 'retry')), 'The turn is repeated')
    l.reload()
  }
  const at = (sandbox: string | undefined) => sandbox && <a href={'#/s/' + encodeURIComponent(sandbox) + '/agent'}><Label of={live.name(sandbox)} /></a>
  const sessions = [...(chats.value?.items ?? [])].reverse()
  return (
    <>
      <div class="bar-top"><h1>Agents</h1></div>
      <Problem error={l.error} />
      <h2>Turns</h2>
      {l.turns && !list.length && <Empty>There is no turn of an agent.</Empty>}
      {list.length > 0 && <Table name="Turns" head={['Turn', 'State', 'Sandbox', 'Started', 'Result', '']}>{list.map((t) => (
        <tr key={t.id}><th scope="row"><a href={'#/turns/' + encodeURIComponent(t.id)}><Label of={t.agent || t.assistant || t.id} /></a></th><td><State state={t.state} /></td><td>{at(t.sandbox)}</td><td>{age(t.started)} ago</td><td><Label of={t.result && `${t.result.outcome}: ${t.result.text || t.result.message || ''}`} most={100} /></td>
          <td><span class="acts">{t.result && ['error', 'crashed', 'timeout'].includes(t.result.outcome) && <button aria-label={'repeat the turn ' + t.id} onClick={() => void retry(t)}>repeat</button>}</span></td></tr>))}</Table>}
      <h2>Chats</h2>
      <Problem error={chats.error} />
      {chats.value && !sessions.length && <Empty>There is no chat.</Empty>}
      {sessions.length > 0 && <Table name="Chats" head={['Chat', 'State', 'Sandbox', 'Turns', 'Tokens', 'Cost']}>{sessions.map((c) => (
        <tr key={c.id}><th scope="row"><a href={'#/chats/' + encodeURIComponent(c.id)}><Label of={c.assistant || c.agent || c.model || c.id} /></a></th><td><State state={c.state} /></td><td>{at(c.sandbox)}</td><td class="number">{c.turns}</td><td class="number">{c.usage ? c.usage.input + c.usage.output : ''}</td><td class="number">{c.usage?.cost ? '$' + c.usage.cost.toFixed(2) : ''}</td></tr>))}</Table>}
      <h2>Assistants</h2>
      <Problem error={assistants.error} />
      {assistants.value && !assistants.value.items.length && <Empty>The server has no assistant. <code>atoll assistant</code> adds one.</Empty>}
      {Boolean(assistants.value?.items.length) && <Table name="Assistants" head={['Assistant', 'Agent or model', 'Skills', 'Tools', 'Problem']}>{assistants.value!.items.map((a) => (
        <tr key={a.id}><th scope="row"><Label of={a.name || a.id} />{a.description && <small><Label of={a.description} most={200} /></small>}</th><td><Label of={a.agent || a.model || a.connector} /></td><td>{a.skills?.map((k) => <span class="chip"><Label of={k} most={40} /></span>)}</td><td>{a.tools?.map((k) => <span class="chip"><Label of={k} most={40} /></span>)}</td><td><Label of={a.problem} most={200} /></td></tr>))}</Table>}
    </>
  )
}

interface Assistant { id: string; name?: string; description?: string; agent?: string; connector?: string; model?: string; skills?: string[]; tools?: string[]; problem?: string }

/** What was said in a chat. */
export function ChatView({ id }: { id: string }) {
  const { live } = useShared()
  const chat = useAsk<Session>(path('sessions', id))
  const l = useAsk<{ items: ChatMessage[] }>(path('sessions', id, 'messages'))
  useEffect(() => live.follow((e) => { if (e.type.startsWith('turn.')) { chat.reload(); l.reload() } }))
  const c = chat.value
  return (
    <>
      <div class="bar-top"><h1><Label of={c?.assistant || c?.agent || c?.model || 'Chat'} /></h1>{c && <State state={c.state} />}{c?.sandbox && <a href={`#/s/${encodeURIComponent(c.sandbox)}/agent`}><Label of={live.name(c.sandbox)} /></a>}{c?.turn && <a href={`#/turns/${encodeURIComponent(c.turn)}`}>the last turn</a>}</div>
      <Problem error={chat.error || l.error} />
      {l.value && !l.value.items.length && <Empty>Nothing is stored of what was said.</Empty>}
      <div class="talk" role="log" aria-label="Chat">{l.value?.items.map((m, i) => <p key={i} class={'said ' + (m.role === 'user' ? 'user' : 'text')}>{m.text}</p>)}</div>
    </>
  )
}

/** The conversations with the agents of a sandbox. */
export function AgentTab({ sandbox }: { sandbox: string }) {
  const l = useTurns(sandbox)
  const [chosen, choose] = useState<string>()
  const all = l.turns ?? []
  const chats = [...new Set(all.map((t) => t.chat || t.id))]
  const chat = chosen ?? chats[chats.length - 1] ?? ''
  const turns = all.filter((t) => (t.chat || t.id) === chat)
  const last = turns[turns.length - 1]
  const prompts = usePrompts(turns[0]?.chat ?? '', turns.filter((t) => t.result).length)
  const known = prompts.length === turns.length || prompts.length === turns.length - 1 ? prompts : [] // else messages went to running turns: which is whose is unknown
  return (
    <>
      {chats.length > 0 && (
        <div class="line"><label>Conversation <select value={chat} onChange={(e) => choose(e.currentTarget.value)}>
          {chats.map((c) => { const first = all.find((t) => (t.chat || t.id) === c)!; return <option value={c}>{label(first.agent || first.assistant || 'agent', 20)}, {new Date(first.started).toLocaleString([], { hour12: false })}</option> })}
          <option value="">a new one</option>
        </select></label><Total turns={turns} /><Budget /></div>
      )}
      <Problem error={l.error} />
      {l.turns && !chats.length && <Empty>No agent has worked here yet.</Empty>}
      <div class="talk" role="log" aria-label="Conversation">{turns.map((t, i) => <TurnLog key={t.id} turn={t} said={known[i]} ended={l.reload} />)}</div>
      <Write key={chat} sandbox={sandbox} last={turns.find((t) => t.state === 'running' || t.state === 'waiting') ?? last} sent={(t) => { choose(t.chat || t.id); l.reload() }} />
    </>
  )
}

const tokens = (u: Usages): string => `${u.input + (u.cache_read ?? 0) + (u.cache_write ?? 0)} tokens in, ${u.output} out${u.cost ? `, $${u.cost.toFixed(4)}` : ''}`

const add = (list: Usages[]): Usages => list.reduce((a, b) => ({ input: a.input + b.input, output: a.output + b.output, cache_read: (a.cache_read ?? 0) + (b.cache_read ?? 0), cache_write: (a.cache_write ?? 0) + (b.cache_write ?? 0), cost: (a.cost ?? 0) + (b.cost ?? 0) }), { input: 0, output: 0 })

function Total({ turns }: { turns: Turn[] }) {
  const ended = turns.flatMap((t) => t.result?.usage ?? [])
  return ended.length > 1 ? <span class="facts">{tokens(add(ended))} in {ended.length} turns</span> : null
}

/** What is left of the month's tokens and money for models, if there is a limit. */
function Budget() {
  const q = useAsk<{ limit: Record<string, number | undefined>; used: Record<string, number | undefined> }>('v1/quota').value
  const parts = q ? [(q.limit.tokens ?? 0) > 0 ? `${q.used.tokens ?? 0} of ${q.limit.tokens} tokens` : '', (q.limit.cost ?? 0) > 0 ? `$${(q.used.cost ?? 0).toFixed(2)} of $${q.limit.cost!.toFixed(2)}` : ''].filter(Boolean) : []
  return parts.length ? <span class="facts">this month: {parts.join(', ')}</span> : null
}

/** The field for a message. What is typed outlives a reload of the page. */
function Write({ sandbox, last, sent }: { sandbox: string; last?: Turn; sent(t: Turn): void }) {
  const { api, server, toast } = useShared()
  const run = useAct()
  const agents = useAgents()
  const key = 'atoll-prompt ' + sandbox
  const [agent, setAgent] = useState('')
  const [prompt, setPrompt] = useState(sessionStorage.getItem(key) ?? '')
  const [busy, setBusy] = useState(false)
  const to = last?.agent ?? (agent || agents[0])
  if (!server.scopes.includes('run')) return null
  const send = async (e: Event) => {
    e.preventDefault()
    setBusy(true)
    await run(async () => {
      const t = await sendMessage(api, { sandbox, agent: to, last, text: prompt })
      sessionStorage.removeItem(key)
      setPrompt('')
      sent(t)
    })
    setBusy(false)
  }
  const working = last && last.state !== 'finished'
  const pass = () => run(async () => {
    setBusy(true)
    try {
      const got = await steer(api, last!.id, prompt)
      sessionStorage.removeItem(key)
      setPrompt('')
      toast(got.state === 'sent' ? 'The agent reads it while it works' : 'It is the next message, after what the agent does now' + (got.reason ? ': ' + label(got.reason, 160) : ''))
      if (got.turn) sent(got.turn)
    } finally { setBusy(false) }
  })
  return (
    <form class="panel write" onSubmit={(e) => void send(e)}>
      <textarea class="prompt" aria-label="Message to the agent" placeholder={to ? 'Message to ' + label(to, 30) : 'Message to the agent'} value={prompt} onInput={(e) => { setPrompt(e.currentTarget.value); sessionStorage.setItem(key, e.currentTarget.value) }} />
      <div class="line">
        {!last && agents.length > 0 && <label>Agent <select value={agent || agents[0]} onChange={(e) => setAgent(e.currentTarget.value)}>{agents.map((a) => <option>{a}</option>)}</select></label>}
        {!last && !agents.length && <span class="faint">This server has no agents.</span>}
        <span class="space" />
        {working && <button type="button" onClick={() => void run(() => api.ask('POST', path('turns', last.id, 'interrupt')), 'Interrupted')}>Interrupt</button>}
        {working && <button type="button" disabled={busy || !prompt.trim()} onClick={() => void pass()}>Send without interrupting</button>}
        <button class="yes" disabled={busy || !to || !prompt.trim()}>{busy ? 'Sending…' : working ? 'Interrupt and send' : 'Send'}</button>
      </div>
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
          setError('')
          const ended = await followTurn(api, id, after, stop.signal, (fresh) => {
            after = fresh[fresh.length - 1].seq
            setEvents((l) => [...l, ...fresh])
          })
          if (ended) return
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
      {tool.diffs?.map((d) => <div class="diff"><p><Label of={d.path} most={200} /></p>{d.old && <pre tabIndex={0} class="old">{d.old}</pre>}<pre tabIndex={0} class="new">{d.new}</pre></div>)}
      {tool.input !== undefined && <pre tabIndex={0}>{JSON.stringify(tool.input, null, 2).slice(0, 20_000)}</pre>}
      {tool.output && <pre tabIndex={0}>{tool.output.slice(0, 50_000)}</pre>}
    </details>
  )
}

/** One turn: what was sent, what the agent did, what it asks, how it ended. */
function TurnLog({ turn, said, ended }: { turn: Turn; said?: string; ended(): void }) {
  const { api } = useShared()
  const run = useAct()
  const { events, error } = useTurnEvents(turn.id)
  const end = events.find((e) => e.result)?.result
  const known = useRef(Boolean(turn.result))
  useEffect(() => { if (end && !known.current) { known.current = true; ended() } }, [Boolean(end)])
  const answered = new Set(events.filter((e) => e.permission?.decision).map((e) => e.permission!.id))
  const open = end ? [] : [...new Map(events.flatMap((e) => e.permission ?? []).map((p) => [p.id, p] as const)).values()].filter((p) => !p.decision && !answered.has(p.id))
  const decide = (p: Permission, allow: boolean, always = false) => run(() => api.ask('POST', path('turns', turn.id, 'decisions'), { permission: p.id, allow, ...(always && { always }) }))
  const usage = end?.usage ?? add(events.flatMap((e) => e.usage ?? []))
  const plan = events.findLast((e) => e.plan)?.plan
  const sent = sentText(turn.id) || said
  return (
    <section class="turn" aria-label={'Turn ' + turn.id}>
      <p class="said user">{sent || <span class="faint">(a message that was sent elsewhere, {age(turn.started)} ago)</span>}</p>
      <Problem error={error} />
      {partsOf(events).map((p, i) => p.kind === 'tool' ? <Tool key={i} tool={p.tool!} /> : p.kind === 'thinking' ? <details key={i} class="tool"><summary class="faint">Thinking</summary><pre tabIndex={0}>{p.text}</pre></details> : <p key={i} class={'said ' + p.kind}>{p.text}</p>)}
      {plan && !end && <ul class="plan">{plan.map((e) => <li class={e.status}>{e.status === 'completed' ? '☑' : e.status === 'in_progress' ? '▶' : '☐'} <Label of={e.text} most={200} /></li>)}</ul>}
      {open.map((p) => (
        <section class="panel asks" aria-label="Request for permission" key={p.id}><p>The agent asks to use <strong><Label of={p.tool.name || p.tool.kind} /></strong> <Label of={p.tool.title} most={200} /></p>
          {p.tool.input !== undefined && <pre tabIndex={0}>{JSON.stringify(p.tool.input, null, 2).slice(0, 20_000)}</pre>}
          <div class="line"><button class="yes" onClick={() => void decide(p, true)}>Allow once</button><button onClick={() => void decide(p, true, true)}>Always</button><button class="danger" onClick={() => void decide(p, false)}>Deny</button></div></section>))}
      <p class="end">{end ? <State state={end.outcome} /> : <State state={open.length ? 'waiting' : turn.state === 'queued' ? 'queued' : 'working'} />}{end?.message && <> <Label of={end.message} most={300} /></>} <span class="facts">{usage.input + usage.output > 0 && tokens(usage)}</span></p>
    </section>
  )
}

export function TurnView({ id }: { id: string }) {
  const { live } = useShared()
  const turn = useAsk<Turn>(path('turns', id))
  const t = turn.value
  return (
    <>
      <div class="bar-top"><h1><Label of={t?.agent || t?.assistant || 'Turn'} /></h1>{t?.sandbox && <a href={`#/s/${encodeURIComponent(t.sandbox)}/agent`}><Label of={live.name(t.sandbox)} /></a>}</div>
      <Problem error={turn.error} />
      {t && <div class="talk" role="log" aria-label="Conversation"><TurnLog turn={t} ended={turn.reload} /></div>}
      {t?.sandbox && t.agent && <Write sandbox={t.sandbox} last={t} sent={(next) => { location.hash = '#/turns/' + encodeURIComponent(next.id) }} />}
    </>
  )
}
