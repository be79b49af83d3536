package e2b

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
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

// kernels are the kernels of code interpreters, which end with this process. The zero value is ready to
// use.
type kernels struct {
	mu   sync.Mutex
	all  map[string][]*kernel // by sandbox; guarded by mu
	done bool                 // guarded by mu
	wg   sync.WaitGroup
}

// kernel is a process in a sandbox that runs code and keeps its state.
type kernel struct {
	info    contextInfo
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

// create starts a kernel in a sandbox.
func (ks *kernels) create(ctx context.Context, sb *fleet.Sandbox, info contextInfo) (*kernel, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	k := &kernel{info: info, sandbox: sb, end: end, ready: make(chan struct{}), turn: make(chan struct{}, 1), lines: make(chan []byte, kernelBacklog), errs: &limitedText{}}
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
func (k *kernel) waitReady(ctx, life context.Context) error {
	t := time.NewTimer(kernelStart)
	defer t.Stop()
	select {
	case <-k.lines:
		return nil
	case <-k.p.Done():
		return k.explainEnd()
	case <-life.Done():
		return errStopping
	case <-t.C:
		return &Error{Status: http.StatusGatewayTimeout, Message: fmt.Sprintf("the kernel is not ready after %v", kernelStart)}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// explainEnd returns why a kernel has ended.
func (k *kernel) explainEnd() error {
	exit, err := k.p.Exit()
	switch {
	case exit.Code == 127 || exit.Code == 126, errors.Is(err, atoll.ErrNotFound):
		return unsupportedError("%s code in this sandbox, which has no %s", k.info.Language, kernelPrograms[k.info.Language][0])
	case err != nil:
		return &Error{Status: http.StatusBadGateway, Message: "the kernel has ended: " + err.Error()}
	}
	return &Error{Status: http.StatusInternalServerError, Message: fmt.Sprintf("the kernel has ended: exit status %d %s", exit.Code, k.errs)}
}

// kernelWriter splits the output of a kernel into messages.
type kernelWriter struct {
	k    *kernel
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

// runCode runs code and passes its messages to f. When ctx is done the code is interrupted; what it has left
// stays. Executions wait for each other.
func (k *kernel) runCode(ctx context.Context, request []byte, f func(line []byte) error) error {
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
func (k *kernel) interruptCode(ctx context.Context) {
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
func (ks *kernels) add(k *kernel) error {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	id := k.sandbox.ID()
	switch {
	case ks.done:
		return errStopping
	case slices.ContainsFunc(ks.all[id], func(o *kernel) bool { return o.info.ID == k.info.ID }):
		return errContextExists
	case len(ks.all[id]) >= maxKernels:
		return &Error{Status: http.StatusTooManyRequests, Message: fmt.Sprintf("the sandbox has %d contexts, which is the limit: remove one", maxKernels)}
	}
	if ks.all == nil {
		ks.all = make(map[string][]*kernel)
	}
	ks.all[id] = append(ks.all[id], k)
	return nil
}

// find returns a kernel that was started, or nil. It waits for a kernel that is starting.
func (ks *kernels) find(ctx context.Context, sandbox, id string) *kernel {
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

func (ks *kernels) lookUp(sandbox, id string) *kernel {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	for _, k := range ks.all[sandbox] {
		if k.info.ID == id {
			return k
		}
	}
	return nil
}

// list returns the contexts of a sandbox.
func (ks *kernels) list(sandbox string) []contextInfo {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	list := []contextInfo{}
	for _, k := range ks.all[sandbox] {
		list = append(list, k.info)
	}
	return list
}

// dropKernel removes a kernel that has ended.
func (ks *kernels) dropKernel(k *kernel) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	id := k.sandbox.ID()
	ks.all[id] = slices.DeleteFunc(ks.all[id], func(o *kernel) bool { return o == k })
	if len(ks.all[id]) == 0 {
		delete(ks.all, id)
	}
}

// removeKernel ends a kernel and reports whether there was one.
func (ks *kernels) removeKernel(sandbox, id string) bool {
	found := ks.lookUp(sandbox, id)
	if found == nil {
		return false
	}
	ks.dropKernel(found)
	found.stop()
	return true
}

// stop ends the process of a kernel.
func (k *kernel) stop() {
	k.end()
	<-k.ready // create ends at once when the kernel's client has left
	if k.p != nil {
		k.p.Kill()
	}
}

// forgetSandbox ends the kernels of a sandbox.
func (ks *kernels) forgetSandbox(sandbox string) {
	ks.mu.Lock()
	all := slices.Clone(ks.all[sandbox])
	ks.mu.Unlock()
	for _, k := range all {
		ks.dropKernel(k)
		k.stop()
	}
}

// close ends all kernels and waits for them.
func (ks *kernels) close() {
	ks.mu.Lock()
	ks.done = true
	var all []*kernel
	for _, list := range ks.all {
		all = append(all, list...)
	}
	ks.mu.Unlock()
	for _, k := range all {
		k.stop()
	}
	ks.wg.Wait()
}
