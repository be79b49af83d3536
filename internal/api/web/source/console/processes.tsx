// The commands of a sandbox, and the tree of all its processes.

import { useEffect, useState } from 'preact/hooks'
import { label } from '../dom'
import { bytes, clock, confirm, decode, Empty, Label, path, Problem, Table, text, useAct, useAsk, useShared } from './parts'
import { useCalm, useEvents } from './follow'
import type { Process, Sandbox } from './types'

export function Processes({ s }: { s: Sandbox }) {
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
      {s.state === 'running' && <ProcessTree s={s} />}
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

interface Task { pid: number; parent: number; memory: number; command: string; depth: number }

const mostTasks = 2000 // that are shown

/** The processes in the output of ps, each below its parent. */
export function treeOf(output: string): Task[] {
  const rows = output.split('\n', mostTasks + 1).slice(1) // the ps is the sandbox's, and may print anything
  const seen = new Set<number>()
  const all = rows.flatMap((row) => {
    const m = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(.*)$/.exec(row)
    if (!m || seen.has(Number(m[1]))) return []
    seen.add(Number(m[1]))
    return [{ pid: Number(m[1]), parent: Number(m[2]), memory: Number(m[3]) * 1024, command: m[4], depth: 0 }]
  })
  const list: Task[] = []
  const add = (t: Task, depth: number) => {
    list.push({ ...t, depth })
    if (depth < 50) for (const child of all) if (child.parent === t.pid && child.pid !== t.pid) add(child, depth + 1)
  }
  for (const t of all) if (!seen.has(t.parent)) add(t, 0)
  return list
}

/** All processes, as the sandbox's ps lists them: also those that no command of atoll has started. */
function ProcessTree({ s }: { s: Sandbox }) {
  const { api } = useShared()
  const run = useAct()
  const [state, set] = useState<{ list?: Task[]; error?: string }>({})
  const exec = async (args: string[]) => (await api.send('POST', path('sandboxes', s.id, 'exec'), JSON.stringify({ args, internal: true, timeout: 10e9, max_output: 1 << 20 }), 'application/json')).json() as Promise<{ stdout?: string; stderr?: string; code: number }>
  const read = async () => {
    try {
      const r = await exec(['ps', '-eo', 'pid,ppid,rss,args'])
      if (r.code) throw new Error(decode(r.stderr).trim().slice(0, 300) || 'ps ended with status ' + r.code)
      set({ list: treeOf(decode(r.stdout)).filter((t) => !t.command.startsWith('ps -eo pid,ppid,rss')) })
    } catch (e) {
      set({ error: text(e) })
    }
  }
  const soon = useCalm(() => void read())
  useEffect(() => void read(), [s.id])
  useEvents(s.id, ['process.', 'terminal.', 'turn.'], soon)
  const kill = async (t: Task) => {
    if (!(await confirm('Kill this process?', `${t.pid}: ${label(t.command, 200)}`, 'Kill'))) return
    await run(async () => {
      const r = await exec(['kill', '-9', String(t.pid)])
      if (r.code) throw new Error(decode(r.stderr).trim().slice(0, 300))
    }, 'Killed')
    await read()
  }
  return (
    <section aria-label="All processes">
      <div class="line"><h2>All processes</h2><span class="faint">{state.list && `${state.list.length}, as the ps of the sandbox lists them`}</span><span class="space" /><button onClick={() => void read()}>Read the tree again</button></div>
      <Problem error={state.error} />
      {Boolean(state.list?.length) && <Table name="Tree of processes" head={['Process', 'Memory', 'Command', '']}>{state.list!.map((t) => (
        <tr key={t.pid}><td class="number">{t.pid}</td><td class="number">{bytes(t.memory)}</td><th scope="row"><code><span class="faint branch" aria-hidden="true">{t.depth ? '  '.repeat(t.depth - 1) + '└ ' : ''}</span><Label of={t.command} most={140} /></code></th>
          <td><span class="acts">{t.pid > 1 && <button class="danger" aria-label={'kill process ' + t.pid} onClick={() => void kill(t)}>kill</button>}</span></td></tr>))}</Table>}
    </section>
  )
}
