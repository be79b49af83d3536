// The console: its frame and the views by address.

import { render } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { API } from '../api'
import * as look from '../look'
import { Images, Pools, Settings } from './admin'
import { Access, Audit, Drivers, Workspaces, WorkspaceView } from './elsewhere'
import { Live } from './live'
import { Overview } from './overview'
import { Context, useLive, type Server, type Undo } from './parts'
import { SandboxView } from './sandbox'
import { ChatView, Turns, TurnView } from './turns'

const views: [string, string][] = [['', 'Sandboxes'], ['turns', 'Agents'], ['workspaces', 'Workspaces'], ['images', 'Images'], ['pools', 'Pools'], ['access', 'Access'], ['audit', 'Audit'], ['drivers', 'Drivers'], ['settings', 'Settings']]

/** Where the address says to be: #/s/ID/files. */
const readPlace = (): string[] => location.hash.replace(/^#\/?/, '').split('/').map((p) => { try { return decodeURIComponent(p) } catch { return '' } })

function Status() {
  const live = useLive()
  const [, tick] = useState(0)
  const c = live.connection
  useEffect(() => {
    if (c.at !== 'lost') return
    const timer = setInterval(() => tick((n) => n + 1), 500)
    return () => clearInterval(timer)
  }, [c.at])
  return (
    <>
      <span class={'link ' + c.at} role="status">{c.at === 'live' ? 'live' : c.at === 'connecting' ? 'connecting' : 'disconnected'}</span>
      {c.at === 'lost' && <div class="lost" role="alert">Disconnected from the server: what you see may be old. Trying again in {Math.max(1, Math.ceil((c.until - Date.now()) / 1000))} s. <button onClick={() => live.again()}>Now</button></div>}
      {c.at === 'denied' && <div class="lost" role="alert">The token is no longer valid: it was revoked or has expired. <button onClick={() => { sessionStorage.removeItem('atoll-token'); location.reload() }}>Use another</button></div>}
    </>
  )
}

function View({ at }: { at: string[] }) {
  switch (at[0]) {
    case 's': return <SandboxView key={at[1]} id={at[1] ?? ''} tab={at[2] ?? ''} />
    case 'turns': return at[1] ? <TurnView key={at[1]} id={at[1]} /> : <Turns />
    case 'chats': return <ChatView key={at[1]} id={at[1] ?? ''} />
    case 'workspaces': return at[1] ? <WorkspaceView key={at[1]} name={at[1]} /> : <Workspaces />
    case 'images': return <Images />
    case 'pools': return <Pools />
    case 'settings': return <Settings />
    case 'access': return <Access />
    case 'audit': return <Audit />
    case 'drivers': return <Drivers />
    default: return <Overview />
  }
}

function App({ api, live, server }: { api: API; live: Live; server: Server }) {
  const [at, go] = useState(readPlace)
  const [note, setNote] = useState<{ text: string; failed: boolean; undo?: Undo }>()
  const timer = useRef<number>()
  useEffect(() => {
    const f = () => { if (!location.hash.includes('token=')) go(readPlace()) }
    addEventListener('hashchange', f)
    return () => removeEventListener('hashchange', f)
  }, [])
  const toast = (text: string, failed = false, undo?: Undo) => {
    clearTimeout(timer.current)
    setNote({ text, failed, undo })
    timer.current = setTimeout(() => setNote(undefined), undo?.until ?? (failed ? 15_000 : undo ? 20_000 : 4_000))
  }
  const here = at[0] === 's' ? '' : at[0] === 'chats' ? 'turns' : at[0]
  useEffect(() => { document.title = (views.find(([p]) => p === here)?.[1] ?? 'atoll') + ' · atoll' }, [here])
  return (
    <Context.Provider value={{ api, live, server, toast }}>
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById('main')?.focus() }}>Skip to the content</a>
      <header class="top">
        <a class="brand" href="#/">atoll</a>
        <nav aria-label="Views">{views.map(([p, name]) => <a href={'#/' + p} aria-current={p === here ? 'page' : undefined}>{name}</a>)}</nav>
        <Status />
        <button class="icon" aria-label="Dark or light" title="Dark or light" onClick={() => { look.toggle(); document.documentElement.dataset.look = look.isDark() ? 'dark' : 'light'; dispatchEvent(new Event('look')) }}>◐</button>
      </header>
      <main id="main" tabIndex={-1}><View at={at} /></main>
      <div class="toasts" role="status">{note && <p class={note.failed ? 'toast failed' : 'toast'}>{note.text} {note.undo && <button class="undo" onClick={() => { setNote(undefined); note.undo!.undo() }}>{note.undo.title}</button>} <button aria-label="Dismiss" onClick={() => setNote(undefined)}>×</button></p>}</div>
    </Context.Provider>
  )
}

/** Shows the console instead of the page. */
export function openConsole(api: API, server: Server): void {
  const live = new Live(api)
  document.body.replaceChildren()
  document.documentElement.classList.add('console')
  look.follow(() => dispatchEvent(new Event('look')))
  render(<App api={api} live={live} server={server} />, document.body)
  void live.run()
}
