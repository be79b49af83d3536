// The page of terminals that a link opens.

import { type API, Refused, type Sandbox, type Terminal, type Who } from './api'
import { ask, el, label } from './dom'
import * as look from './look'
import { Screen, type State } from './screen'
import type { Size } from './stream'

const refresh = 3000

/** What the address says behind '#'. */
export interface Place { sandbox: string; terminal: string; readOnly: boolean }

function remember(p: Place): void {
  const at = new URLSearchParams()
  if (p.sandbox) at.set('sandbox', p.sandbox)
  if (p.terminal) at.set('terminal', p.terminal)
  if (p.readOnly) at.set('read_only', '')
  history.replaceState(null, '', '#' + at.toString())
}

export class Page {
  private readonly list = el('nav', { 'aria-label': 'Terminals' })
  private readonly heading = el('h1', {}, 'atoll')
  private readonly title = el('span', { class: 'title' })
  private readonly badge = el('span', { class: 'badge', role: 'status' })
  private readonly note = el('span', { class: 'note' })
  private readonly only = el('span', { class: 'only', hidden: '' }, 'read-only')
  private readonly box = el('div', { class: 'box' })
  private readonly bar = el('div', { class: 'bar', role: 'alert', hidden: '' })
  private readonly frame = el('main', {}, el('div', { class: 'screen' }, this.box), this.bar)
  private readonly keys = el('div', { class: 'keys' })
  private screen: Screen | undefined
  private at: Place
  private sandboxes: Sandbox[] = []
  private terminals = new Map<string, Terminal[]>()
  private drawn = ''
  private clock: number | undefined
  private control = false // the next letter is typed with Ctrl

  constructor(private readonly api: API, private readonly who: Who, at: Place) {
    this.at = at
    if (who.link) this.at = { sandbox: who.link.sandbox, terminal: who.link.terminal || at.terminal, readOnly: at.readOnly }
    if (!this.may()) this.at.readOnly = true
    const menu = el('button', { class: 'menu', 'aria-label': 'Terminals', click: () => document.body.classList.toggle('listed') }, '☰')
    const shade = el('button', { class: 'look', 'aria-label': 'Dark or light', title: 'Dark or light', click: () => { look.toggle(); this.recolor() } }, '◐')
    if (who.link?.terminal) menu.hidden = true
    document.body.replaceChildren(
      el('header', {}, menu, this.heading, this.title, el('span', { class: 'space' }), this.note, this.only, this.badge, shade),
      this.list, this.frame, this.keys)
    this.touchKeys()
    document.body.classList.toggle('alone', Boolean(who.link?.terminal))
    look.follow(() => this.screen?.recolor())
  }

  async run(): Promise<void> {
    if (this.at.terminal && this.at.sandbox) this.show(this.at.sandbox, this.at.terminal) // at once: the list can wait
    for (;;) {
      if (!document.hidden) await this.update().catch((e: unknown) => this.trouble(e))
      await new Promise((done) => setTimeout(done, refresh))
    }
  }

  // may reports whether this window may type.
  private may(): boolean { return this.who.scopes.includes('run') }

  private recolor(): void {
    document.documentElement.dataset.look = look.isDark() ? 'dark' : 'light'
    this.screen?.recolor()
  }

  private async update(): Promise<void> {
    this.sandboxes = this.who.link
      ? [{ id: this.who.link.sandbox, name: this.who.link.name, state: 'running' }]
      : (await this.api.sandboxes()).filter((s) => s.state === 'running' || s.state === 'paused')
    for (const s of this.sandboxes) {
      try {
        this.terminals.set(s.id, await this.api.terminals(s.id))
      } catch (e) {
        if (!(e instanceof Refused) || e.status === 0 || e.status === 401) throw e
        this.terminals.set(s.id, []) // it has none, or does not run
      }
    }
    this.draw()
    if (!this.screen) this.first()
  }

  // first looks at the only terminal there is, or the one that was named.
  private first(): void {
    const all = this.sandboxes.flatMap((s) => (this.terminals.get(s.id) ?? []).map((t) => ({ s, t })))
    const named = this.at.sandbox ? all.filter((x) => x.s.id === this.at.sandbox || x.s.name === this.at.sandbox) : all
    const one = named[0]
    if (one && (this.at.sandbox || all.length === 1)) this.show(one.s.id, one.t.name)
    else this.say(all.length ? 'Choose a terminal.' : this.may() ? 'No terminal is open. Open one with +.' : 'No terminal is open.')
  }

  private trouble(e: unknown): void {
    if (e instanceof Refused && (e.status === 401 || e.status === 403)) {
      this.say('This link is no longer good: it was revoked, or has expired.')
    } else if (!this.screen) {
      this.say(e instanceof Error ? e.message : String(e))
    }
  }

  private say(text: string): void {
    this.bar.hidden = false
    this.bar.className = 'bar quiet'
    this.bar.replaceChildren(text)
  }

  private name(sandbox: string): string {
    const s = this.sandboxes.find((s) => s.id === sandbox)
    return label(s?.name || this.who.link?.name || sandbox, 40)
  }

  private draw(): void {
    const now = JSON.stringify([this.sandboxes, [...this.terminals], this.at])
    if (now === this.drawn) return
    this.drawn = now
    if (this.at.terminal) this.heading.textContent = this.name(this.at.sandbox) + ' · ' + label(this.at.terminal, 40)
    const choose = this.may() && !this.who.link?.terminal
    this.list.replaceChildren(...this.sandboxes.map((s) => el('section', {},
      el('h2', {}, el('span', {}, this.name(s.id)),
        choose ? el('button', { class: 'add', title: 'Open a terminal', 'aria-label': 'Open a terminal in ' + this.name(s.id), click: () => void this.open(s.id) }, '+') : ''),
      ...(this.terminals.get(s.id) ?? []).map((t) => this.row(s, t, choose)))))
    if (!this.sandboxes.length) this.list.replaceChildren(el('p', { class: 'none' }, 'No sandbox runs.'))
  }

  private row(s: Sandbox, t: Terminal, choose: boolean): HTMLElement {
    const here = s.id === this.at.sandbox && t.name === this.at.terminal
    return el('div', { class: here ? 'row here' : 'row' },
      el('button', { class: 'go', 'aria-current': here ? 'true' : undefined, title: label(t.command), click: () => this.show(s.id, t.name) },
        el('i', { class: t.running ? 'dot on' : 'dot' }), el('b', {}, label(t.name, 40)),
        el('span', {}, t.running ? label(t.title || t.command, 60) : 'status ' + t.code)),
      choose ? el('button', { class: 'close', title: 'Close it', 'aria-label': 'Close ' + t.name, click: () => void this.close(s, t) }, '×') : '')
  }

  private async open(sandbox: string): Promise<void> {
    try {
      const t = await this.api.open(sandbox)
      this.show(sandbox, t.name)
      await this.update()
    } catch (e) {
      this.say(e instanceof Error ? e.message : String(e))
    }
  }

  private async close(s: Sandbox, t: Terminal): Promise<void> {
    if (t.running && !(await ask('End what runs on this terminal?', `${this.name(s.id)} · ${t.name}: ${label(t.command)}`, 'End it'))) return
    try {
      await this.api.close(s.id, t.name)
      await this.update()
    } catch (e) {
      this.say(e instanceof Error ? e.message : String(e))
    }
  }

  private show(sandbox: string, terminal: string): void {
    this.screen?.leave()
    this.at = { ...this.at, sandbox, terminal }
    remember(this.at)
    document.body.classList.remove('listed')
    this.title.textContent = this.note.textContent = ''
    this.heading.textContent = this.name(sandbox) + ' · ' + label(terminal, 40)
    document.title = `${terminal} · ${this.name(sandbox)} · atoll`
    this.only.hidden = !this.at.readOnly
    this.screen = new Screen(this.api, sandbox, terminal, this.at.readOnly, this.box, {
      state: (s) => this.state(s),
      title: (text) => {
        this.title.textContent = label(text)
        document.title = `${label(text) || terminal} · ${this.name(sandbox)} · atoll`
      },
      sizes: (t, own) => this.sizes(t, own),
    })
    Object.assign(window, { atoll: { term: this.screen.term } }) // for tests, and who debugs
    this.screen.term.focus()
    this.draw()
  }

  private sizes(t: Size, own: Size): void {
    const smaller = t.rows < own.rows || t.cols < own.cols
    const larger = t.rows > own.rows || t.cols > own.cols
    this.frame.classList.toggle('smaller', smaller)
    this.note.textContent = smaller ? `${t.cols}×${t.rows}, the smallest window` : larger ? `${t.cols}×${t.rows}, larger than this window` : ''
    this.note.title = smaller ? 'The smallest window in which somebody may type gives the terminal its size.' : larger ? 'The terminal is larger than this window: scroll.' : ''
  }

  private state(s: State): void {
    clearInterval(this.clock)
    this.badge.className = 'badge ' + s.at
    this.bar.hidden = s.at === 'connected' || s.at === 'connecting'
    switch (s.at) {
      case 'connecting': {
        this.badge.textContent = 'connecting'
        const since = Date.now()
        this.clock = setInterval(() => {
          this.bar.hidden = false
          this.bar.className = 'bar wait'
          this.bar.replaceChildren(`Waiting for the server to answer, for ${Math.round((Date.now() - since) / 1000)} s${this.keeps()}`)
        }, 1000)
        return
      }
      case 'connected': this.badge.textContent = 'connected'; return
      case 'ended':
        this.badge.textContent = 'ended'
        this.bar.className = s.failed ? 'bar failed' : 'bar quiet'
        this.bar.replaceChildren(s.how[0].toUpperCase() + s.how.slice(1) + '.')
        return
      case 'waiting': {
        this.badge.textContent = 'disconnected'
        this.bar.className = 'bar wait'
        const tell = () => this.bar.replaceChildren(`${s.why[0].toUpperCase() + s.why.slice(1)}, trying again in ${Math.max(1, Math.ceil((s.until - Date.now()) / 1000))} s${this.keeps()} `,
          el('button', { click: () => this.screen?.again() }, 'Now'))
        tell()
        this.clock = setInterval(tell, 1000)
      }
    }
  }

  // keeps says what becomes of what is typed meanwhile.
  private keeps(): string { return this.at.readOnly ? '' : '; what you type is sent then' }

  // touchKeys adds the keys that a phone's keyboard has not.
  private touchKeys(): void {
    if (!this.may()) return
    const send = (text: string) => {
      this.screen?.type(new TextEncoder().encode(text))
      this.screen?.term.focus()
    }
    const arrow = (letter: string) => send((this.screen?.term.modes.applicationCursorKeysMode ? '\x1bO' : '\x1b[') + letter)
    const ctrl = el('button', { 'aria-pressed': 'false', click: () => {
      this.control = !this.control
      ctrl.setAttribute('aria-pressed', String(this.control))
      this.screen?.term.focus()
    } }, 'Ctrl')
    document.addEventListener('beforeinput', (e) => {
      const letter = e.data ?? ''
      if (!this.control || !/^[a-z@-_]$/i.test(letter)) return
      e.preventDefault()
      this.control = false
      ctrl.setAttribute('aria-pressed', 'false')
      send(String.fromCharCode(letter.toUpperCase().charCodeAt(0) & 31))
    }, true)
    const key = (name: string, f: () => void) => el('button', { click: f }, name)
    this.keys.append(key('Esc', () => send('\x1b')), key('Tab', () => send('\t')), ctrl,
      key('↑', () => arrow('A')), key('↓', () => arrow('B')), key('←', () => arrow('D')), key('→', () => arrow('C')))
  }
}
