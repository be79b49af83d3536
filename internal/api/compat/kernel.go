package compat

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

//go:embed kernel/kernel.py
var kernelPython string

//go:embed kernel/kernel.js
var kernelJavaScript string

// kernelPrograms are the programs that run kernels, with their source as an argument.
var kernelPrograms = map[string][]string{
	"python":     {"python3", "-u", "-c", kernelPython},
	"javascript": {"node", "-e", kernelJavaScript},
}

// Limits of kernels.
const (
	maxKernels     = 64       // of a sandbox
	maxKernelLine  = 64 << 20 // bytes of a message
	kernelBacklog  = 64       // messages that wait for the client
	kernelStart    = 30 * time.Second
	interruptGrace = 5 * time.Second // until a kernel that ignores an interrupt is killed
)

// Kernels are the kernels of code interpreters, which end with this process. The zero value is ready to
// use.
type Kernels struct {
	mu   sync.Mutex
	all  map[string][]*Kernel // by sandbox; guarded by mu
	done bool                 // guarded by mu
	wg   sync.WaitGroup
}

// KernelInfo describes a kernel.
type KernelInfo struct {
	ID       string `json:"id"`
	Language string `json:"language"`
	Cwd      string `json:"cwd"`

	Created time.Time `json:"-"`
}

var (
	// ErrStopping is the error of kernels that end, or can't start, because the server shuts down.
	ErrStopping = fmt.Errorf("%w: the server is shutting down", atoll.ErrUnavailable)
	// ErrKernelExists is the error of a second kernel with the same id.
	ErrKernelExists = fmt.Errorf("%w: the context exists already", atoll.ErrExists)
)

// languages maps the names of languages to those of kernels.
var languages = map[string]string{"": "python", "python": "python", "python3": "python", "javascript": "javascript", "js": "javascript"}

// KernelLanguage returns the language of kernels that a client names. Other languages are ErrUnsupported.
func KernelLanguage(name string) (string, error) {
	language := languages[strings.ToLower(name)]
	if language == "" {
		return "", fmt.Errorf("%w: the language %.64q", atoll.ErrUnsupported, name)
	}
	return language, nil
}

// Kernel is a process in a sandbox that runs code and keeps its state.
type Kernel struct {
	Info KernelInfo

	sandbox *fleet.Sandbox
	p       *fleet.StartedProcess
	end     context.CancelFunc // of the process's client

	ready  chan struct{} // closed when it was started, or has failed to; p and failed are set then
	failed error

	turn  chan struct{} // holds a token while code runs
	lines chan []byte   // messages of the kernel
	line  []byte        // an incomplete message; only the process's writer uses it
	errs  *limitedText
}

// limitedText keeps the beginning of a text.
type limitedText struct {
	mu   sync.Mutex
	text []byte // guarded by mu
}

func (t *limitedText) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[:min(len(b), 1024-len(t.text))]...)
	return len(b), nil
}

func (t *limitedText) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}

// Create starts a kernel in a sandbox.
func (ks *Kernels) Create(ctx context.Context, sb *fleet.Sandbox, info KernelInfo) (*Kernel, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	k := &Kernel{Info: info, sandbox: sb, end: end, ready: make(chan struct{}), turn: make(chan struct{}, 1), lines: make(chan []byte, kernelBacklog), errs: &limitedText{}}
	if err := ks.add(k); err != nil {
		end()
		return nil, err
	}
	defer close(k.ready)
	p, err := sb.StartAttached(life, "", atoll.Cmd{
		Args: kernelPrograms[info.Language], Dir: info.Cwd, Timeout: -1, Stdout: &kernelWriter{k, life}, Stderr: k.errs,
	})
	if err == nil {
		k.p = p
		ks.wg.Go(func() {
			<-p.Done()
			end()
			ks.dropKernel(k)
		})
		err = k.waitReady(ctx, life)
	}
	if err != nil {
		ks.dropKernel(k)
		end()
		if k.p != nil {
			k.p.Kill()
		}
		k.failed = err
		return nil, err
	}
	return k, nil
}

// waitReady waits for the first message of the kernel.
func (k *Kernel) waitReady(ctx, life context.Context) error {
	t := time.NewTimer(kernelStart)
	defer t.Stop()
	select {
	case <-k.lines:
		return nil
	case <-k.p.Done():
		return k.explainEnd()
	case <-life.Done():
		return ErrStopping
	case <-t.C:
		return fmt.Errorf("%w: the kernel is not ready after %v", atoll.ErrTimeout, kernelStart)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// explainEnd returns why a kernel has ended.
func (k *Kernel) explainEnd() error {
	exit, err := k.p.Exit()
	switch {
	case exit.Code == 127 || exit.Code == 126, errors.Is(err, atoll.ErrNotFound):
		return fmt.Errorf("%w: %s code in this sandbox, which has no %s", atoll.ErrUnsupported, k.Info.Language, kernelPrograms[k.Info.Language][0])
	case err != nil:
		return fmt.Errorf("%w: the kernel has ended: %w", atoll.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: the kernel has ended: exit status %d %s", atoll.ErrUnavailable, exit.Code, k.errs)
}

// kernelWriter splits the output of a kernel into messages.
type kernelWriter struct {
	k    *Kernel
	life context.Context //nolint:containedctx // of the kernel
}

// Write waits while the client does not read: the kernel then waits, too.
func (w *kernelWriter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		at := bytes.IndexByte(b, '\n')
		if at < 0 {
			w.k.line = append(w.k.line, b...)
			break
		}
		line := messageOf(append(w.k.line, b[:at+1]...))
		w.k.line, b = nil, b[at+1:]
		select {
		case w.k.lines <- line:
		case <-w.life.Done():
			return n, context.Cause(w.life)
		}
	}
	if len(w.k.line) > maxKernelLine {
		w.k.p.Kill()
		return n, io.ErrShortWrite
	}
	return n, nil
}

// messageOf returns a line of a kernel as a message: output of its child processes is none.
func messageOf(line []byte) []byte {
	if bytes.HasPrefix(line, []byte(`{"`)) && json.Valid(line) {
		return line
	}
	b, err := json.Marshal(map[string]string{"type": "stdout", "text": string(line)})
	if err != nil {
		return line
	}
	return append(b, '\n')
}

// endMark is what the last message of an execution contains.
var endMark = []byte(`"type": "end_of_execution"`)

// isEnd reports whether a message is the last of an execution.
func isEnd(line []byte) bool {
	return len(line) < 64 && (bytes.Contains(line, endMark) || bytes.Contains(line, []byte(`"type":"end_of_execution"`)))
}

// RunCode runs code and passes its messages to f. When ctx is done the code is interrupted; what it has left
// stays. Executions wait for each other.
func (k *Kernel) RunCode(ctx context.Context, request []byte, f func(line []byte) error) error {
	select {
	case k.turn <- struct{}{}:
	case <-k.p.Done():
		return k.explainEnd()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := k.sandbox.WriteInput(ctx, k.p.ID, append(request, '\n'))
	for err == nil {
		var line []byte
		select {
		case line = <-k.lines:
			err = f(line)
			if isEnd(line) {
				<-k.turn
				return err
			}
		case <-k.p.Done():
			<-k.turn
			return k.explainEnd()
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	go k.interruptCode(context.WithoutCancel(ctx)) // it keeps the turn until the code has ended
	return err
}

// interruptCode ends the code that runs, and the kernel if it goes on.
func (k *Kernel) interruptCode(ctx context.Context) {
	defer func() { <-k.turn }()
	if k.sandbox.Signal(ctx, k.p.ID, "INT") != nil {
		k.p.Kill()
	}
	t := time.NewTimer(interruptGrace)
	defer t.Stop()
	for {
		select {
		case line := <-k.lines:
			if isEnd(line) {
				return
			}
		case <-k.p.Done():
			return
		case <-t.C:
			k.p.Kill()
		}
	}
}

// add adds a kernel.
func (ks *Kernels) add(k *Kernel) error {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	id := k.sandbox.ID()
	switch {
	case ks.done:
		return ErrStopping
	case slices.ContainsFunc(ks.all[id], func(o *Kernel) bool { return o.Info.ID == k.Info.ID }):
		return ErrKernelExists
	case len(ks.all[id]) >= maxKernels:
		return fmt.Errorf("%w: the sandbox has %d contexts, which is the limit: remove one", atoll.ErrQuota, maxKernels)
	}
	if ks.all == nil {
		ks.all = make(map[string][]*Kernel)
	}
	ks.all[id] = append(ks.all[id], k)
	return nil
}

// Find returns a kernel that was started, or nil. It waits for a kernel that is starting.
func (ks *Kernels) Find(ctx context.Context, sandbox, id string) *Kernel {
	k := ks.lookUp(sandbox, id)
	if k == nil {
		return nil
	}
	select {
	case <-k.ready:
		if k.failed != nil {
			return nil
		}
		return k
	case <-ctx.Done():
		return nil
	}
}

func (ks *Kernels) lookUp(sandbox, id string) *Kernel {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	for _, k := range ks.all[sandbox] {
		if k.Info.ID == id {
			return k
		}
	}
	return nil
}

// List returns the contexts of a sandbox.
func (ks *Kernels) List(sandbox string) []KernelInfo {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	list := []KernelInfo{}
	for _, k := range ks.all[sandbox] {
		list = append(list, k.Info)
	}
	return list
}

// dropKernel removes a kernel that has ended.
func (ks *Kernels) dropKernel(k *Kernel) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	id := k.sandbox.ID()
	ks.all[id] = slices.DeleteFunc(ks.all[id], func(o *Kernel) bool { return o == k })
	if len(ks.all[id]) == 0 {
		delete(ks.all, id)
	}
}

// Remove ends a kernel and reports whether there was one.
func (ks *Kernels) Remove(sandbox, id string) bool {
	found := ks.lookUp(sandbox, id)
	if found == nil {
		return false
	}
	ks.dropKernel(found)
	found.stop()
	return true
}

// stop ends the process of a kernel.
func (k *Kernel) stop() {
	k.end()
	<-k.ready // create ends at once when the kernel's client has left
	if k.p != nil {
		k.p.Kill()
	}
}

// ForgetSandbox ends the kernels of a sandbox.
func (ks *Kernels) ForgetSandbox(sandbox string) {
	ks.mu.Lock()
	all := slices.Clone(ks.all[sandbox])
	ks.mu.Unlock()
	for _, k := range all {
		ks.dropKernel(k)
		k.stop()
	}
}

// Close ends all kernels and waits for them.
func (ks *Kernels) Close() {
	ks.mu.Lock()
	ks.done = true
	var all []*Kernel
	for _, list := range ks.all {
		all = append(all, list...)
	}
	ks.mu.Unlock()
	for _, k := range all {
		k.stop()
	}
	ks.wg.Wait()
}
