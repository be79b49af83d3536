// The two contents of a changed file, unified or side by side.

import { useEffect, useRef } from 'preact/hooks'
import type { FileChange } from './types'

/** A line that a comment is about. */
export interface Line { side: 'old' | 'new'; number: number; code: string }

export function Diff({ change, split, choose }: { change: FileChange; split: boolean; choose(l: Line): void }) {
  const box = useRef<HTMLDivElement>(null)
  useEffect(() => {
    let over = false
    let view: { destroy(): void } | undefined
    const draw = async () => {
      const { drawDiff } = await import('./code')
      view?.destroy()
      if (!over) view = drawDiff(box.current!, change, split, choose)
    }
    const again = () => void draw() // the look is of its construction
    again()
    addEventListener('look', again)
    return () => { over = true; removeEventListener('look', again); view?.destroy() }
  }, [change, split])
  return <div class="code" ref={box} />
}
