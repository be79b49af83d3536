package machine

import (
	"context"
	"net"
	"os"
)

// program is a hypervisor: what to start, and how to speak with it. QEMU is the
// one that there is; others that map memory from a file and take open files
// (Firecracker, Cloud Hypervisor) fit.
type program interface {
	// arguments returns those of the program, whose files are placed with p.
	arguments(o *order, p *placer) ([]string, error)
	// control begins to speak with it on a connection, which is the
	// controller's from then on. Events are told one after another.
	control(ctx context.Context, conn *net.UnixConn, events func(event)) (controller, error)
}

// controller gives commands to a hypervisor that runs.
type controller interface {
	version() string
	pause(ctx context.Context) error
	resume(ctx context.Context) error
	save(ctx context.Context, state *os.File) error // of a paused machine, without its memory
	load(ctx context.Context, state *os.File) error // into one that was started to be woken, which then runs
}

// event is what a hypervisor tells of a machine.
type event struct {
	what  eventKind
	text  string // of eventStuck: why
	space bool   // of eventStuck: the host's disk is full
}

type eventKind int

const (
	eventPaused eventKind = iota + 1
	eventRuns
	eventStuck
)

// placer collects the files that a hypervisor inherits.
type placer struct {
	files []*os.File // become descriptors 3, 4…
	own   []*os.File // those of files that are ours to close
	read  []string   // paths that it may open itself, to read
	write []string   // and to write
	lent  string     // path of a file that it opens to write and gets to read; empty: none
	loan  *os.File   // that file
}

// firstFile is the descriptor of the first file that a process inherits.
const firstFile = 3

// file places a file and returns its descriptor there.
func (p *placer) file(f *os.File) int {
	p.files = append(p.files, f)
	return firstFile + len(p.files) - 1
}

// open opens a file of the host and places it.
func (p *placer) open(name string, flags int) (int, error) {
	f, err := os.OpenFile(name, flags, 0)
	if err != nil {
		return -1, err
	}
	p.own = append(p.own, f)
	return p.file(f), nil
}

func (p *placer) close() { closeAll(p.own) }

// order is what a monitor is told to do.
type order struct {
	Config
	Version string // of the hypervisor that saved Template
	TSC     int64  // kHz of the host's clock; 0: not known
	Kills   bool   // the first file that comes along is Group.Kills
	Save    string // directory for a template to be saved in; empty: run
}

// answer is what a monitor says when its machine serves, is saved, or is over.
type answer struct {
	End *End
}
