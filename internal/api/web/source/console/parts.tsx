// Parts that several views use.

import type { ComponentChildren, FunctionComponent, VNode } from 'preact'
import { cloneElement, Component, createContext, h, isValidElement, toChildArray } from 'preact'
import { useContext, useEffect, useReducer, useRef, useState } from 'preact/hooks'
import { type API } from '../api'
import { ask, label } from '../dom'
import type { Live } from './live'

export interface Server { version: string; drivers: { name: string; default?: boolean; error?: string; features?: Record<string, unknown> }[]; owner: { app?: string; user?: string }; scopes: string[]; token?: string; provider?: string }
export interface Undo { title: string; until?: number; undo(): void }
export interface Shared { api: API; live: Live; server: Server; toast(text: string, failed?: boolean, undo?: Undo): void }
export const Context = createContext<Shared>(undefined as unknown as Shared)
export const useShared = () => useContext(Context)

/** Draws the component again when the live state changes. */
export function useLive(): Live {
  const { live } = useShared()
  const [, draw] = useReducer((n: number) => n + 1, 0)
  useEffect(() => live.subscribe(() => draw(undefined)), [live])
  return live
}

/** Draws the component again when a sandbox changes. */
export function useSandbox(id: string): Live {
  const { live } = useShared()
  const [, draw] = useReducer((n: number) => n + 1, 0)
  useEffect(() => live.watch(id, () => draw(undefined)), [live, id])
  return live
}

/** Draws the component again when the list of sandboxes changes. */
export function useList(): Live {
  const { live } = useShared()
  const [, draw] = useReducer((n: number) => n + 1, 0)
  useEffect(() => { draw(undefined); return live.watchList(() => draw(undefined)) }, [live])
  return live
}

/** The same component, drawn again only if one of its properties is another value. */
export function memo<P extends object>(of: FunctionComponent<P>): new () => Component<P> {
  return class extends Component<P> {
    override shouldComponentUpdate(next: P): boolean { return (Object.keys(next) as (keyof P)[]).some((k) => next[k] !== this.props[k]) }
    override render() { return h(of, this.props as never) }
  }
}

/** Reads an object of the API now, when deps change, and at reload. */
export function useAsk<T>(path: string | undefined, deps: unknown[] = []): { value?: T; error?: string; reload(): void } {
  const { api } = useShared()
  const [state, set] = useState<{ value?: T; error?: string; path?: string }>({})
  const newest = useRef(0)
  const reload = () => {
    if (!path) return
    const n = ++newest.current
    api.ask<T>('GET', path).then(
      (value) => { if (n === newest.current) set({ value, path }) },
      (e: unknown) => { if (n === newest.current) set((s) => ({ value: s.path === path ? s.value : undefined, path, error: text(e) })) })
  }
  useEffect(() => { reload(); return () => { newest.current++ } }, [path, ...deps])
  return { ...(state.path === path ? state : {}), reload }
}

/** A function that runs an act and reports its failure. */
export function useAct(): (act: () => Promise<unknown>, done?: string) => Promise<boolean> {
  const { toast } = useShared()
  return async (act, done) => {
    try {
      await act()
      if (done) toast(done)
      return true
    } catch (e) {
      toast(text(e), true)
      return false
    }
  }
}

export const text = (e: unknown): string => (e instanceof Error ? e.message : String(e))
/** The text of output, which the API gives in base64. */
export const decode = (base64: string | undefined): string => new TextDecoder().decode(Uint8Array.from(atob(base64 ?? ''), (c) => c.charCodeAt(0)))
export const path = (...parts: string[]): string => ['v1', ...parts.map(encodeURIComponent)].join('/')
export const confirm = ask

export function bytes(n: number | undefined): string {
  if (n === undefined) return ''
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let i = 0
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024
  return (i && n < 10 ? n.toFixed(1) : String(Math.round(n))) + ' ' + units[i]
}

export function age(time: string | undefined): string {
  const s = Math.max(0, (Date.now() - Date.parse(time ?? '')) / 1000)
  if (!Number.isFinite(s)) return ''
  if (s < 60) return Math.floor(s) + ' s'
  if (s < 3600) return Math.floor(s / 60) + ' min'
  return s < 2 * 86400 ? Math.floor(s / 3600) + ' h' : Math.floor(s / 86400) + ' d'
}

export const clock = (time: string): string => new Date(time).toLocaleTimeString([], { hour12: false })

/** Text of a program or a user, on one line. */
export const Label = ({ of, most = 80 }: { of: string | undefined; most?: number }) => <bdi title={label(of ?? '', 400)}>{label(of ?? '', most)}</bdi>

export const State = ({ state }: { state: string }) => <span class={'state ' + state}>{state}</span>

export function Empty({ children }: { children: ComponentChildren }) { return <p class="empty">{children}</p> }

export function Problem({ error }: { error?: string }) { return error ? <p class="problem" role="alert">{error}</p> : null }

/** A table whose rows become cards, with the head of a column before each cell, when the window is narrow. */
export function Table({ name, head, children }: { name: string; head: string[]; children: ComponentChildren }) {
  const named = (row: VNode) => cloneElement(row, {}, toChildArray((row.props as { children?: ComponentChildren }).children).map((cell, i) => isValidElement(cell) && cell.type === 'td' && head[i] ? cloneElement(cell as VNode<Record<string, unknown>>, { 'data-head': head[i] }) : cell))
  children = toChildArray(children).map((row) => isValidElement(row) && row.type === 'tr' ? named(row) : row)
  return (
    <div class="scroll" role="region" aria-label={name} tabIndex={0}>
      <table class="cards"><thead><tr>{head.map((h) => <th scope="col">{h || <span class="hidden">Actions</span>}</th>)}</tr></thead><tbody>{children}</tbody></table>
    </div>
  )
}

/** Quotes an argument for a shell, if it must be. */
export const quote = (s: string): string => (/^[\w@%+=:,./-]+$/.test(s) ? s : "'" + s.replaceAll("'", `'\\''`) + "'")
