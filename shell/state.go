package shell

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"fmt"
	"hash/crc32"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/syntax"
)

// State is a snapshot of everything that a session carries from command to
// command: variables with their attributes, functions, aliases, options,
// traps, positional parameters, working directory and directory stack, umask
// and history. Taking and restoring a State takes constant time. A State
// never changes; the zero State is empty and can't be restored.
type State struct{ *frozenState }

type frozenState struct {
	mu   sync.Mutex // held while in is copied, which marks its maps as shared
	in   *interp    // guarded by mu
	dir  string
	mask uint32
}

// copyState returns a copy that shares everything with in until one of them
// changes it.
func (in *interp) copyState() *interp {
	c := *in
	c.variables = in.variables.forkStore()
	c.funcs, c.alias, c.hash, c.specs = in.funcs.fork(), in.alias.fork(), in.hash.fork(), in.specs.fork()
	c.jobs = jobTable{ended: in.jobs.ended[:len(in.jobs.ended):len(in.jobs.ended)]}
	c.dirs = in.dirs[:len(in.dirs):len(in.dirs)]
	c.inherited = 0
	c.p, c.sh, c.spareFields, c.node, c.interactive = nil, nil, nil, nil, nil
	return &c
}

// State returns the state of the session after its last command.
func (s *Shell) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return State{&frozenState{in: s.in.copyState(), dir: s.dir, mask: s.mask}}
}

// Restore returns the session to a state that was taken before, from it or
// from another session. The session's current state is discarded.
func (s *Shell) Restore(st State) error {
	if st.frozenState == nil {
		return fmt.Errorf("restore shell: %w: empty state", atoll.ErrInvalid)
	}
	st.mu.Lock()
	in := st.in.copyState()
	st.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.keptFDs {
		k.open.Release()
	}
	s.keptFDs = nil
	in.sh, in.shellPID = s, s.pid
	s.in, s.dir, s.mask = in, st.dir, st.mask
	return nil
}

// savedState is the encoded form of a State. The names of its fields are part
// of the format.
type savedState struct {
	Version  int
	Dir      string
	Mask     uint32
	Name     string
	Params   []string
	Status   int
	Opts     uint32
	Shopts   uint64
	Vars     []savedVar
	Funcs    []savedFunc
	Aliases  map[string]string
	Traps    map[int]string
	Dirs     []string
	History  []string
	First    int
	Disabled []string
	Limits   map[byte]int64
	Specs    map[string]savedSpec
	Last     string
}

type savedFunc struct {
	Name, Text, Source    string
	Line                  int32
	Export, Trace, Frozen bool
}

type savedSpec struct {
	Actions, Options                                          []string
	Wordlist, Function, Command, Glob, Filter, Prefix, Suffix string
	Words                                                     bool
}

// An encoded state begins with the magic and a checksum of the rest.
const (
	stateVersion = 1
	stateMagic   = "atollsh1"
	stateHead    = len(stateMagic) + 4
)

// MarshalBinary encodes the state, for another process to continue with.
func (st State) MarshalBinary() ([]byte, error) {
	if st.frozenState == nil {
		return nil, fmt.Errorf("store shell: %w: empty state", atoll.ErrInvalid)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	in := st.in
	d := savedState{
		Version: stateVersion, Dir: st.dir, Mask: st.mask, Name: in.name0, Params: in.params, Status: in.status,
		Opts: uint32(in.opts), Shopts: uint64(in.shopts), Vars: in.variables.save(), Aliases: in.alias.m, Dirs: in.dirs,
		History: in.historyLines(), First: in.historyBase(), Limits: in.limits, Last: in.last,
	}
	for _, name := range in.functionNames() {
		f, _ := in.funcs.get(name)
		d.Funcs = append(d.Funcs, savedFunc{name, printFunction(f), f.source, f.line, f.export, f.traced, f.readonly})
	}
	d.Traps = make(map[int]string)
	for _, s := range in.traps.list() {
		d.Traps[int(s)] = in.traps.command(s)
	}
	for n := range in.disabled {
		d.Disabled = append(d.Disabled, n)
	}
	d.Specs = make(map[string]savedSpec)
	for n, c := range in.specs.m {
		d.Specs[n] = savedSpec{c.actions, c.options, c.wordlist, c.function, c.command, c.glob, c.filter, c.prefix, c.suffix, c.words}
	}
	var b bytes.Buffer
	b.WriteString(stateMagic + "\x00\x00\x00\x00")
	if err := gob.NewEncoder(&b).Encode(&d); err != nil {
		return nil, fmt.Errorf("store shell: %w", err)
	}
	out := b.Bytes()
	binary.BigEndian.PutUint32(out[len(stateMagic):], crc32.ChecksumIEEE(out[stateHead:]))
	return out, nil
}

// UnmarshalBinary decodes a state that MarshalBinary encoded.
func (st *State) UnmarshalBinary(b []byte) error {
	if len(b) < stateHead || string(b[:len(stateMagic)]) != stateMagic ||
		binary.BigEndian.Uint32(b[len(stateMagic):]) != crc32.ChecksumIEEE(b[stateHead:]) {
		return fmt.Errorf("load shell: %w: wrong magic or checksum", atoll.ErrInvalid)
	}
	var d savedState
	if err := gob.NewDecoder(bytes.NewReader(b[stateHead:])).Decode(&d); err != nil {
		return fmt.Errorf("load shell: %w: %w", atoll.ErrInvalid, err)
	}
	if d.Version != stateVersion {
		return fmt.Errorf("load shell: %w: version %d, want %d", atoll.ErrInvalid, d.Version, stateVersion)
	}
	in := &interp{
		name0: d.Name, status: d.Status, opts: optSet(d.Opts), shopts: shoptSet(d.Shopts),
		dirs: d.Dirs, limits: d.Limits, last: d.Last,
	}
	for _, v := range d.Vars {
		if !isName(v.Name) {
			return fmt.Errorf("load shell: %w: variable %q", atoll.ErrInvalid, v.Name)
		}
	}
	in.importEnv(nil)
	in.restoreVars(d.Vars)
	in.setParams(d.Params)
	for name, text := range d.Aliases {
		in.setAlias(name, text)
	}
	for _, f := range d.Funcs {
		if err := in.loadFunction(f); err != nil {
			return fmt.Errorf("load shell: %w: function %s: %w", atoll.ErrInvalid, f.Name, err)
		}
	}
	in.loadTraps(d.Traps)
	for i, line := range d.History {
		in.charge(int64(len(line)))
		in.hist = &history{lines: d.History[:i+1], first: d.First}
	}
	for _, n := range d.Disabled {
		if in.disabled == nil {
			in.disabled = make(map[string]bool)
		}
		in.disabled[n] = true
	}
	for n, c := range d.Specs {
		in.setSpec(n, &completionSpec{c.Actions, c.Options, c.Wordlist, c.Function, c.Command, c.Glob, c.Filter, c.Prefix, c.Suffix, c.Words})
	}
	st.frozenState = &frozenState{in: in, dir: d.Dir, mask: d.Mask}
	return nil
}

// loadFunction defines a function from its source text.
func (in *interp) loadFunction(f savedFunc) error {
	file, err := syntax.Parse(f.Text, syntax.Options{ExtGlob: func() bool { return true }, Posix: false})
	if err != nil {
		return err
	}
	if len(file.Stmts) != 1 || len(file.Stmts[0].First.Cmds) != 1 {
		return atoll.ErrInvalid
	}
	d, ok := file.Stmts[0].First.Cmds[0].Body.(*syntax.FuncDecl)
	if !ok || d.Name != f.Name {
		return atoll.ErrInvalid
	}
	c := &compiler{source: f.Source}
	in.setFunction(&function{
		name: f.Name, body: c.cmd(d.Body), decl: d, source: f.Source, line: f.Line,
		export: f.Export, traced: f.Trace, readonly: f.Frozen,
	})
	return nil
}

func (in *interp) loadTraps(traps map[int]string) {
	for n, text := range traps {
		in.charge(int64(len(text)))
		switch s := kernel.Signal(n); s {
		case trapExit:
		case trapDebug:
			in.traps.debug = text
		case trapErr:
			in.traps.err = text
		case trapReturn:
			in.traps.ret = text
		default:
			if in.traps.signals == nil {
				in.traps.signals = make(map[kernel.Signal]string)
			}
			in.traps.signals[s] = text
		}
	}
}

// currentTime returns the sandbox's time; it works without a running command.
func (in *interp) currentTime() time.Time {
	switch {
	case in.p != nil:
		return in.p.Now()
	case in.sh != nil:
		return in.sh.kernel.Now()
	}
	return time.Now()
}
