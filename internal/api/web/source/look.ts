// Colours, light and dark.

import type { ITheme } from '@xterm/xterm'

const dark: ITheme = {
  background: '#10151a', foreground: '#d7dde3', cursor: '#5eead4', cursorAccent: '#10151a', selectionBackground: '#2f4a57',
  black: '#1d252c', red: '#ff7b72', green: '#7ee787', yellow: '#e3b341', blue: '#79b8ff', magenta: '#d2a8ff', cyan: '#56d4dd', white: '#c9d1d9',
  brightBlack: '#6e7b87', brightRed: '#ffa198', brightGreen: '#a5f0ab', brightYellow: '#f2cc60', brightBlue: '#a5d2ff', brightMagenta: '#e2c5ff', brightCyan: '#8ae6ec', brightWhite: '#f4f7fa',
}
const light: ITheme = {
  background: '#fdfdfc', foreground: '#24292f', cursor: '#0f766e', cursorAccent: '#fdfdfc', selectionBackground: '#bfe3df',
  black: '#24292f', red: '#c4232d', green: '#1a7f37', yellow: '#8a6100', blue: '#0a5cc2', magenta: '#7a3fc9', cyan: '#127683', white: '#69737d',
  brightBlack: '#57606a', brightRed: '#a40e26', brightGreen: '#116329', brightYellow: '#6c4a00', brightBlue: '#08479a', brightMagenta: '#6230a8', brightCyan: '#0b5a66', brightWhite: '#3b434b',
}

const system = matchMedia('(prefers-color-scheme: dark)')
const kept = 'atoll-look'

/** The look that holds: what was chosen, or the system's. */
export function isDark(): boolean {
  const chosen = localStorage.getItem(kept)
  return chosen ? chosen === 'dark' : system.matches
}

export function theme(): ITheme { return isDark() ? dark : light }

/** The look that was chosen; '': the system's. */
export function chosen(): string { return localStorage.getItem(kept) ?? '' }

/** Chooses a look; '': the system's. */
export function choose(v: string): void {
  if (v) localStorage.setItem(kept, v)
  else localStorage.removeItem(kept)
}

export function toggle(): void { localStorage.setItem(kept, isDark() ? 'light' : 'dark') }

/** Calls f now and when the system's look changes. */
export function follow(f: () => void): void {
  const apply = () => {
    document.documentElement.dataset.look = isDark() ? 'dark' : 'light'
    f()
  }
  system.addEventListener('change', apply)
  apply()
}
