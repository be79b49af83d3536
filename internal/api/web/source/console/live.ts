// The state of all sandboxes, kept up to date by one stream of events.

import { Refused, type API } from '../api'
import type { AtollEvent, Denied, Port, Route, Sandbox, Usage } from './types'

const keptEvents = 500 // of all sandboxes
const keptDenied = 20 // hosts of a sandbox
const silence = 40_000 // ms without even a heartbeat until the connection counts as lost
const firstWait = 300
const longestWait = 5_000
const usageInterval = 2 // seconds
const drawInterval = 100 // ms between two drawings: many events a second leave time for what the user does
const readInterval = 100 // ms between two readings of changed sandboxes, after the first
const mostRead = 20 // changed sandboxes that are read one by one; the list is read if there are more

export type Connection = { at: 'connecting' } | { at: 'live' } | { at: 'lost'; until: number } | { at: 'denied' }

/** A port that a program listens on; url: its name on the proxy; locked: it is opened with a link only. */
export interface OpenPort { port: number; url?: string; command?: string; locked?: boolean }

export class Live {
  readonly sandboxes = new Map<string, Sandbox>()
  readonly usage = new Map<string, Usage>()
  readonly doomed = new Set<string>() // sandboxes that are removed soon, unless it is undone
  readonly denied = new Map<string, Denied[]>()
  readonly ports = new Map<string, OpenPort[]>()
  events: AtollEvent[] = []
  connection: Connection = { at: 'connecting' }
  loaded = false

  private readonly listeners = new Set<() => void>()
  private readonly watchers = new Map<string, Set<() => void>>() // of one sandbox each
  private readonly listWatchers = new Set<() => void>() // of the list of sandboxes
  private readonly changedIDs = new Set<string>() // what is drawn next
  private listChanged = false
  private readonly texts = new Map<string, string>() // JSON of the sandboxes
  private readonly followers = new Set<(e: AtollEvent) => void>()
  private readonly times = new Map<string, { cpu: number; at: number }>() // CPU time of the last usage event
  private readonly stale = new Set<string>() // sandboxes to read again
  private last = 0 // id of the last event
  private since = '' // begin of the first stream
  private failures = 0
  private drawing = false
  private drawn = -Infinity // when it was drawn
  private reading: number | undefined
  private wake: (() => void) | undefined
  private over = new AbortController()

  constructor(private readonly api: API) {}

  /** Calls f after changes, at most once in drawInterval; returns a function that ends it. */
  subscribe(f: () => void): () => void {
    this.listeners.add(f)
    return () => this.listeners.delete(f)
  }

  /** Calls f as subscribe does, after changes of one sandbox. */
  watch(id: string, f: () => void): () => void {
    const all = this.watchers.get(id) ?? new Set()
    this.watchers.set(id, all.add(f))
    return () => { if (all.delete(f) && !all.size && this.watchers.get(id) === all) this.watchers.delete(id) }
  }

  /** Calls f as subscribe does, after changes of the list: what sandboxes there are, and what their records say, not their usage. */
  watchList(f: () => void): () => void {
    this.listWatchers.add(f)
    return () => this.listWatchers.delete(f)
  }

  /** Calls f for each event. */
  follow(f: (e: AtollEvent) => void): () => void {
    this.followers.add(f)
    return () => this.followers.delete(f)
  }

  /** Follows the events until stop, over all interruptions. */
  async run(): Promise<void> {
    addEventListener('online', () => this.wake?.(), { signal: this.over.signal })
    while (!this.over.signal.aborted) {
      try {
        await this.stream()
        this.failures = Math.max(this.failures, 1)
      } catch (e) {
        if (e instanceof Refused && (e.status === 401 || e.status === 403)) {
          this.connection = { at: 'denied' }
          this.changed()
          return
        }
        this.failures++
      }
      if (this.over.signal.aborted) return
      const most = Math.min(longestWait, firstWait * 2 ** (this.failures - 1))
      const ms = most / 2 + (Math.random() * most) / 2 // not all pages at the same moment
      this.connection = { at: 'lost', until: Date.now() + ms }
      this.changed()
      await new Promise<void>((done) => {
        const timer = setTimeout(done, ms)
        this.wake = () => { clearTimeout(timer); done() }
      })
    }
  }

  stop(): void { this.over.abort(); this.wake?.() }

  /** Tries at once what would be tried later. */
  again(): void { this.wake?.() }

  name(id: string): string { return this.sandboxes.get(id)?.name || id }

  /** Forgets a denied host that was decided on. */
  settle(id: string, host: string): void {
    this.denied.set(id, (this.denied.get(id) ?? []).filter((d) => d.host !== host))
    this.changed(id)
  }

  /** Marks sandboxes that are removed soon. */
  doom(ids: string[]): void { for (const id of ids) { this.doomed.add(id); this.changed(id) } }

  /** Takes the mark away. */
  spare(ids: string[]): void { for (const id of ids) { this.doomed.delete(id); this.changed(id) } }

  private async stream(): Promise<void> {
    const stop = new AbortController()
    const end = () => stop.abort()
    this.over.signal.addEventListener('abort', end)
    let watch = setTimeout(end, silence)
    try {
      if (!this.since) await this.load()
      const from = this.last ? 'after=' + this.last : 'since=' + encodeURIComponent(this.since)
      const answer = await this.api.send('GET', `v1/events?${from}&stats=${usageInterval}`, undefined, '', stop.signal)
      await this.load() // what has changed between the list and the stream
      this.failures = 0
      this.connection = { at: 'live' }
      this.changed()
      const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader()
      let rest = ''
      for (;;) {
        const { done, value } = await reader.read()
        if (done) return
        clearTimeout(watch)
        watch = setTimeout(end, silence)
        const blocks = (rest + value).split('\n\n')
        rest = blocks.pop() ?? ''
        for (const block of blocks) this.receive(block)
      }
    } finally {
      clearTimeout(watch)
      stop.abort()
      this.over.signal.removeEventListener('abort', end)
    }
  }

  private receive(block: string): void {
    const data = block.split('\n').filter((l) => l.startsWith('data: ')).map((l) => l.slice(6)).join('\n')
    if (!data) return
    const e = JSON.parse(data) as AtollEvent
    if (!e.type) return // a problem: the stream ends now
    if (e.type === 'sandbox.stats') {
      this.take(e)
      return
    }
    if (e.id) this.last = Math.max(this.last, e.id)
    this.events = [e, ...this.events].slice(0, keptEvents)
    if (e.type === 'network.denied') this.note(e)
    if (e.type === 'sandbox.destroyed') this.remove(e.object)
    else if (e.type.startsWith('sandbox.port.')) void this.loadPorts()
    else if (e.type.startsWith('sandbox.') && e.type !== 'sandbox.progress') this.refresh(e.object)
    for (const f of this.followers) f(e)
    this.changed(e.type === 'network.denied' ? e.object : undefined)
  }

  private take(e: AtollEvent): void {
    const n = (name: string) => Number(e.data?.[name] ?? 0)
    const at = Date.parse(e.time), cpu = n('cpu_time') / 1e6, before = this.times.get(e.object)
    this.times.set(e.object, { cpu, at })
    const share = before && at > before.at && cpu >= before.cpu ? (cpu - before.cpu) / (at - before.at) : undefined
    this.usage.set(e.object, { cpu: share, memory: n('memory_used'), disk: n('disk_used'), processes: n('processes'), rate: e.data?.network_rate === undefined ? undefined : n('network_rate') })
    this.changed(e.object)
  }

  private note(e: AtollEvent): void {
    const host = deniedHost(e)
    if (!host) return
    const list = (this.denied.get(e.object) ?? []).filter((d) => d.host !== host)
    this.denied.set(e.object, [{ host, time: e.time, message: e.message ?? '' }, ...list].slice(0, keptDenied))
  }

  private remove(id: string): void {
    for (const m of [this.sandboxes, this.usage, this.denied, this.ports, this.times, this.texts]) m.delete(id)
    this.doomed.delete(id)
    this.listChanged = true
    this.changed(id)
  }

  /** Keeps a sandbox. One that is as it was stays the same object, so that nothing is drawn again. */
  private put(s: Sandbox): void {
    const text = JSON.stringify(s)
    if (this.texts.get(s.id) === text) return
    this.texts.set(s.id, text)
    this.sandboxes.set(s.id, s)
    this.listChanged = true
    this.changed(s.id)
  }

  /** Reads a sandbox again soon, together with others. Only one reading runs at a time, so that no older answer replaces a newer one. */
  refresh(id: string): void {
    this.stale.add(id)
    this.reading ??= setTimeout(() => void this.readAllStale(), 20)
  }

  private async readAllStale(): Promise<void> {
    while (this.stale.size) {
      await this.readStale()
      await new Promise((done) => setTimeout(done, readInterval))
    }
    this.reading = undefined
  }

  private async readStale(): Promise<void> {
    const ids = [...this.stale]
    this.stale.clear()
    if (ids.length > mostRead) return void (await this.load().catch(() => undefined))
    await Promise.all(ids.map(async (id) => {
      try {
        const s = await this.api.ask<Sandbox>('GET', 'v1/sandboxes/' + encodeURIComponent(id))
        if (s.state === 'destroyed') return this.remove(id)
        this.put(s)
        if (s.state !== 'running' && this.usage.delete(id)) this.changed(id)
      } catch (e) {
        if (e instanceof Refused && e.status === 404) this.remove(id)
      }
    }))
  }

  private async load(): Promise<void> {
    const answer = await this.api.send('GET', 'v1/sandboxes', undefined, '', AbortSignal.timeout(20_000))
    const { items } = (await answer.json()) as { items: Sandbox[] }
    const there = new Set(items.map((s) => s.id))
    for (const id of this.sandboxes.keys()) if (!there.has(id)) this.remove(id)
    for (const s of items) this.put(s)
    this.since ||= new Date(Date.parse(answer.headers.get('Date') ?? '') - 5_000 || Date.now() - 60_000).toISOString()
    this.listChanged ||= !this.loaded
    this.loaded = true
    this.changed()
    void this.loadPorts()
  }

  private async loadPorts(): Promise<void> {
    const found = new Map<string, OpenPort[]>()
    try {
      const { items } = await this.api.ask<{ items: Route[] }>('GET', 'v1/routes')
      const names = new Map([...this.sandboxes.values()].map((s) => [s.name, s.id] as const))
      for (const r of items) {
        const id = this.sandboxes.has(r.sandbox) ? r.sandbox : names.get(r.sandbox)
        if (id && r.port) found.set(id, [...(found.get(id) ?? []), { port: r.port, url: webAddress(r.url), command: r.command, locked: r.locked }])
      }
    } catch (e) {
      if (!(e instanceof Refused) || e.status === 0) return
      const running = [...this.sandboxes.values()].filter((s) => s.state === 'running')
      await Promise.all(running.map(async (s) => { // without a proxy, ports have no names
        const l = await this.api.ask<{ items: Port[] }>('GET', `v1/sandboxes/${s.id}/ports`).catch(() => ({ items: [] }))
        if (l.items.length) found.set(s.id, l.items.map((p) => ({ port: p.port, command: p.command })))
      }))
    }
    for (const id of new Set([...this.ports.keys(), ...found.keys()])) {
      const now = found.get(id)
      if (JSON.stringify(this.ports.get(id)) === JSON.stringify(now)) continue
      if (now) this.ports.set(id, now)
      else this.ports.delete(id)
      this.changed(id)
    }
  }

  /** Has what shows a sandbox, or what shows everything, drawn soon. */
  private changed(id?: string): void {
    if (id) this.changedIDs.add(id)
    if (this.drawing) return
    this.drawing = true
    const draw = () => {
      this.drawing = false
      this.drawn = performance.now()
      const ids = [...this.changedIDs], list = this.listChanged
      this.changedIDs.clear()
      this.listChanged = false
      for (const f of this.listeners) f()
      if (list) for (const f of this.listWatchers) f()
      for (const id of ids) for (const f of this.watchers.get(id) ?? []) f()
    }
    const early = this.drawn + drawInterval - performance.now()
    if (document.hidden || early > 0) setTimeout(draw, document.hidden ? 200 : early)
    else requestAnimationFrame(draw)
  }
}

/** The host of a denied connection, as the rule that would allow it names it. */
export function deniedHost(e: AtollEvent): string {
  const at = e.data?.suggestion ?? e.data?.address ?? ''
  return /^[\w.:[\]=/-]+$/.test(at) ? at : ''
}

/** An address that a link may have: of the web only. */
export function webAddress(text: string): string | undefined {
  try {
    const url = new URL(text)
    return url.protocol === 'http:' || url.protocol === 'https:' ? url.href : undefined
  } catch {
    return undefined
  }
}
