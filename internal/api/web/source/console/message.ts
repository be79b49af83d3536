// Messages to the agent of a sandbox.

import { useEffect } from 'preact/hooks'
import type { API } from '../api'
import { path, useAsk, useShared } from './parts'
import type { ChatMessage, Turn, TurnEvent } from './types'

const longestInterrupt = 60_000 // ms until an interrupted turn must have ended

/** The names of the server's agents. */
export function useAgents(): string[] {
  const l = useAsk<{ items: { name: string }[] }>('v1/agents')
  return (l.value?.items ?? []).map((a) => a.name)
}

/** The turns of a sandbox, oldest first. */
export function useTurns(sandbox: string | undefined): { turns?: Turn[]; error?: string; reload(): void } {
  const { live } = useShared()
  const l = useAsk<{ items: Turn[] }>('v1/turns?limit=1000')
  useEffect(() => live.follow((e) => { if (e.type.startsWith('turn.') && (!sandbox || e.object === sandbox)) l.reload() }))
  return { turns: l.value?.items.filter((t) => !sandbox || t.sandbox === sandbox), error: l.error, reload: l.reload }
}

/** The newest turn of a sandbox's agent. */
export function useLastTurn(sandbox: string): Turn | undefined {
  return useTurns(sandbox).turns?.findLast((t) => Boolean(t.agent))
}

/** Calls f with the events of a turn after a number, until the last one or the end of the stream. Reports whether the turn has ended. */
export async function followTurn(api: API, id: string, after: number, signal: AbortSignal, f: (events: TurnEvent[]) => void): Promise<boolean> {
  const answer = await api.send('GET', path('turns', id, 'events') + '?after=' + after, undefined, '', signal)
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader()
  for (let rest = ''; ;) {
    const { done, value } = await reader.read()
    if (done) return false
    const blocks = (rest + value).split('\n\n')
    rest = blocks.pop() ?? ''
    const fresh = blocks.flatMap((b) => { const line = b.split('\n').find((l) => l.startsWith('data: ')); return line ? [JSON.parse(line.slice(6)) as TurnEvent] : [] }).filter((e) => e.seq > after)
    if (!fresh.length) continue
    after = fresh[fresh.length - 1].seq
    f(fresh)
    if (fresh.some((e) => e.result)) return true
  }
}

export interface Message { sandbox: string; agent?: string; last?: Turn; text: string }

/** Sends a message: as the next turn of the last one's chat, or in a new chat. A turn that still runs is interrupted first. */
export async function sendMessage(api: API, m: Message): Promise<Turn> {
  if (m.last && m.last.state !== 'finished') {
    await api.ask('POST', path('turns', m.last.id, 'interrupt'))
    await followTurn(api, m.last.id, 0, AbortSignal.timeout(longestInterrupt), () => undefined)
  }
  const t = await api.ask<Turn>('POST', 'v1/turns?stream=false', {
    agent: m.last?.agent ?? m.agent, ...(m.last?.chat && { chat: m.last.chat }), sandbox: m.sandbox, ask: true, prompt: [{ text: m.text }],
  })
  sessionStorage.setItem('atoll-sent ' + t.id, m.text)
  return t
}

/** Sends a message to a turn that runs. An agent that can reads it while it works; for others it is the prompt of the next turn. */
export async function steer(api: API, turn: string, text: string): Promise<{ state: string; reason?: string; turn?: Turn }> {
  const got = await api.ask<{ state: string; reason?: string; turn?: Turn }>('POST', path('turns', turn, 'messages'), { prompt: [{ text }] })
  if (got.turn) sessionStorage.setItem('atoll-sent ' + got.turn.id, text)
  return got
}

/** What users have said in a chat, oldest first, if the server has stored it. */
export function usePrompts(chat: string, turns: number): string[] {
  const l = useAsk<{ items: ChatMessage[] }>(chat ? path('sessions', chat, 'messages') : undefined, [turns])
  return (l.value?.items ?? []).filter((m) => m.role === 'user').map((m) => m.text)
}

/** What this tab has sent to begin a turn: the API does not keep it. */
export const sentText = (turn: string): string => sessionStorage.getItem('atoll-sent ' + turn) ?? ''
