// The files of a sandbox: browse, view, edit, upload, download.

import { useEffect, useRef, useState } from 'preact/hooks'
import { label } from '../dom'
import { bytes, confirm, Empty, Label, path, Problem, Table, text, useAct, useAsk, useShared } from './parts'
import { useFileChanges } from './follow'
import { Search } from './search'
import type { FileInfo } from './types'

const mostShown = 1 << 20 // bytes of a file that is shown
const isDir = (f: FileInfo): boolean => f.mode >= 2 ** 31 // Go's os.ModeDir
const join = (dir: string, name: string): string => (dir === '/' ? '/' : dir + '/') + name
const draftKey = (id: string, at: string): string => `atoll-file ${id} ${at}`

/** The browser of the files of a sandbox or workspace, which begins in the working directory. */
export function Files({ of, dir }: { of: string[]; dir?: string }) {
  const isSandbox = of[0] === 'sandboxes'
  const stats = useAsk<{ dir?: string }>(dir || !isSandbox ? undefined : path(...of, 'stats'))
  if (isSandbox && !dir && !stats.value && !stats.error) return <Empty>Loading…</Empty>
  return <Browse of={of} start={dir || stats.value?.dir || '/'} />
}

function Browse({ of, start }: { of: string[]; start: string }) {
  const { api } = useShared()
  const run = useAct()
  const [dir, setDir] = useState(start)
  const [typed, setTyped] = useState(start)
  const [file, setFile] = useState('')
  const chooser = useRef<HTMLInputElement>(null)
  const url = (what: string, at: string) => path(...of, ...what.split('/')) + '?path=' + encodeURIComponent(at)
  const l = useAsk<{ items: FileInfo[] }>(url('files/list', dir))
  useFileChanges(of[0] === 'sandboxes' ? of[1] : undefined, dir, l.reload)
  const go = (at: string) => { setDir(at); setTyped(at) }
  const up = () => go(dir.replace(/\/*[^/]+\/*$/, '') || '/')
  const upload = (list: FileList | null) => run(async () => {
    for (const f of list ?? []) await api.send('PUT', url('files', join(dir, f.name)), f, 'application/octet-stream')
    l.reload()
  }, 'Uploaded')
  const download = (f: FileInfo) => run(async () => {
    const blob = await (await api.send('GET', url('files', join(dir, f.name)), undefined, '')).blob()
    const a = document.createElement('a')
    a.href = URL.createObjectURL(new Blob([blob], { type: 'application/octet-stream' })) // never shown in this origin
    a.download = f.name
    a.click()
    setTimeout(() => URL.revokeObjectURL(a.href), 10_000)
  })
  const remove = async (f: FileInfo) => {
    if (!(await confirm('Remove this file, or directory with everything in it?', label(join(dir, f.name), 200), 'Remove'))) return
    await run(() => api.ask('DELETE', url('files', join(dir, f.name))))
    l.reload()
  }
  const items = [...(l.value?.items ?? [])].sort((a, b) => Number(isDir(b)) - Number(isDir(a)) || (a.name < b.name ? -1 : 1))
  return (
    <div class="files" onDragOver={(e) => e.preventDefault()} onDrop={(e) => { e.preventDefault(); void upload(e.dataTransfer?.files ?? null) }}>
      <form class="line" onSubmit={(e) => { e.preventDefault(); go(typed || '/') }}>
        <button type="button" onClick={up} aria-label="Parent directory">↑</button>
        <input aria-label="Directory" value={typed} onInput={(e) => setTyped(e.currentTarget.value)} spellcheck={false} />
        <button>Go</button>
        <button type="button" onClick={() => chooser.current?.click()}>Upload</button>
        <input ref={chooser} class="hidden" type="file" multiple tabIndex={-1} aria-label="Files to upload" onChange={(e) => { void upload(e.currentTarget.files); e.currentTarget.value = '' }} />
        <button type="button" onClick={() => { const name = prompt('Name of the new file'); if (name) setFile(join(dir, name)) }}>New file</button>
      </form>
      {of[0] === 'sandboxes' && <Search id={of[1]} dir={dir} open={setFile} />}
      <Problem error={l.error} />
      {l.value && !items.length && <Empty>This directory is empty.</Empty>}
      {items.length > 0 && <Table name="Files" head={['Name', 'Size', 'Changed', '']}>{items.map((f) => (
        <tr key={f.name}><th scope="row"><button class="name" onClick={() => (isDir(f) ? go(join(dir, f.name)) : setFile(join(dir, f.name)))}>{isDir(f) ? '▸ ' : ''}<Label of={f.name} most={100} /></button>{f.target && <small>→ <Label of={f.target} /></small>}</th>
          <td class="number">{isDir(f) ? '' : bytes(f.size)}</td><td>{new Date(f.modified).toLocaleString([], { hour12: false })}</td>
          <td><span class="acts">{!isDir(f) && <button aria-label={'download ' + label(f.name)} onClick={() => void download(f)}>download</button>}<button class="danger" aria-label={'remove ' + label(f.name)} onClick={() => void remove(f)}>remove</button></span></td></tr>))}</Table>}
      {file && <Editor key={file} id={of.join(' ')} at={file} url={url('files', file)} close={() => setFile('')} saved={l.reload} />}
    </div>
  )
}

function Editor({ id, at, url, close, saved }: { id: string; at: string; url: string; close(): void; saved(): void }) {
  const { api } = useShared()
  const run = useAct()
  const [content, setContent] = useState<string>()
  const [stored, setStored] = useState('')
  const [error, setError] = useState('')
  useEffect(() => {
    const stop = new AbortController()
    const load = async () => {
      let now = ''
      try {
        const blob = await (await api.send('GET', url, undefined, '', stop.signal)).blob()
        if (blob.size > mostShown) throw new Error(`the file has ${bytes(blob.size)}; ${bytes(mostShown)} are shown at most: download it`)
        now = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(await blob.arrayBuffer())
      } catch (e) {
        if (stop.signal.aborted) return
        if (!(e instanceof Error && 'status' in e && e.status === 404)) return setError(e instanceof TypeError ? 'the file is not text: download it' : text(e))
      }
      setStored(now)
      setContent(sessionStorage.getItem(draftKey(id, at)) ?? now) // what was typed outlives a reload
    }
    void load()
    return () => stop.abort()
  }, [])
  const edit = (value: string) => {
    setContent(value)
    sessionStorage.setItem(draftKey(id, at), value)
  }
  const forget = () => sessionStorage.removeItem(draftKey(id, at))
  const save = async () => {
    if (!(await run(() => api.send('PUT', url, content ?? '', 'application/octet-stream'), 'Saved'))) return
    setStored(content ?? '')
    forget()
    saved()
  }
  const leave = async () => {
    if (content !== undefined && content !== stored && !(await confirm('Discard your changes?', label(at, 200), 'Discard'))) return
    forget()
    close()
  }
  return (
    <section class="editor panel" aria-label={'File ' + label(at)}>
      <div class="line"><strong><Label of={at} most={120} /></strong>{content !== undefined && content !== stored && <span class="state">changed</span>}<span class="space" />
        <button class="yes" disabled={content === undefined || content === stored} onClick={() => void save()}>Save</button><button onClick={() => void leave()}>Close</button></div>
      <Problem error={error} />
      {content !== undefined && <textarea aria-label={'Content of ' + label(at)} spellcheck={false} value={content} onInput={(e) => edit(e.currentTarget.value)} onKeyDown={(e) => { if ((e.ctrlKey || e.metaKey) && e.key === 's') { e.preventDefault(); void save() } }} />}
    </section>
  )
}
