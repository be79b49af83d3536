package seccomp

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"

	"github.com/atoll-sandbox/atoll"
)

// x32Bit marks the calls of the x32 ABI, which have the numbers and the rights of others.
const x32Bit = 0x40000000

// SpecialFileFilter returns a filter that allows all calls but those that would make set-uid,
// set-gid and device files. It is for programs that write to directories of the host on behalf of a
// VM. Calls whose arguments a filter can't see look unimplemented.
func SpecialFileFilter() ([]byte, error) {
	m, ok := architectures[runtime.GOARCH]
	if !ok {
		return nil, fmt.Errorf("%w: no system call filter for %s", atoll.ErrUnsupported, runtime.GOARCH)
	}
	rules := policyRules(Options{})
	var restricted []segment
	for _, name := range []string{"chmod", "fchmod", "fchmodat", "fchmodat2", "creat", "open", "openat", "openat2", "mknod", "mknodat"} {
		i := slices.IndexFunc(calls, func(c call) bool { return c.name == name })
		if n := m.number(calls[i]); n >= 0 {
			s := segment{from: uint32(n), rule: rules[name]}
			if len(s.rule.when) > 0 {
				s.name = name
			}
			restricted = append(restricted, s)
		}
	}
	const ioUringSetup = 425 // of all architectures; its operations pass by every filter
	restricted = append(restricted, segment{from: ioUringSetup, rule: refuseWith(enosys)})
	slices.SortFunc(restricted, func(a, b segment) int { return cmp.Compare(a.from, b.from) })
	list := []segment{{from: 0, rule: always}}
	for _, s := range restricted {
		if last := len(list) - 1; list[last].from == s.from {
			list = list[:last] // nothing lies between
		}
		list = append(list, s, segment{from: s.from + 1, rule: always})
	}
	return assemble(m, append(list, segment{from: x32Bit, rule: refuseWith(enosys)}))
}
