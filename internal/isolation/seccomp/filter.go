package seccomp

import (
	"encoding/binary"
	"fmt"
	"runtime"

	"github.com/atoll-sandbox/atoll"
)

// Results of a filter.
const (
	retAllow = 0x7fff0000
	retErrno = 0x00050000
	retKill  = 0x80000000
)

// Opcodes of the instructions that are used.
const (
	opLoad    = 0x20 // a word of struct seccomp_data
	opAnd     = 0x54
	opJump    = 0x05 // unconditional
	opEqual   = 0x15
	opAtLeast = 0x35 // jt when the accumulator is at least k
	opReturn  = 0x06
)

// Offsets in struct seccomp_data, on little-endian hosts.
const (
	atNumber = 0
	atArch   = 4
	atArgs   = 16
)

// architecture describes a processor architecture.
type architecture struct {
	audit  uint32 // AUDIT_ARCH constant
	number func(call) int32
}

var architectures = map[string]architecture{
	"amd64": {0xc000003e, func(c call) int32 { return c.amd64 }},
	"arm64": {0xc00000b7, func(c call) int32 { return c.arm64 }},
}

// Filter returns the policy as an array of struct sock_filter for this host. Calls of another
// architecture kill the process, since their numbers mean other calls.
func Filter(o Options) ([]byte, error) { return compileFilter(runtime.GOARCH, policyRules(o), eperm) }

// insn is struct sock_filter.
type insn struct {
	op     uint16
	jt, jf uint8
	k      uint32
}

// compileFilter compiles rules to a program. Calls that the package does not know fail with refuse.
func compileFilter(arch string, rules map[string]rule, refuse uint32) ([]byte, error) {
	m, ok := architectures[arch]
	if !ok {
		return nil, fmt.Errorf("%w: no system call filter for %s", atoll.ErrUnsupported, arch)
	}
	return assemble(m, buildSegments(m, rules, refuse))
}

// assemble returns the program for segments of all call numbers, in order.
func assemble(m architecture, list []segment) ([]byte, error) {
	tree, err := buildSearch(list)
	if err != nil {
		return nil, err
	}
	prog := append([]insn{
		{op: opLoad, k: atArch},
		{op: opEqual, jt: 1, k: m.audit},
		{op: opReturn, k: retKill},
		{op: opLoad, k: atNumber},
	}, tree...)
	var b []byte
	for _, i := range prog {
		b = binary.NativeEndian.AppendUint16(b, i.op)
		b = append(b, i.jt, i.jf)
		b = binary.NativeEndian.AppendUint32(b, i.k)
	}
	return b, nil
}

// segment is a range of call numbers, up to the next segment, that have the same result.
type segment struct {
	from uint32
	name string // of the call, if its rule depends on arguments
	rule rule
}

// buildSegments returns the segments of all call numbers, in order.
func buildSegments(m architecture, rules map[string]rule, refuse uint32) []segment {
	byNumber := make(map[uint32]segment)
	last := uint32(0)
	for _, c := range calls {
		n := m.number(c)
		if n < 0 {
			continue
		}
		s := segment{from: uint32(n), rule: always}
		if r, ok := rules[c.name]; ok {
			s.rule = r
			if len(r.when) > 0 && !r.alwaysAllows() {
				s.name = c.name
			}
		}
		byNumber[s.from] = s
		last = max(last, s.from)
	}
	var list []segment
	for n := uint32(0); n <= last+1; n++ {
		s, ok := byNumber[n]
		switch {
		case n > last:
			s = segment{from: n, rule: refuseWith(enosys)} // newer numbers, and those of x32
		case !ok:
			s = segment{from: n, rule: refuseWith(refuse)}
		}
		if len(list) > 0 && s.sameOutcome(list[len(list)-1]) {
			continue
		}
		list = append(list, s)
	}
	return list
}

func (s segment) sameOutcome(o segment) bool {
	return s.name == "" && o.name == "" && s.rule.alwaysAllows() == o.rule.alwaysAllows() && s.rule.errno == o.rule.errno
}

// buildSearch compiles a binary search for the call number, which is in the accumulator; its leaves
// end the program.
func buildSearch(list []segment) ([]insn, error) {
	if len(list) == 1 {
		return buildLeaf(list[0])
	}
	half := len(list) / 2
	left, err := buildSearch(list[:half])
	if err != nil {
		return nil, err
	}
	right, err := buildSearch(list[half:])
	if err != nil {
		return nil, err
	}
	branch := []insn{{op: opAtLeast, jt: uint8(len(left)), k: list[half].from}}
	if len(left) > 255 {
		branch = []insn{{op: opAtLeast, jf: 1, k: list[half].from}, {op: opJump, k: uint32(len(left))}}
	}
	return append(append(branch, left...), right...), nil
}

// buildLeaf compiles the result of one segment.
func buildLeaf(s segment) ([]insn, error) {
	if s.name == "" {
		if s.rule.alwaysAllows() {
			return []insn{{op: opReturn, k: retAllow}}, nil
		}
		return []insn{{op: opReturn, k: s.rule.refusal()}}, nil
	}
	var code []insn
	for _, all := range s.rule.when {
		var one []insn
		for _, c := range all {
			one = append(one, c.compileTest()...)
		}
		one = append(one, insn{op: opReturn, k: retAllow})
		if len(one) > 255 {
			return nil, fmt.Errorf("%w: the rule of %s is too long", atoll.ErrInvalid, s.name)
		}
		for i := range one { // a failed condition continues with the next alternative
			if one[i].op == opEqual && one[i].jt == elsewhere {
				one[i].jt = uint8(len(one) - i - 1)
			}
			if one[i].op == opEqual && one[i].jf == elsewhere {
				one[i].jf = uint8(len(one) - i - 1)
			}
		}
		code = append(code, one...)
	}
	return append(code, insn{op: opReturn, k: s.rule.refusal()}), nil
}

// refusal returns the result of a filter if no alternative of the rule holds.
func (r rule) refusal() uint32 {
	if r.errno == killsProcess {
		return retKill
	}
	return retErrno | r.errno
}

// elsewhere marks a jump to the next alternative, before its distance is known.
const elsewhere = 255

// compileTest compiles a condition; if it is false, the code jumps to the next alternative.
func (c cond) compileTest() []insn {
	code := []insn{{op: opLoad, k: uint32(atArgs + 8*c.arg)}}
	if c.mask != low {
		code = append(code, insn{op: opAnd, k: c.mask})
	}
	for i, v := range c.list {
		left := len(c.list) - i - 1
		switch {
		case c.not:
			code = append(code, insn{op: opEqual, jt: elsewhere, k: v})
		case left == 0:
			code = append(code, insn{op: opEqual, jf: elsewhere, k: v})
		default:
			code = append(code, insn{op: opEqual, jt: uint8(left), k: v})
		}
	}
	return code
}
