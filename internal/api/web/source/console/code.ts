// The view of code: CodeMirror, read only. It is loaded when the first file is shown.

import { MergeView, unifiedMergeView } from '@codemirror/merge'
import { EditorState, type Extension } from '@codemirror/state'
import { EditorView, lineNumbers } from '@codemirror/view'
import { isDark } from '../look'
import type { Line } from './diff'
import type { FileChange } from './types'

const unseen = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g

/** Text with its invisible characters, and those that reorder what is beside them, shown as their numbers: code must not look other than it is. */
export const reveal = (text: string): string => text.replace(unseen, (c) => '⟦' + c.codePointAt(0)!.toString(16).padStart(4, '0') + '⟧')

function extensions(side: Line['side'], title: string, choose: (l: Line) => void): Extension[] {
  return [
    lineNumbers(), EditorState.readOnly.of(true), EditorView.lineWrapping, EditorView.darkTheme.of(isDark()),
    EditorView.contentAttributes.of({ 'aria-label': title, spellcheck: 'false' }),
    EditorView.updateListener.of((u) => {
      if (!u.selectionSet) return
      const l = u.state.doc.lineAt(u.state.selection.main.head)
      choose({ side, number: l.number, code: l.text })
    }),
  ]
}

/** Shows both contents of a file in an element. A click on a line chooses it. */
export function drawDiff(parent: HTMLElement, change: FileChange, split: boolean, choose: (l: Line) => void): { destroy(): void } {
  const old = reveal(change.old.text ?? ''), now = reveal(change.new.text ?? '')
  const shared = { gutter: true, collapseUnchanged: { margin: 3, minSize: 6 }, diffConfig: { scanLimit: 1000, timeout: 1000 } }
  if (!split) return new EditorView({ doc: now, parent, extensions: [...extensions('new', 'Content of ' + change.path, choose), unifiedMergeView({ original: old, mergeControls: false, ...shared })] })
  return new MergeView({
    a: { doc: old, extensions: extensions('old', 'Old content of ' + change.path, choose) },
    b: { doc: now, extensions: extensions('new', 'New content of ' + change.path, choose) }, parent, ...shared,
  })
}
