// What has changed in the repository of a sandbox, with comments for its agent.

import { useState } from 'preact/hooks'
import { label } from '../dom'
import { Diff, type Line } from './diff'
import { Empty, Label, path, Problem, useAct, useAsk, useShared } from './parts'
import { ProjectPanel } from './project'
import { useCalm, useEvents, useFileChanges } from './follow'
import { sendMessage, useAgents, useLastTurn } from './message'
import type { ChangedFile, Changes, FileChange, Sandbox } from './types'

interface Comment extends Line { path: string; text: string }

/** A directory of the file tree. */
interface Folder { name: string; folders: Folder[]; files: ChangedFile[] }

const query = (o: Record<string, string | undefined>): string => new URLSearchParams(Object.entries(o).filter((e): e is [string, string] => Boolean(e[1]))).toString()

/** A state that outlives a reload of the page in its tab. */
function useKept<T>(key: string, first: T): [T, (v: T) => void] {
  const [value, set] = useState<T>(() => { try { return JSON.parse(sessionStorage.getItem(key) ?? '') as T } catch { return first } })
  return [value, (v) => { set(v); sessionStorage.setItem(key, JSON.stringify(v)) }]
}

export function ChangesTab({ s }: { s: Sandbox }) {
  const [branch, setBranch] = useState('')
  const [view, setView] = useKept('atoll-changes-view', 'all')
  const [split, setSplit] = useKept('atoll-changes-split', false)
  const [picked, pick] = useState('')
  const [comments, setComments] = useKept<Comment[]>('atoll-comments ' + s.id, [])
  const l = useAsk<Changes>(path('sandboxes', s.id, 'changes') + '?' + query({ branch, view }))
  const soon = useCalm(l.reload)
  useEvents(s.id, ['sandbox.restored', 'process.', 'turn.finished'], soon)
  useFileChanges(s.id, l.value?.dir, soon)
  const c = l.value
  const file = c?.files.find((f) => f.path === picked) ?? c?.files.find((f) => !f.unnamable)
  return (
    <>
      <div class="line changes-bar">
        <label>Branch <select value={branch || c?.branch} onChange={(e) => { setBranch(e.currentTarget.value); pick('') }}>{!c?.branch && <option value="">(no branch)</option>}{c?.branches.map((b) => <option value={b.name}>{label(b.name, 60)}{b.tree ? '' : ' (no working tree)'}</option>)}</select></label>
        <label>Show <select value={view} onChange={(e) => setView(e.currentTarget.value)}><option value="all">all changes</option><option value="commits">commits</option><option value="uncommitted">uncommitted</option></select></label>
        <span class="switch" role="group" aria-label="Layout"><button aria-pressed={!split} onClick={() => setSplit(false)}>Unified</button><button aria-pressed={split} onClick={() => setSplit(true)}>Side by side</button></span>
        <button onClick={l.reload}>Read again</button>
        {c && <span class="facts">{c.files.length}{c.truncated && ' or more'} files, <span class="verdict">+{sum(c.files, 'inserted')}</span> <span class="verdict no">−{sum(c.files, 'deleted')}</span>{c.base && <> since <Label of={c.base} most={24} /></>}</span>}
      </div>
      <Problem error={l.error} />
      {c && !c.files.length && <Empty>Nothing has changed{c.base ? ' since ' + label(c.base, 24) : ''}.</Empty>}
      {c && file && (
        <div class="changes">
          <nav class="files" aria-label="Changed files"><Tree folder={treeOf(c.files)} picked={file.path} pick={pick} comments={comments} /></nav>
          <Shown key={[c.dir, c.from, c.to, file.path].join(' ')} s={s} list={c} file={file} split={split} comment={(l, text) => setComments([...comments, { ...l, text, path: file.path }])} />
        </div>
      )}
      <Review s={s} list={c} comments={comments} change={setComments} />
      <ProjectPanel s={s} branch={branch || undefined} />
    </>
  )
}

const sum = (files: ChangedFile[], of: 'inserted' | 'deleted'): number => files.reduce((n, f) => n + f[of], 0)

/** The files by directory; a directory with nothing but one directory is shown together with it. */
function treeOf(files: ChangedFile[]): Folder {
  const top: Folder = { name: '', folders: [], files: [] }
  for (const f of files) {
    let at = top
    for (const name of f.path.split('/').slice(0, -1)) {
      let next = at.folders.find((d) => d.name === name)
      if (!next) at.folders.push(next = { name, folders: [], files: [] })
      at = next
    }
    at.files.push(f)
  }
  const join = (d: Folder): Folder => {
    const folders = d.folders.map(join)
    return folders.length === 1 && !d.files.length && d.name ? { ...folders[0], name: d.name + '/' + folders[0].name } : { ...d, folders }
  }
  return join(top)
}

function Tree({ folder, picked, pick, comments }: { folder: Folder; picked: string; pick(path: string): void; comments: Comment[] }) {
  return (
    <ul>
      {folder.folders.map((d) => <li key={d.name}><span class="folder"><Label of={d.name + '/'} most={60} /></span><Tree folder={d} picked={picked} pick={pick} comments={comments} /></li>)}
      {folder.files.map((f) => {
        const n = comments.filter((c) => c.path === f.path).length
        return (
          <li key={f.path}><button class={f.path === picked ? 'file here' : 'file'} aria-current={f.path === picked ? 'true' : undefined} disabled={f.unnamable} onClick={() => pick(f.path)}>
            <span class={'letter ' + f.status} title={f.status}>{f.status === 'untracked' ? '?' : f.status[0].toUpperCase()}<span class="hidden"> {f.status}</span></span>
            <Label of={f.path.split('/').pop()} most={60} />
            {n > 0 && <small class="badge">{n} {n === 1 ? 'comment' : 'comments'}</small>}
            {f.risks?.length ? <span class="risk" title={label(f.risks.join('; '), 300)}>⚠<span class="hidden"> risk</span></span> : null}
          </button></li>
        )
      })}
    </ul>
  )
}

function Shown({ s, list, file, split, comment }: { s: Sandbox; list: Changes; file: ChangedFile; split: boolean; comment(l: Line, text: string): void }) {
  const l = useAsk<FileChange>(file.unnamable ? undefined : path('sandboxes', s.id, 'changes', 'file') + '?' + query({ dir: list.dir, path: file.path, from: list.from, to: list.to }))
  const key = ['atoll-comment', s.id, file.path].join(' ')
  const [line, choose] = useState<Line>()
  const [text, setText] = useKept(key, '')
  const c = l.value
  const omitted = c?.new.omitted || c?.old.omitted
  const add = (e: Event) => {
    e.preventDefault()
    comment(line!, text.trim())
    setText('')
  }
  return (
    <section class="shown-file" aria-label={'Changes of ' + label(file.path, 200)}>
      <h2><Label of={file.path} most={200} /> <small>{file.status}{file.old_mode && file.mode && file.old_mode !== file.mode ? `, mode ${file.old_mode} → ${file.mode}` : ''}</small></h2>
      {file.risks?.map((r) => <p class="risk">⚠ <Label of={r} most={300} /></p>)}
      <Problem error={l.error} />
      {omitted ? <Empty>The file is {omitted === 'not a file' ? omitted : omitted === 'binary' ? 'binary' : 'too large to be shown'}.</Empty> : c && <Diff change={c} split={split} choose={choose} />}
      {c && !omitted && (
        <form class="line comment" onSubmit={add}>
          <textarea aria-label="Comment on the line" placeholder={line ? `Comment on line ${line.number}${line.side === 'old' ? ' of the old content' : ''}` : 'Choose a line to comment on it'} value={text} onInput={(e) => setText(e.currentTarget.value)} />
          <button disabled={!line || !text.trim()}>{line ? `Comment on line ${line.number}` : 'Comment'}</button>
        </form>
      )}
    </section>
  )
}

/** The message that all comments are for the agent. */
export function messageOf(list: { branch?: string; dir: string } | undefined, comments: Comment[]): string {
  const where = list ? ` on ${list.branch ? 'the branch ' + list.branch : 'no branch'}, in ${list.dir}` : ''
  return `Please address these comments on the changes${where}:\n\n` + comments.map((c, i) => `${i + 1}. ${c.path}, line ${c.number}${c.side === 'old' ? ' of the old content' : ''}:\n   > ${c.code.trim().slice(0, 500)}\n   ${c.text.replaceAll('\n', '\n   ')}\n`).join('\n')
}

function Review({ s, list, comments, change }: { s: Sandbox; list?: Changes; comments: Comment[]; change(c: Comment[]): void }) {
  const { api } = useShared()
  const run = useAct()
  const agents = useAgents()
  const last = useLastTurn(s.id)
  const [agent, setAgent] = useState('')
  const [busy, setBusy] = useState(false)
  if (!comments.length) return null
  const to = last?.agent ?? (agent || agents[0])
  const send = async () => {
    setBusy(true)
    await run(async () => {
      await sendMessage(api, { sandbox: s.id, agent: to, last, text: messageOf(list, comments) })
      change([])
      location.hash = `#/s/${encodeURIComponent(s.id)}/agent`
    }, 'Sent to the agent')
    setBusy(false)
  }
  return (
    <section class="panel" aria-label="Comments">
      <ol class="comments">{comments.map((c, i) => <li key={i}><Label of={c.path} most={120} />, line {c.number}: <span class="said">{c.text}</span> <button aria-label={'Remove comment ' + (i + 1)} onClick={() => change(comments.filter((_, n) => n !== i))}>×</button></li>)}</ol>
      <div class="line">
        {!last?.agent && agents.length > 0 && <label>Agent <select value={agent || agents[0]} onChange={(e) => setAgent(e.currentTarget.value)}>{agents.map((a) => <option>{a}</option>)}</select></label>}
        <button class="yes" disabled={busy || !to} onClick={() => void send()}>Send {comments.length === 1 ? 'the comment' : `${comments.length} comments`} to {to ? label(to, 30) : 'an agent'}</button>
        {last && last.state !== 'finished' && <span class="faint">The agent works: it is interrupted first.</span>}
      </div>
    </section>
  )
}
