// Hooks that call a function when something of a sandbox changes.

import { useCallback, useEffect, useRef } from 'preact/hooks'
import { path, useShared } from './parts'

/** Calls f after events of a sandbox whose types begin with one of the prefixes. */
export function useEvents(id: string, prefixes: string[], f: () => void): void {
  const { live } = useShared()
  useEffect(() => live.follow((e) => { if (e.object === id && prefixes.some((p) => e.type.startsWith(p))) f() }))
}

const calm = 1_000 // ms between two readings of what changes all the time

/** Returns a function that calls f soon, and not more often than once in calm: the last call counts. */
export function useCalm(f: () => void): () => void {
  const newest = useRef(f)
  newest.current = f
  const state = useRef<{ timer?: number; at: number }>({ at: 0 })
  useEffect(() => () => clearTimeout(state.current.timer), [])
  return useCallback(() => {
    const s = state.current
    s.timer ??= setTimeout(() => {
      s.timer = undefined
      s.at = Date.now()
      newest.current()
    }, Math.max(100, s.at + calm - Date.now()))
  }, [])
}

/** Calls f after files below a directory of a running sandbox have changed. A driver that can't watch never calls it. */
export function useFileChanges(id: string | undefined, dir: string | undefined, f: () => void): void {
  const { api } = useShared()
  const soon = useCalm(f)
  useEffect(() => {
    if (!id || !dir) return
    const stop = new AbortController()
    const follow = async () => {
      const answer = await api.send('GET', path('sandboxes', id, 'files', 'watch') + '?path=' + encodeURIComponent(dir), undefined, '', stop.signal)
      const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader()
      for (;;) {
        const { done, value } = await reader.read()
        if (done) return
        if (/^event: (?!ready)/m.test(value)) soon()
      }
    }
    follow().catch(() => undefined) // "Read again" is there without it
    return () => stop.abort()
  }, [id, dir])
}
