package virtual

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/shell"
	"github.com/atoll-sandbox/atoll/vfs"
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
	Memory  int64       `json:"memory"` // bytes that the process can allocate; 0: no limit
}

// savedState names the files and the session in the blobs of a place.
type savedState struct {
	Tree    string `json:"tree"`
	Session string `json:"session"`
}

// The calls of a worker to its parent.
const (
	callStart   guest.Op = "start"   // waits for a sandbox; the answer is a workerConfig
	callFailed  guest.Op = "failed"  // why there is no sandbox: a wire.Problem
	callLock    guest.Op = "lock"    // place.lock
	callUnlock  guest.Op = "unlock"  //
	callExists  guest.Op = "exists"  //
	callRecord  guest.Op = "record"  //
	callHistory guest.Op = "history" //
	callWrite   guest.Op = "save"    //
	callSweep   guest.Op = "sweep"   //
	callGet     guest.Op = "get"     // blobStore.Get
	callPut     guest.Op = "put"     //
	callHas     guest.Op = "has"     //
	callSync    guest.Op = "sync"    //
	callPolicy  guest.Op = "policy"  // shell.Policy
	callRequest guest.Op = "request" // an HTTP request and its response follow
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
	opFork           guest.Op = "fork" // saves a state in the place of a fork
)

// placeCall is the question of the calls about a place.
type placeCall struct {
	Fork string         `json:"fork,omitempty"` // the place of a fork; empty: the sandbox's own
	Key  string         `json:"key,omitempty"`
	Data []byte         `json:"data,omitempty"`
	Used []string       `json:"used,omitempty"`
	New  *record        `json:"record,omitempty"`
	Past []atoll.Result `json:"past,omitempty"`
}

// placeReply is the answer to a placeCall.
type placeReply struct {
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
	Fork string `json:"fork,omitempty"` // of opFork: the place to save in
}

// parentPlace is the place of a sandbox as its worker sees it.
type parentPlace struct {
	parent *guest.Client
	fork   string // the place of a fork; empty: the sandbox's own
}

var _ place = (*parentPlace)(nil)

func (p *parentPlace) call(ctx context.Context, op guest.Op, q placeCall) (placeReply, error) {
	q.Fork = p.fork
	var a placeReply
	err := p.parent.Call(ctx, op, q, &a)
	return a, err
}

func (p *parentPlace) lock(ctx context.Context) error {
	_, err := p.call(ctx, callLock, placeCall{})
	return err
}

func (p *parentPlace) unlock() error {
	_, err := p.call(context.Background(), callUnlock, placeCall{})
	return err
}

func (p *parentPlace) exists() bool {
	a, err := p.call(context.Background(), callExists, placeCall{})
	return err == nil && a.Is
}

func (p *parentPlace) readRecord() (record, error) {
	a, err := p.call(context.Background(), callRecord, placeCall{})
	if err != nil {
		return record{}, err
	}
	if a.Old == nil {
		return record{}, errNoAnswer
	}
	return *a.Old, nil
}

// errNoAnswer reports an answer without its content.
var errNoAnswer = errors.New("the parent of this worker did not answer")

func (p *parentPlace) readHistory() history {
	a, _ := p.call(context.Background(), callHistory, placeCall{}) // it is not essential
	return history{list: a.Past}
}

func (p *parentPlace) openBlobs() (blobStore, error) { return p, nil }

func (p *parentPlace) write(r record, past []atoll.Result) error {
	_, err := p.call(context.Background(), callWrite, placeCall{New: &r, Past: past})
	return err
}

func (p *parentPlace) sweep(used map[string]bool) error {
	q := placeCall{}
	for key := range used {
		q.Used = append(q.Used, key)
	}
	_, err := p.call(context.Background(), callSweep, q)
	return err
}

// Get returns a blob.
func (p *parentPlace) Get(key vfs.Key) ([]byte, error) {
	a, err := p.call(context.Background(), callGet, placeCall{Key: key.String()})
	if err == nil && a.Missing {
		err = fs.ErrNotExist
	}
	return a.Data, err
}

// Put stores a blob.
func (p *parentPlace) Put(key vfs.Key, data []byte) error {
	_, err := p.call(context.Background(), callPut, placeCall{Key: key.String(), Data: data})
	return err
}

// Has reports whether a blob is stored.
func (p *parentPlace) Has(key vfs.Key) (bool, error) {
	a, err := p.call(context.Background(), callHas, placeCall{Key: key.String()})
	return a.Is, err
}

// Sync waits until the blobs are stored.
func (p *parentPlace) Sync() error {
	_, err := p.call(context.Background(), callSync, placeCall{})
	return err
}
