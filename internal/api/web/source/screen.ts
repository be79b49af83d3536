// A terminal on the page: xterm.js, connected for as long as it is looked at.

import { FitAddon } from '@xterm/addon-fit'
import { Unicode11Addon } from '@xterm/addon-unicode11'
import { WebLinksAddon } from '@xterm/addon-web-links'
import { Terminal } from '@xterm/xterm'
import { Refused, type API } from './api'
import { ask } from './dom'
import { theme } from './look'
import { Stream, type Exit, type Size } from './stream'

export type State =
  | { at: 'connecting' }
  | { at: 'connected' }
  | { at: 'waiting'; why: string; until: number } // trying again then
  | { at: 'ended'; how: string; failed: boolean }

export interface Watcher {
  state(s: State): void
  title(text: string): void
  /** The terminal's size, and that of this window. */
  sizes(terminal: Size, window: Size): void
}

const firstWait = 500
const longestWait = 15_000
const mostKept = 64 << 10 // bytes typed while nobody takes them

export class Screen {
  readonly term: Terminal
  private readonly fit = new FitAddon()
  private stream: Stream | undefined
  private timer: number | undefined
  private kept: Uint8Array[] = [] // typed and never sent; what was sent is not sent again: it may have arrived
  private failures = 0
  private own: Size = { rows: 0, cols: 0 }
  private room = { width: 0, height: 0 } // for which own was measured
  private over = false
  private readonly observer: ResizeObserver
  private readonly forget = new AbortController()

  constructor(
    private readonly api: API, private readonly sandbox: string, private readonly name: string, private readonly readOnly: boolean,
    private readonly box: HTMLElement, private readonly watcher: Watcher,
  ) {
    this.term = new Terminal({
      allowProposedApi: true, theme: theme(), fontSize: 14, lineHeight: 1.15, scrollback: 10_000, disableStdin: readOnly, cursorBlink: !readOnly, macOptionIsMeta: true,
      fontFamily: 'ui-monospace, "Cascadia Mono", "SF Mono", Menlo, "DejaVu Sans Mono", Consolas, monospace',
      linkHandler: { activate: (_, uri) => void follow(uri) },
    })
    this.term.loadAddon(this.fit)
    this.term.loadAddon(new Unicode11Addon())
    this.term.unicode.activeVersion = '11'
    this.term.loadAddon(new WebLinksAddon((_, uri) => void follow(uri)))
    this.term.open(box)
    this.term.onTitleChange((t) => watcher.title(t))
    this.term.onData((s) => this.type(new TextEncoder().encode(s)))
    this.term.onBinary((s) => this.type(Uint8Array.from(s, (c) => c.charCodeAt(0))))
    this.term.attachCustomKeyEventHandler((e) => this.key(e))
    this.observer = new ResizeObserver(() => this.measure())
    this.observer.observe(box)
    addEventListener('online', () => this.again(), { signal: this.forget.signal })
    document.addEventListener('visibilitychange', () => { if (!document.hidden) this.again() }, { signal: this.forget.signal })
    this.measure()
    this.connect()
  }

  /** Types, if this window may. */
  type(data: Uint8Array): void {
    if (this.readOnly || this.over) return
    if (this.stream) this.stream.type(data)
    else if (this.kept.reduce((n, d) => n + d.length, data.length) <= mostKept) this.kept.push(data)
  }

  recolor(): void { this.term.options.theme = theme() }

  /** Leaves the terminal and the page. */
  leave(): void {
    this.over = true
    clearTimeout(this.timer)
    this.forget.abort()
    this.observer.disconnect()
    this.stream?.leave()
    this.term.dispose()
    this.box.replaceChildren()
  }

  /** Tries at once what would be tried later. */
  again(): void {
    if (this.timer === undefined || this.over) return
    clearTimeout(this.timer)
    this.timer = undefined
    void this.probe()
  }

  private connect(): void {
    this.watcher.state({ at: 'connecting' })
    this.stream = new Stream(this.api.attachURL(this.sandbox, this.name), this.api.token, this.own, this.readOnly, {
      sized: (size) => {
        this.failures = 0
        this.watcher.state({ at: 'connected' })
        // In its turn: what was sent before it is drawn in the size before.
        this.term.write('', () => {
          if (!this.over || this.stream) this.term.resize(size.cols, size.rows)
          this.told = size
          this.watcher.sizes(size, this.own)
        })
      },
      output: (data, taken) => this.term.write(data, taken),
      ended: (exit, opened) => this.ended(exit, opened),
    })
    for (const data of this.kept.splice(0)) this.stream.type(data)
  }

  private told: Size = { rows: 0, cols: 0 }

  private ended(exit: Exit | undefined, opened: boolean): void {
    this.kept = this.stream?.unsent() ?? []
    this.stream = undefined
    if (exit && !exit.error) {
      this.finish(exit.signal ? `ended by ${exit.signal}` : `ended with status ${exit.code}`, exit.code !== 0)
    } else if (exit?.error?.kind === 'denied') {
      this.finish('this link is no longer good: it was revoked, or has expired', true)
    } else if (exit?.error || opened) {
      this.wait(exit?.error?.kind === 'unavailable' ? 'the server is being restarted' : 'disconnected')
    } else {
      void this.probe() // a page is not told why it was refused: ask
    }
  }

  // probe finds out whether the terminal is there before it connects again.
  private async probe(): Promise<void> {
    this.watcher.state({ at: 'connecting' })
    try {
      const list = await this.api.terminals(this.sandbox)
      if (this.over) return
      if (!list.some((t) => t.name === this.name)) {
        this.finish('this terminal is gone', true)
        return
      }
      if (this.failures > 0) this.connect()
      else this.wait('disconnected') // it could be asked but not opened: not at once again
    } catch (e) {
      if (this.over) return
      const status = e instanceof Refused ? e.status : 0
      if (status === 401 || status === 403) this.finish('this link is no longer good: it was revoked, or has expired', true)
      else if (status === 404) this.finish('this sandbox is gone', true)
      else if (status === 409) this.wait('the sandbox does not run')
      else this.wait('disconnected')
    }
  }

  private wait(why: string): void {
    if (this.over) return
    const most = Math.min(longestWait, firstWait * 2 ** this.failures++)
    const ms = most / 2 + (Math.random() * most) / 2 // not all pages at the same moment
    this.watcher.state({ at: 'waiting', why, until: Date.now() + ms })
    clearTimeout(this.timer)
    this.timer = setTimeout(() => {
      this.timer = undefined
      void this.probe()
    }, ms)
  }

  private finish(how: string, failed: boolean): void {
    this.over = true
    clearTimeout(this.timer)
    this.term.options.disableStdin = true
    this.term.options.cursorBlink = false
    this.watcher.state({ at: 'ended', how, failed })
  }

  // measure tells the terminal how much room there is.
  private measure(): void {
    // Cells are as wide as makes the terminal as a whole full pixels, which for other
    // columns is a little more or less: asked again for the same room, the answer swings.
    const { clientWidth, clientHeight } = this.box
    if (clientWidth === this.room.width && clientHeight === this.room.height) return
    const room = this.fit.proposeDimensions()
    if (!room || !Number.isFinite(room.rows) || !Number.isFinite(room.cols) || room.rows < 2 || room.cols < 2) return
    this.room = { width: clientWidth, height: clientHeight }
    const own = { rows: Math.min(room.rows, 300), cols: Math.min(room.cols, 500) }
    if (own.rows === this.own.rows && own.cols === this.own.cols) return
    this.own = own
    if (!this.readOnly) this.stream?.resize(own)
    if (this.told.rows) this.watcher.sizes(this.told, own)
    else this.term.resize(own.cols, own.rows)
  }

  // key leaves copying and pasting to the browser, where a terminal has other
  // uses for the plain keys.
  private key(e: KeyboardEvent): boolean {
    if (e.type !== 'keydown' || !e.ctrlKey || !e.shiftKey) return true
    if (e.code === 'KeyC' && this.term.hasSelection()) {
      e.preventDefault()
      void navigator.clipboard?.writeText(this.term.getSelection())
      return false
    }
    return e.code !== 'KeyV'
  }
}

// follow opens a link that a program has shown, if it is one of the web and the
// user says so to where it really leads.
async function follow(uri: string): Promise<void> {
  let url: URL
  try {
    url = new URL(uri)
  } catch {
    return
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return
  if (await ask('Open this link in a new tab?', url.href, 'Open')) window.open(url, '_blank', 'noopener,noreferrer')
}
