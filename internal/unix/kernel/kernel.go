// Package kernel is a small virtual operating system over a [vfs.FS]: processes, descriptors,
// pipes, signals, devices, a clock, and limits for all of them. A process is a goroutine that runs
// a [Program].
package kernel

import (
	"context"
	"crypto/rand"
	"io"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/atoll-sandbox/atoll/vfs"
)

// Program is the main function of a virtual executable. It returns the exit status; only its low
// eight bits count.
type Program func(p *Proc) int

// Limits limit the resources that all processes of a kernel may use together; some are for each
// command or process, as noted. Zero is the default, negative is no limit.
type Limits struct {
	Memory int64 // live bytes of all processes; default 64 MiB
	Steps  int64 // work steps of one command; default none
	Procs  int   // processes at once; default 256
	Files  int   // descriptors of one process; default 256
	Depth  int   // nested calls (functions, subshells, sourced files); default 1,000
	Output int64 // bytes kept of each captured stream of a command; default 10 MiB
}

// Defaults of [Limits].
const (
	DefaultMemory = 64 << 20
	DefaultProcs  = 256
	DefaultFiles  = 256
	DefaultDepth  = 1000
	DefaultOutput = 10 << 20
)

func (l Limits) withDefaults() Limits {
	fill64 := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		} else if *v < 0 {
			*v = math.MaxInt64
		}
	}
	fill := func(v *int, d int) {
		n := int64(*v)
		fill64(&n, int64(d))
		*v = int(n)
	}
	fill64(&l.Memory, DefaultMemory)
	fill64(&l.Steps, math.MaxInt64)
	fill64(&l.Output, DefaultOutput)
	fill(&l.Procs, DefaultProcs)
	fill(&l.Files, DefaultFiles)
	fill(&l.Depth, DefaultDepth)
	return l
}

// Network sends the HTTP requests of a sandbox. It applies the sandbox's egress policy to each
// request and connection.
type Network interface {
	http.RoundTripper
}

// Python starts a Python interpreter outside of this process, and returns the connection on which it makes its system calls
// (package wasi); closing it ends the interpreter. A cold one is given its own options first.
type Python func(ctx context.Context, cold bool) (net.Conn, error)

// Config configures a kernel.
type Config struct {
	FS       *vfs.FS
	Programs map[string]Program // by name; shared between kernels, and never changed
	Limits   Limits
	Network  Network          // nil: no network
	Python   Python           // nil: none
	Policy   Policy           // nil: every command is allowed
	Now      func() time.Time // nil: time.Now
	Rand     io.Reader        // nil: crypto/rand
	Hostname string           // empty: "atoll"
}

// Kernel is the operating system of one sandbox. Its methods are safe for concurrent use.
type Kernel struct {
	fs       *vfs.FS
	programs map[string]Program
	limits   Limits
	network  Network
	python   Python
	policy   Policy
	now      func() time.Time
	rand     io.Reader
	hostname string
	booted   time.Time

	mem         atomic.Int64 // live bytes charged by all processes
	frozen      atomic.Bool
	procStopped chan struct{} // signals Pause that a process may have stopped running
	locks       lockTable

	mu        sync.Mutex
	procs     map[int]*Proc    // guarded by mu
	lastPID   int              // guarded by mu
	fifos     map[uint64]*fifo // guarded by mu; by inode
	ttys      map[int]*TTY     // guarded by mu; by number
	incidents []Incident       // guarded by mu; the newest 16
}

// Incident is a panic of a program. It ends only the process.
type Incident struct {
	Time    time.Time
	Program string
	Value   string
	Stack   string
}

// New returns a kernel with no processes.
func New(c Config) *Kernel {
	k := &Kernel{
		fs: c.FS, programs: c.Programs, limits: c.Limits.withDefaults(), network: c.Network, python: c.Python, policy: c.Policy,
		now: c.Now, rand: c.Rand, hostname: c.Hostname,
		procStopped: make(chan struct{}, 1),
	}
	if k.now == nil {
		k.now = time.Now
	}
	if k.rand == nil {
		k.rand = rand.Reader
	}
	if k.hostname == "" {
		k.hostname = "atoll"
	}
	k.booted = k.now()
	return k
}

// Now returns the sandbox's time.
func (k *Kernel) Now() time.Time { return k.now() }

// ReservePID returns an unused process id, for a process that is to run later, possibly many times.
func (k *Kernel) ReservePID() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lastPID++
	return k.lastPID
}

// FS returns the file system of the processes.
func (k *Kernel) FS() *vfs.FS { return k.fs }

// Limits returns the limits with the defaults.
func (k *Kernel) Limits() Limits { return k.limits }

// Hostname returns the sandbox's host name.
func (k *Kernel) Hostname() string { return k.hostname }

// BootTime returns the time when the kernel was made.
func (k *Kernel) BootTime() time.Time { return k.booted }

// Programs returns the virtual executables by name. The map must not be changed.
func (k *Kernel) Programs() map[string]Program { return k.programs }

// Memory returns the live bytes that are charged to processes.
func (k *Kernel) Memory() int64 { return k.mem.Load() }

// Incidents returns the newest panics of programs, oldest first.
func (k *Kernel) Incidents() []Incident {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]Incident(nil), k.incidents...)
}

// Procs returns the existing processes, ordered by pid.
func (k *Kernel) Procs() []*Proc {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := make([]*Proc, 0, len(k.procs))
	for _, p := range k.procs {
		list = append(list, p)
	}
	sortProcs(list)
	return list
}

// Proc returns the process with a pid, or nil.
func (k *Kernel) Proc(pid int) *Proc {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.procs[pid]
}

// addProc assigns a pid to p, and adds it to the table. It uses the given pid if that is not zero
// and free.
func (k *Kernel) addProc(p *Proc, pid int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.procs) >= k.limits.Procs {
		return vfs.EAGAIN
	}
	if k.procs == nil {
		k.procs = make(map[int]*Proc)
	}
	if pid == 0 || k.procs[pid] != nil {
		for {
			k.lastPID++
			if k.lastPID > 1<<22 {
				k.lastPID = 300
			}
			if k.procs[k.lastPID] == nil {
				break
			}
		}
		pid = k.lastPID
	} else if pid > k.lastPID {
		k.lastPID = pid
	}
	p.pid = pid
	k.procs[pid] = p
	return nil
}

func (k *Kernel) removeProc(p *Proc) {
	k.mu.Lock()
	delete(k.procs, p.pid)
	k.mu.Unlock()
}

func (k *Kernel) recordIncident(i Incident) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.incidents) == 16 {
		k.incidents = append(k.incidents[:0], k.incidents[1:]...)
	}
	k.incidents = append(k.incidents, i)
}
