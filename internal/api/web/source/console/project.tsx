// The repository on the server's host that a sandbox works on: branches on both sides, and what brings work over.

import { useEffect, useRef, useState } from 'preact/hooks'
import { label } from '../dom'
import { useCalm, useEvents } from './follow'
import { webAddress } from './live'
import { confirm, Empty, Label, path, Problem, quote, Table, useAct, useShared, text } from './parts'
import type { Sandbox } from './types'

interface Branch { repository?: string; name: string; relation: string; home: boolean; ahead: number; behind: number; host_dirty: boolean; sandbox_dirty: boolean }
export interface Ledger { path: string; live: boolean; branch?: string; host_branch?: string; branches: Branch[]; commits: number; uncommitted: boolean; stashes: number }
interface Result { nothing: boolean; branch?: string; into?: string; tip?: string; commit?: string; fast_forward: boolean; commits: number; files: number; conflicts: string[]; risks: { path: string; reason: string }[]; left?: string[]; url?: string; opened: boolean }
type Act = 'sync' | 'merge' | 'apply' | 'update' | 'pull_request'

/** The path of the repository that a sandbox works on; '': none. */
export const projectPath = (s: Sandbox): string => s.labels?.['atoll.project.path'] ?? s.config.project?.path ?? ''

const patience = 180_000 // ms of an act: git may fetch much

/** The branch in a few words, as the list of sandboxes shows it. */
export function summaryOf(l: Ledger): string {
  const b = l.branches.find((b) => b.name === l.branch && !b.repository)
  if (!b) return l.commits ? `${l.commits} new commits` : 'equal'
  return [b.relation === 'only-inside' && 'new branch', b.ahead && `+${b.ahead}`, b.behind && `−${b.behind}`, (b.sandbox_dirty || l.uncommitted) && 'dirty'].filter(Boolean).join(' ') || 'equal'
}

const words: Record<string, string> = { equal: 'equal', ahead: 'ahead', behind: 'behind', diverged: 'both have commits', 'only-inside': 'only in the sandbox', 'only-host': 'only here', 'removed-inside': 'removed in the sandbox', 'removed-host': 'removed here' }

/** What an act did or would do, in a sentence. */
function describe(act: Act, r: Result): string {
  if (r.nothing) return 'There is nothing new.'
  const n = r.commits ? `${r.commits} ${r.commits === 1 ? 'commit' : 'commits'}` : `${r.files} ${r.files === 1 ? 'file' : 'files'}`
  const verb = { sync: 'fast-forward', merge: r.fast_forward ? 'fast-forward' : 'merge', apply: 'apply', update: 'update', pull_request: 'push' }[act]
  return `${verb}: ${n} of ${label(r.branch ?? '', 60)}${r.into ? ' into ' + label(r.into, 80) : ''}`
}

export function ProjectPanel({ s, branch }: { s: Sandbox; branch?: string }) {
  const { api, server } = useShared()
  const run = useAct()
  const at = projectPath(s)
  const may = server.scopes.includes('host') && server.scopes.includes('run')
  const [ledger, setLedger] = useState<{ value?: Ledger; error?: string; reading?: boolean }>({})
  const [busy, setBusy] = useState<Act | ''>('')
  const [done, setDone] = useState<{ text: string; url?: string; left?: string[] }>()
  const read = async (unasked = false) => {
    setLedger((l) => ({ ...l, reading: true }))
    try {
      setLedger({ value: await (await api.send('GET', path('sandboxes', s.id, 'project'), undefined, '', AbortSignal.timeout(patience))).json() as Ledger })
    } catch (e) {
      setLedger((l) => unasked && l.value ? { value: l.value } : { error: text(e) })
    }
  }
  useEffect(() => { if (may && at) void read() }, [s.id])
  // Read again after an event, once the present read or act is over and the page is shown.
  const due = useRef(false)
  const again = useCalm(() => {
    if (!due.current || !may || !at || busy || ledger.reading || document.hidden) return
    due.current = false
    void read(true)
  })
  useEvents(s.id, ['process.exited', 'turn.'], () => { due.current = true; again() })
  useEffect(again, [busy, ledger.reading])
  useEffect(() => {
    document.addEventListener('visibilitychange', again)
    return () => document.removeEventListener('visibilitychange', again)
  }, [])
  if (!at) return null
  const send = async (act: Act, more: object): Promise<Result> =>
    (await api.send('POST', path('sandboxes', s.id, 'project'), JSON.stringify({ act, ...(branch && act !== 'update' && { branch }), ...more }), 'application/json', AbortSignal.timeout(patience))).json() as Promise<Result>
  const act = async (name: Act, mode?: string) => {
    setBusy(name)
    setDone(undefined)
    await run(async () => {
      const plan = await send(name, { dry_run: true, ...(mode && { mode }) })
      if (plan.nothing) return setDone({ text: 'There is nothing new.' })
      if (plan.conflicts.length) throw new Error('It conflicts in ' + plan.conflicts.map((c) => label(c, 60)).slice(0, 10).join(', '))
      const risks = plan.risks.map((r) => `${label(r.path, 120)}: ${label(r.reason, 120)}`).join('; ')
      const question = `${describe(name, plan)}?${risks ? ' These files can run code on the host of the server:' : ''}`
      if (!(await confirm(question, risks ? `${at}: ${risks}` : at, { sync: 'Sync', merge: 'Merge', apply: 'Apply', update: 'Update', pull_request: 'Push and open' }[name]))) return
      const r = await send(name, { ...(name !== 'sync' && name !== 'update' && { tip: plan.tip }), accept_risks: Boolean(risks), ...(mode && { mode }) })
      setDone({ text: `Done: ${describe(name, r)}.`, url: webAddress(r.url ?? ''), left: r.left })
    })
    setBusy('')
    await read()
  }
  const name = quote(s.name || s.id)
  const l = ledger.value
  const shown = l?.branches.filter((b) => b.relation !== 'only-host') ?? []
  const button = (a: Act, title: string) => <button disabled={Boolean(busy)} onClick={() => void act(a)}>{busy === a ? 'Working…' : title}</button>
  return (
    <section class="panel project" aria-label="Repository on the host">
      <h2>Repository <Label of={at} most={120} /></h2>
      {may && <>
        <div class="line">
          {button('sync', 'Sync')}{button('merge', branch ? 'Merge ' + label(branch, 30) : 'Merge')}{button('apply', 'Apply uncommitted')}{button('update', 'Update the sandbox')}{button('pull_request', 'Pull request')}
          <button disabled={ledger.reading || Boolean(busy)} onClick={() => void read()}>{ledger.reading ? 'Comparing…' : 'Compare again'}</button>
        </div>
        {done && <p role="status">{done.text}{done.url && <> <a href={done.url} target="_blank" rel="noopener noreferrer">Open the pull request</a></>}{done.left?.map((t) => <small><Label of={t} most={200} /></small>)}</p>}
        <Problem error={ledger.error} />
        {l && (shown.length ? <Table name="Branches on both sides" head={['Branch', 'Compared with yours', 'In the sandbox', 'Here']}>{shown.map((b) => (
          <tr key={(b.repository ?? '') + ' ' + b.name}><th scope="row"><Label of={(b.repository ? b.repository + ': ' : '') + b.name} most={80} />{b.name === l.branch && <small>its working tree</small>}</th>
            <td>{words[b.relation] ?? b.relation}{b.ahead > 0 && <span class="verdict"> +{b.ahead}</span>}{b.behind > 0 && <span class="verdict no"> −{b.behind}</span>}{b.ahead > 0 && b.home && <small>its commits are on another branch of yours</small>}</td>
            <td>{b.sandbox_dirty ? 'uncommitted work' : ''}</td><td>{b.host_dirty ? 'uncommitted work' : ''}{b.name === l.host_branch && <small>checked out</small>}</td></tr>))}</Table> : <Empty>The sandbox has no branch.</Empty>)}
      </>}
      <details open={!may || Boolean(ledger.error)}><summary>{may ? 'The same on the command line' : 'Take the changes over, where the repository is'}</summary>
        <ul class="commands">
          <li><code>atoll sync {name}</code> fetches all branches and fast-forwards yours</li>
          <li><code>atoll merge {name}{branch ? ' ' + quote(branch) : ''}</code> merges a branch into your current one</li>
          <li><code>atoll apply {name}{branch ? ' ' + quote(branch) : ''}</code> applies the changes without committing them</li>
          <li><code>atoll update {name}</code> brings your commits into the sandbox</li>
          <li><code>atoll pr {name}</code> opens a pull request</li>
        </ul>
      </details>
    </section>
  )
}
