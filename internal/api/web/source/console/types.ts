// The parts of the API's objects that the console shows.

export interface Owner { app?: string; user?: string }
export interface Network { mode?: string; allow?: string[]; deny?: string[]; until?: Record<string, string> }
export interface Config { dir?: string; image?: string; network?: Network; limits?: { cpu?: number; memory?: number; disk?: number }; project?: { path?: string }; public_ports?: boolean; workspaces?: { workspace?: string; target?: string }[] }
export interface Features { [name: string]: unknown; isolation?: string; terminal?: boolean; pause?: boolean; stop?: boolean; snapshot?: boolean; fork?: boolean }
export interface Sandbox {
  id: string; name?: string; driver: string; isolation?: string; state: string; created: string; expires?: string
  owner: Owner; config: Config; features: Features; labels?: Record<string, string>
}
export interface AtollEvent { id: number; time: string; type: string; object: string; name?: string; message?: string; owner: Owner; data?: Record<string, string> }
export interface Route { host: string; url: string; sandbox: string; port?: number; command?: string; locked?: boolean }
export interface Port { port: number; address: string; command?: string; pid?: number }
export interface Usage { cpu: number | undefined; memory: number; disk: number; processes: number; rate?: number }
export interface Denied { host: string; time: string; message: string }
export interface Connection { time: string; host?: string; address?: string; port?: number; protocol: string; method?: string; path?: string; allowed: boolean; reason?: string; rule?: string; sent: number; received: number }
export interface FileInfo { name: string; size: number; mode: number; modified: string; target?: string }
export interface Process { id: string; command: string; running: boolean; started: string; code: number; signal?: string; detached: boolean }
export interface Snapshot { id: string; name?: string; sandbox: string; created: string; size: number; files: number }
export interface ToolCall { id: string; name?: string; kind?: string; title?: string; status?: string; output?: string; input?: unknown; diffs?: { path: string; old?: string; new: string }[] }
export interface Permission { id: string; tool: ToolCall; deadline?: string; decision?: { allow: boolean }; by?: string }
export interface Usages { input: number; output: number; cache_read?: number; cache_write?: number; cost?: number }
export interface Turn { id: string; agent?: string; assistant?: string; sandbox?: string; chat?: string; state: string; started: string; ended?: string; permissions?: Permission[]; result?: { outcome: string; text?: string; message?: string; usage?: Usages } }
export interface TurnEvent { seq: number; time: string; type: string; text?: string; tool?: ToolCall; permission?: Permission; usage?: Usages; plan?: { text: string; status: string }[]; result?: { outcome: string; text?: string; message?: string; usage?: Usages } }
export interface ChangedFile { path: string; status: string; old_mode?: string; mode?: string; inserted: number; deleted: number; risks?: string[]; unnamable?: boolean }
export interface Changes { tree?: string; dir: string; branch?: string; base?: string; from?: string; to?: string; branches: { name: string; commit: string; tree?: string }[]; files: ChangedFile[]; truncated: boolean }
export interface FileSide { exists: boolean; size: number; text?: string; omitted?: string }
export interface FileChange { path: string; old: FileSide; new: FileSide }
export interface FileVersion { kind: string; size: number; mode: string; uid: number; gid: number }
export interface Difference { from: string; to?: string; total: number; files: { path: string; status: string; old?: FileVersion; new?: FileVersion }[] }
export interface Session { id: string; agent?: string; assistant?: string; model?: string; sandbox?: string; state: string; turn: string; turns: number; usage?: Usages; permissions?: Permission[] }
export interface ChatMessage { role: string; text: string }
export interface Link { id: string; sandbox: string; created: string; expires: string }
