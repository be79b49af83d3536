package seccomp

import (
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/net/bpf"
)

// decide computes the result of the policy without a program.
func decide(m architecture, rules map[string]rule, nr uint32, args [6]uint64) uint32 {
	last := int32(0)
	for _, c := range calls {
		last = max(last, m.number(c))
		if m.number(c) < 0 || uint32(m.number(c)) != nr {
			continue
		}
		r, ok := rules[c.name]
		if !ok {
			return retAllow
		}
		for _, all := range r.when {
			if !slices.ContainsFunc(all, func(c cond) bool { return !c.holds(args) }) {
				return retAllow
			}
		}
		return retErrno | r.errno
	}
	if nr > uint32(last) {
		return retErrno | enosys
	}
	return retErrno | eperm
}

func (c cond) holds(args [6]uint64) bool {
	return slices.Contains(c.list, uint32(args[c.arg])&c.mask) != c.not
}

// loadProgram returns a function that runs a program over struct seccomp_data, whose words the VM
// reads as big-endian ones.
func loadProgram(t *testing.T, prog []byte) func(arch, nr uint32, args [6]uint64) uint32 {
	t.Helper()
	var code []bpf.Instruction
	for b := prog; len(b) > 0; b = b[8:] {
		code = append(code, bpf.RawInstruction{
			Op: binary.NativeEndian.Uint16(b), Jt: b[2], Jf: b[3], K: binary.NativeEndian.Uint32(b[4:]),
		}.Disassemble())
	}
	m, err := bpf.NewVM(code)
	if err != nil {
		t.Fatal(err)
	}
	return func(arch, nr uint32, args [6]uint64) uint32 {
		data := binary.BigEndian.AppendUint32(nil, nr)
		data = binary.BigEndian.AppendUint32(data, arch)
		data = append(data, make([]byte, 8)...)
		for _, a := range args {
			data = binary.BigEndian.AppendUint32(data, uint32(a))
			data = binary.BigEndian.AppendUint32(data, uint32(a>>32))
		}
		ret, err := m.Run(data)
		if err != nil {
			t.Fatal(err)
		}
		return uint32(ret)
	}
}

func TestProgramSaysWhatThePolicySays(t *testing.T) {
	edge := []uint64{
		0, 1, 2, 3, 5, 6, 10, 16, 17, 38, 40, 44, 58, 0x5412, 0x5413, 0x541b, 0x541c, 0x5423, 0x5401, 0x40000000, 0x10000000,
		0o4755, 0o2755, 0o6000, 0o755, 0o1777, 0o104755, 0o102644, 0x40, 0x400000, 0x410002, 0x242, 0x400040,
		0x1000000, 0x2000, 0x6000, 0x8000, 0x81a4, 0x1180, 0x7e020000, 0xffffffff, 0x20000, 0x20008, 0x40000, 1 << 32, 0xffffffff00005412, 0xffffffff00000028, 1<<63 | 1,
	}
	for arch, m := range architectures {
		for _, o := range []Options{{}, {Trace: true}, {Guest: true}} {
			rules := policyRules(o)
			prog, err := compileFilter(arch, rules, eperm)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(prog) / 8; n > 700 {
				t.Errorf("%s: a program of %d instructions", arch, n)
			}
			run := loadProgram(t, prog)
			check := func(nr uint32, args [6]uint64) {
				if got, want := run(m.audit, nr, args), decide(m, rules, nr, args); got != want {
					t.Fatalf("%s %+v: call %d %x: %#x, want %#x", arch, o, nr, args, got, want)
				}
			}
			r := rand.New(rand.NewPCG(1, 2))
			for nr := range uint32(600) {
				for range 200 {
					var args [6]uint64
					for i := range args {
						args[i] = edge[r.IntN(len(edge))]
					}
					check(nr, args)
				}
			}
			for _, nr := range []uint32{1 << 30, 1<<30 | 59, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
				check(nr, [6]uint64{})
			}
			if got := run(0x40000003, 1, [6]uint64{}); got != retKill { // i386
				t.Errorf("%s: a call of another architecture: %#x", arch, got)
			}
		}
	}
}

// TestProfileSaysWhatThePolicySays reads the engine's profile as libseccomp does: any matching
// entry of a call allows it.
func TestProfileSaysWhatThePolicySays(t *testing.T) {
	for _, o := range []Options{{}, {Guest: true, Trace: true}} {
		rules := policyRules(o)
		b, err := JSON(o)
		if err != nil {
			t.Fatal(err)
		}
		var p profile
		if err := json.Unmarshal(b, &p); err != nil {
			t.Fatal(err)
		}
		allows := func(name string, args [6]uint64) bool {
			return slices.ContainsFunc(p.Syscalls, func(e callEntry) bool {
				return e.Action == "SCMP_ACT_ALLOW" && slices.Contains(e.Names, name) && !slices.ContainsFunc(e.Args, func(a argEntry) bool {
					return args[a.Index]&a.Value != a.ValueTwo
				})
			})
		}
		for _, e := range p.Syscalls {
			var seen []int
			for _, a := range e.Args {
				if slices.Contains(seen, a.Index) {
					t.Errorf("%v compares an argument twice: Engines take that as either", e.Names)
				}
				seen = append(seen, a.Index)
			}
		}
		r := rand.New(rand.NewPCG(3, 4))
		for _, c := range calls {
			nr := uint32(c.amd64)
			if c.amd64 < 0 {
				continue
			}
			for range 500 {
				var args [6]uint64
				for i := range args {
					args[i] = []uint64{0, 1, 2, 6, 10, 16, 40, 0x5412, 0x5413, 0x541c, 0x5423, 0x2000, 0x10000000, uint64(r.Uint32()), 0xffffffff00005412, 0o4755, 0o2000, 0o104755, 0x40, 0x400000}[r.IntN(20)]
				}
				if got, want := allows(c.name, args), decide(architectures["amd64"], rules, nr, args) == retAllow; got != want {
					t.Fatalf("%+v: %s%x: allowed %v, want %v", o, c.name, args, got, want)
				}
			}
		}
	}
}

func TestCallsAreInOrder(t *testing.T) {
	if !slices.IsSortedFunc(calls, func(a, b call) int {
		if a.name < b.name {
			return -1
		}
		return 1
	}) {
		t.Error("calls are not sorted by name, or one stands there twice")
	}
	for name := range policyRules(Options{}) {
		if !slices.ContainsFunc(calls, func(c call) bool { return c.name == name }) {
			t.Errorf("a rule for %s, which has no number", name)
		}
	}
}
