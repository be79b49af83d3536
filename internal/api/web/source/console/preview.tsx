// A port of a sandbox in a frame. Its pages are programs of the sandbox: they have an origin of their own and may not leave the frame.

import { useState } from 'preact/hooks'
import { Label } from './parts'

const sizes: [string, string][] = [['wide', 'Full width'], ['tablet', '768 px'], ['phone', '360 px']]

/** Shows the page at a URL, which must not be of the console's own origin. */
export function Preview({ port, url }: { port: number; url: string }) {
  const [path, setPath] = useState('/')
  const [typed, setTyped] = useState('/')
  const [size, setSize] = useState('wide')
  const [times, again] = useState(0)
  const at = new URL(url)
  if (at.origin === location.origin) return <p class="problem" role="alert">The port has the console's own origin: its pages could act in your name. Open it under another name.</p>
  try {
    const to = new URL(path, url)
    if (to.origin === at.origin) at.href = to.href
  } catch { /* the root is shown */ }
  return (
    <section class="panel preview" aria-label={'Preview of port ' + port}>
      <form class="line" onSubmit={(e) => { e.preventDefault(); setPath(typed || '/'); again(times + 1) }}>
        <Label of={at.origin} most={80} /><input aria-label="Path" value={typed} onInput={(e) => setTyped(e.currentTarget.value)} spellcheck={false} /><button>Go</button>
        <select aria-label="Width" value={size} onChange={(e) => setSize(e.currentTarget.value)}>{sizes.map(([k, name]) => <option value={k}>{name}</option>)}</select>
        <a href={at.href} target="_blank" rel="noopener noreferrer">Open in a tab</a>
      </form>
      <iframe key={times} class={size} title={'Port ' + port} src={at.href} sandbox="allow-scripts allow-same-origin allow-forms" allow="" referrerpolicy="no-referrer" />
    </section>
  )
}
