// The search for files by name or content, with find and grep inside the sandbox.

import { useState } from 'preact/hooks'
import { decode, Empty, Label, path, Table, text, useShared } from './parts'

interface Hit { file: string; line?: number; content?: string }
interface Ran { stdout?: string; stderr?: string; code: number; truncated?: boolean }

const most = 200 // hits that are shown
const mostOutput = 1 << 20

/** Finds files below a directory; open is called with the one that was chosen. */
export function Search({ id, dir, open }: { id: string; dir: string; open(file: string): void }) {
  const { api } = useShared()
  const [wanted, setWanted] = useState('')
  const [by, setBy] = useState('content')
  const [state, set] = useState<{ hits?: Hit[]; error?: string; busy?: boolean; more?: boolean }>({})
  const search = async (e: Event) => {
    e.preventDefault()
    set({ busy: true })
    const name = '*' + wanted.replace(/[\\*?[\]]/g, '\\$&') + '*' // as it is, not as a pattern
    const args = by === 'content' ? ['grep', '-rHnIZF', '-m', '5', '-e', wanted, '--', dir] : ['find', dir, '-name', name, '-print0']
    try {
      const r = await (await api.send('POST', path('sandboxes', id, 'exec'), JSON.stringify({ args, internal: true, timeout: 30e9, max_output: mostOutput }), 'application/json')).json() as Ran
      const hits = by === 'content' ? grepHits(decode(r.stdout)) : decode(r.stdout).split('\0').filter(Boolean).map((file) => ({ file }))
      if (r.code > 1 && !hits.length) throw new Error(decode(r.stderr).trim().slice(0, 300) || 'the search ended with status ' + r.code)
      set({ hits: hits.slice(0, most), more: hits.length > most || r.truncated })
    } catch (e) {
      set({ error: text(e) })
    }
  }
  return (
    <>
      <form class="line" role="search" onSubmit={(e) => void search(e)}>
        <input aria-label="Search text" placeholder="Search below this directory" value={wanted} onInput={(e) => setWanted(e.currentTarget.value)} spellcheck={false} />
        <select aria-label="Search in" value={by} onChange={(e) => setBy(e.currentTarget.value)}><option value="content">content</option><option value="name">names</option></select>
        <button disabled={!wanted || state.busy}>{state.busy ? 'Searching…' : 'Search'}</button>
        {(state.hits || state.error) && <button type="button" onClick={() => set({})}>Close the results</button>}
      </form>
      {state.error && <p class="problem" role="alert">{state.error}</p>}
      {state.hits && !state.hits.length && <Empty>Nothing was found.</Empty>}
      {Boolean(state.hits?.length) && <Table name="Search results" head={['File', 'Line', 'Text']}>{state.hits!.map((h) => (
        <tr><th scope="row"><button class="name" onClick={() => open(h.file)}><Label of={h.file} most={160} /></button></th><td class="number">{h.line}</td><td><code><Label of={h.content} most={200} /></code></td></tr>))}</Table>}
      {state.more && <p class="faint">There are more; a longer text finds fewer.</p>}
    </>
  )
}

/** The hits in the output of grep -HnZ: name, NUL, line, colon, text. */
function grepHits(output: string): Hit[] {
  return output.split('\n').flatMap((row) => {
    const [file, rest] = row.split('\0')
    const m = /^(\d+):([^]*)$/.exec(rest ?? '')
    return file && m ? [{ file, line: Number(m[1]), content: m[2] }] : []
  })
}
