// Command atoll-python is the process of one Python interpreter of a virtual sandbox: CPython for WebAssembly, whose system
// calls are answered at the other end of the connection that the process has inherited. It gives up all other rights before it runs any
// of Python. The virtual driver starts it.
package main

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/helper"
	"github.com/atoll-sandbox/atoll/internal/isolation/seal"
	"github.com/atoll-sandbox/atoll/internal/unix/wasi"
)

// The arguments after the directory of the interpreter.
const (
	argCompile = "compile" // only fill the cache of compiled code
	argCold    = "cold"    // the options of the interpreter come first
)

const (
	// connFD is the descriptor of the connection.
	connFD = 3
	// margin is what the process can allocate besides the memory of the program.
	margin     = 160 << 20
	maxThreads = seal.MaxThreads - 8
	// failedStatus is the exit status of an interpreter that failed, and maxReason the length of the reason.
	failedStatus = 134
	maxReason    = 4 << 10
	maxCPUs      = 2
)

//go:embed boot.py
var boot string

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "atoll-python: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%w: arguments: atoll runs this program by itself", atoll.ErrInvalid)
	}
	ctx := context.Background()
	runtime.GOMAXPROCS(min(runtime.NumCPU(), maxCPUs))
	debug.SetMaxThreads(maxThreads)
	switch {
	case slices.Equal(args[1:], []string{argCompile}):
		_, err := load(ctx, args[0])
		return err
	case len(args) > 1 && !slices.Equal(args[1:], []string{argCold}):
		return fmt.Errorf("%w: arguments %q", atoll.ErrInvalid, args[1:])
	}
	conn, err := inheritConn()
	if err != nil {
		return err
	}
	if err := serve(ctx, conn, args[0], len(args) > 1); err != nil {
		text := err.Error()
		return errors.Join(err, wasi.WriteCall(conn, wasi.Call{Op: wasi.OpExit, Args: []int64{failedStatus}, Data: []byte(text[:min(len(text), maxReason)])}))
	}
	return nil
}

// serve loads the interpreter, seals this process and runs it.
func serve(ctx context.Context, conn net.Conn, dir string, cold bool) error {
	e, err := load(ctx, dir)
	if err != nil {
		return err
	}
	_ = time.Now().Local().String() // loads the time zone, of a file
	e.host = newHost(conn)
	if err := e.prepare(ctx); err != nil {
		return err
	}
	debug.FreeOSMemory() // what compiling has used
	if err := seal.Process(seal.Options{Memory: wasi.MaxMemory + margin, EndWithParent: true}); err != nil {
		return err
	}
	return e.run(ctx, cold)
}

// inheritConn returns the connection that this process has inherited.
func inheritConn() (net.Conn, error) {
	f := os.NewFile(connFD, "connection")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d: atoll runs this program by itself: %w", connFD, err)
	}
	return conn, nil
}

// interpreter is the compiled interpreter.
type interpreter struct {
	runtime wazero.Runtime
	module  wazero.CompiledModule
	host    *host
}

// load reads the interpreter of a directory, which must have the known digest, and compiles it, unless the cache beside it
// has the code.
func load(ctx context.Context, dir string) (*interpreter, error) {
	b, err := os.ReadFile(filepath.Join(dir, helper.PythonFile))
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != helper.PythonDigest {
		return nil, fmt.Errorf("%w: %s in %s has another digest than it should: remove the directory and run 'atoll setup python'", atoll.ErrDenied, helper.PythonFile, dir)
	}
	config := wazero.NewRuntimeConfig().WithMemoryLimitPages(wasi.MaxMemory >> 16).WithDebugInfoEnabled(false)
	if cache, err := wazero.NewCompilationCacheWithDir(filepath.Join(dir, "code")); err == nil { // without it the code is compiled each time
		config = config.WithCompilationCache(cache)
	}
	e := &interpreter{runtime: wazero.NewRuntimeWithConfig(ctx, config)}
	e.module, err = e.runtime.CompileModule(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("compiling Python: %w", err)
	}
	return e, nil
}

// prepare makes what needs executable memory.
func (e *interpreter) prepare(ctx context.Context) error {
	builder := e.runtime.NewHostModuleBuilder("wasi_snapshot_preview1")
	e.host.export(builder)
	_, err := builder.Instantiate(ctx)
	return err
}

// run runs the interpreter until it ends, and reports its status.
func (e *interpreter) run(ctx context.Context, cold bool) error {
	h := e.host
	if cold {
		if err := h.receiveStart(); err != nil {
			return err
		}
	}
	h.args = append(append([]string{"python3"}, h.start.Flags...), "-c", boot)
	ctx = experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(h.allocate))
	_, err := e.runtime.InstantiateModule(ctx, e.module, wazero.NewModuleConfig().WithName(""))
	var exit *sys.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	status := int64(0)
	if exit != nil {
		status = int64(exit.ExitCode())
	}
	return wasi.WriteCall(h.conn, wasi.Call{Op: wasi.OpExit, Args: []int64{status}})
}
