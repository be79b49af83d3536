package hypervisor

import (
	"context"
	"net"
	"os"

	"github.com/atoll-sandbox/atoll/internal/isolation/fdpass"
)

// program is a kind of hypervisor: its command line and its control protocol. QEMU is the only one
// so far. Others that map memory from a file and accept open files (Firecracker, Cloud Hypervisor)
// can be added.
type program interface {
	// buildArgs returns the arguments of the program. It adds the files that the program inherits
	// to p.
	buildArgs(o *monitorOrder, p *inheritedFiles) ([]string, error)
	// connectControl starts the control protocol on conn, which the controller then owns. Events
	// are reported one after another.
	connectControl(ctx context.Context, conn *net.UnixConn, events func(event)) (controller, error)
}

// controller gives commands to a running hypervisor.
type controller interface {
	version() string
	pause(ctx context.Context) error
	resume(ctx context.Context) error
	save(ctx context.Context, state *os.File) error // of a paused VM, without its memory
	load(ctx context.Context, state *os.File) error // into one that was started for that; the VM then runs
	listLayers(ctx context.Context) ([]string, error)
	addLayer(ctx context.Context, name string, files []*os.File) error // see VM.AddLayer
}

// event is an event of a hypervisor.
type event struct {
	what  eventKind
	text  string // of eventStuck: the reason
	space bool   // of eventStuck: the host's disk is full
}

type eventKind int

const (
	eventPaused eventKind = iota + 1
	eventRuns
	eventStuck
)

// inheritedFiles collects the files that a hypervisor inherits.
type inheritedFiles struct {
	files      []*os.File // become descriptors 3, 4…
	own        []*os.File // files that close closes
	readPaths  []string   // paths that the hypervisor may open for reading
	writePaths []string   // paths that it may open for writing
	servedPath string     // path of a file that it opens for writing, and gets read-only; empty: none
	servedFile *os.File   // that file
}

// firstFile is the descriptor of the first file that a process inherits.
const firstFile = 3

// addFile adds a file, and returns its descriptor in the hypervisor.
func (p *inheritedFiles) addFile(f *os.File) int {
	p.files = append(p.files, f)
	return firstFile + len(p.files) - 1
}

// open opens a file of the host, and adds it.
func (p *inheritedFiles) open(name string, flags int) (int, error) {
	f, err := os.OpenFile(name, flags, 0)
	if err != nil {
		return -1, err
	}
	p.own = append(p.own, f)
	return p.addFile(f), nil
}

func (p *inheritedFiles) close() { fdpass.CloseAll(p.own) }

// monitorOrder is the order for a monitor.
type monitorOrder struct {
	Config
	Version string // of the hypervisor that saved Template
	TSC     int64  // frequency of the host's time stamp counter in kHz; 0: not known
	Kills   bool   // the first file sent with the order is that of Group.OpenOOMEvents
	Save    string // directory to save a template in; empty: run the VM
}

// answer is sent by a monitor when its VM serves, was saved, or has ended.
type answer struct {
	End *End
}
