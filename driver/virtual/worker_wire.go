package virtual

import (
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/shell"
)

// A worker is a process with one sealed sandbox. It has two connections to its parent, both of the
// guest's wire protocol: on one the parent operates the sandbox, on the other the worker asks for what
// it can't do itself.

// The descriptors of a worker.
const (
	sandboxFD = 3 // the parent operates the sandbox
	parentFD  = 4 // the worker calls its parent
)

// workerConfig is what a worker learns when a sandbox is assigned to it.
type workerConfig struct {
	ID      string      `json:"id"`
	Spec    atoll.Spec  `json:"spec"` // without secrets; the sources of mounts are those of the host
	Stored  bool        `json:"stored,omitempty"`
	Exists  bool        `json:"exists,omitempty"` // it is stored already
	Forked  *savedState `json:"forked,omitempty"` // what it begins with; nil: the image
	Created time.Time   `json:"created"`
	Policy  bool        `json:"policy,omitempty"` // the parent decides about each command
	Network bool        `json:"network,omitempty"`
	Base    string      `json:"base,omitempty"` // the image that need not be stored with the sandbox
	Memory  int64       `json:"memory"`         // bytes that the process can allocate; 0: no limit
}

// savedState names the files and the session in the blobs of a storage.
type savedState struct {
	Tree    string `json:"tree"`
	Session string `json:"session"`
}

// The calls of a worker to its parent.
const (
	callStart   guest.Op = "start"   // waits for a sandbox; the answer is a workerConfig
	callFailed  guest.Op = "failed"  // why there is no sandbox: a wire.Problem
	callLock    guest.Op = "lock"    // storage.lock
	callUnlock  guest.Op = "unlock"  //
	callExists  guest.Op = "exists"  //
	callRead    guest.Op = "read"    //
	callCommit  guest.Op = "commit"  //
	callCompact guest.Op = "compact" //
	callGet     guest.Op = "get"     // vfs.Store
	callPut     guest.Op = "put"     //
	callHas     guest.Op = "has"     //
	callPolicy  guest.Op = "policy"  // shell.Policy
	callRequest guest.Op = "request" // an HTTP request and its response follow
	callPython  guest.Op = "python"  // the calls of a Python interpreter follow
)

// The calls of a parent to its worker, besides those of [guest.SandboxServer].
const (
	opStatus         guest.Op = "status"
	opStop           guest.Op = "stop"
	opStart          guest.Op = "start"
	opPause          guest.Op = "pause"
	opResume         guest.Op = "resume"
	opSnapshot       guest.Op = "snapshot"
	opRestore        guest.Op = "restore"
	opSnapshots      guest.Op = "snapshots"
	opRemoveSnapshot guest.Op = "snapshot.remove"
	opStats          guest.Op = "sandbox.stats"
	opHistory        guest.Op = "sandbox.history"
	opComplete       guest.Op = "complete"
	opFork           guest.Op = "fork"  // saves a state in the storage of a fork
	opFlush          guest.Op = "flush" // stores the history
)

// storageCall is the question of the calls about storage.
type storageCall struct {
	Fork string         `json:"fork,omitempty"` // the storage of a fork; empty: the sandbox's own
	Key  string         `json:"key,omitempty"`
	Data []byte         `json:"data,omitempty"`
	Used []string       `json:"used,omitempty"` // keys
	New  *record        `json:"record,omitempty"`
	Past []atoll.Result `json:"past,omitempty"`

	Blobs []sentBlob `json:"blobs,omitempty"` // of callCommit: put before it
}

// sentBlob is a blob in a storageCall.
type sentBlob struct {
	Key  string `json:"key"`
	Data []byte `json:"data"`
}

// storageReply is the answer to a storageCall.
type storageReply struct {
	Is      bool           `json:"is,omitempty"`
	Missing bool           `json:"missing,omitempty"` // there is no such blob
	Data    []byte         `json:"data,omitempty"`
	Old     *record        `json:"record,omitempty"`
	Past    []atoll.Result `json:"past,omitempty"`
}

// policyCall is the question of callPolicy.
type policyCall struct{ Call shell.Call }

// completion is the question and the answer of opComplete.
type completion struct {
	Line  string   `json:"line,omitempty"`
	At    int      `json:"at"`
	Words []string `json:"words,omitempty"`
}

// nameQuestion is a question with a name or id.
type nameQuestion struct {
	Name string `json:"name,omitempty"`
	Fork string `json:"fork,omitempty"` // of opFork: the storage to save in
}
