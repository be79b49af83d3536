// The terminals of a sandbox: a list beside the one that is shown.

import { useEffect, useRef, useState } from 'preact/hooks'
import type { Terminal } from '../api'
import { label } from '../dom'
import type { Screen, State } from '../screen'
import { confirm, path, Problem, text, useAct, useAsk, useShared } from './parts'
import { useEvents } from './follow'

export function TerminalTab({ id }: { id: string }) {
  const { api, server } = useShared()
  const run = useAct()
  const l = useAsk<{ items: Terminal[] }>(path('sandboxes', id, 'terminals'))
  const [shown, show] = useState('')
  const [second, split] = useState('') // beside the first
  const may = server.scopes.includes('run')
  useEvents(id, ['terminal.'], l.reload)
  useEvents(id, ['terminal.detached'], () => setTimeout(l.reload, 1000)) // the guest may notice it later
  const list = l.value?.items ?? []
  const one = list.some((t) => t.name === shown) ? shown : list.find((t) => t.running)?.name ?? ''
  const two = second !== one && list.some((t) => t.name === second) ? second : ''
  const open = () => run(async () => {
    show((await api.open(id)).name)
    l.reload()
  })
  const divide = () => run(async () => {
    const free = list.find((t) => t.running && t.name !== one)
    split(free ? free.name : (await api.open(id)).name)
    l.reload()
  })
  const close = async (t: Terminal) => {
    if (t.running && !(await confirm('End what runs on this terminal?', `${label(t.name)}: ${label(t.command)}`, 'End it'))) return
    await run(() => api.close(id, t.name))
    l.reload()
  }
  return (
    <div class="terminals">
      <nav class="list" aria-label="Terminals">
        {list.map((t) => (
          <span class={t.name === one || t.name === two ? 'row here' : 'row'} key={t.name}>
            <button class="go" title={label(t.command)} aria-current={t.name === one ? 'true' : undefined} onClick={() => { if (t.name === two) split(one); show(t.name) }}><i class={t.running ? 'dot on' : 'dot'} /><b>{label(t.name, 30)}</b>{t.clients > 1 && <small title={'Attached: ' + viewers(t)}>{t.clients}</small>}</button>
            {may && <button class="close" aria-label={'Close ' + label(t.name)} title="Close it" onClick={() => void close(t)}>×</button>}
          </span>))}
        {may && <button class="add" aria-label="Open a terminal" title="Open a terminal" onClick={() => void open()}>+</button>}
        {one && (two ? <button onClick={() => split('')}>One terminal</button> : may && <button onClick={() => void divide()}>Split</button>)}
      </nav>
      <Problem error={l.error} />
      {one ? <div class={two ? 'panes two' : 'panes'}><Shown key={one} id={id} name={one} readOnly={!may} viewers={viewers(list.find((t) => t.name === one))} />{two && <Shown key={two} id={id} name={two} readOnly={!may} viewers={viewers(list.find((t) => t.name === two))} />}</div> : l.value && <p class="empty">No terminal is open. {may && 'Open one with +.'}</p>}
    </div>
  )
}

// viewers says who else is attached; empty: nobody.
function viewers(t?: Terminal): string {
  if (!t || t.clients < 2) return ''
  const names = (t.viewers ?? []).map((v) => label(v.name || 'somebody', 60) + (v.read_only ? ' (watching)' : ''))
  return names.length ? names.join(', ') : `${t.clients} windows`
}

function Shown({ id, name, readOnly, viewers }: { id: string; name: string; readOnly: boolean; viewers: string }) {
  const { api } = useShared()
  const box = useRef<HTMLDivElement>(null)
  const screen = useRef<Screen>()
  const [state, setState] = useState<State>({ at: 'connecting' })
  useEffect(() => {
    let over = false
    const recolor = () => screen.current?.recolor()
    addEventListener('look', recolor)
    const open = async () => {
      const { Screen } = await import('../screen')
      if (over) return
      const s = new Screen(api, id, name, readOnly, box.current!, { state: setState, title: () => undefined, sizes: () => undefined })
      screen.current = s
      Object.assign(window, { atoll: { term: s.term } }) // for tests, and for debugging
      s.term.focus()
    }
    open().catch((e: unknown) => setState({ at: 'ended', how: text(e) } as State))
    return () => { over = true; removeEventListener('look', recolor); screen.current?.leave() }
  }, [])
  return (
    <div class="shown" role="group" aria-label={'Terminal ' + label(name, 30)} onFocusIn={() => { if (screen.current) Object.assign(window, { atoll: { term: screen.current.term } }) }}>
      <div class="screen"><div class="box" ref={box} /></div>
      <p class={'badge ' + state.at} role="status">{state.at === 'ended' ? state.how : state.at === 'waiting' ? state.why + '; what you type is sent then' : state.at}{readOnly && ' · read-only'}{viewers && <span class="viewers"> · attached: {viewers}</span>}
        {state.at === 'waiting' && <button onClick={() => screen.current?.again()}>Now</button>}</p>
    </div>
  )
}
