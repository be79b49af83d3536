package seccomp

import (
	"encoding/json"
	"slices"
)

// profile is what the Engine reads: a part of its form.
type profile struct {
	DefaultAction string      `json:"defaultAction"`
	ArchMap       []archEntry `json:"archMap"`
	Syscalls      []callEntry `json:"syscalls"`
}

type archEntry struct {
	Architecture string `json:"architecture"`
}

type callEntry struct {
	Names    []string   `json:"names"`
	Action   string     `json:"action"`
	Args     []argEntry `json:"args,omitempty"`
	ErrnoRet *uint32    `json:"errnoRet,omitempty"`
}

type argEntry struct {
	Index    int    `json:"index"`
	Value    uint64 `json:"value"`
	ValueTwo uint64 `json:"valueTwo"`
	Op       string `json:"op"`
}

// JSON returns the policy as a seccomp profile of Docker's and Podman's Engine,
// for every architecture that there is a policy for.
func JSON(o Options) ([]byte, error) {
	rules := rules(o)
	p := profile{DefaultAction: "SCMP_ACT_ERRNO"}
	for _, a := range []string{"SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"} {
		p.ArchMap = append(p.ArchMap, archEntry{a})
	}
	free := callEntry{Action: "SCMP_ACT_ALLOW"}
	for _, c := range calls {
		r, ok := rules[c.name]
		switch {
		case !ok || r.plain():
			free.Names = append(free.Names, c.name)
		case len(r.when) == 0 && r.errno != eperm:
			p.Syscalls = append(p.Syscalls, callEntry{Names: []string{c.name}, Action: "SCMP_ACT_ERRNO", ErrnoRet: &r.errno})
		}
		for _, all := range r.when {
			for _, args := range combine(all) {
				if len(args) > 0 {
					p.Syscalls = append(p.Syscalls, callEntry{Names: []string{c.name}, Action: "SCMP_ACT_ALLOW", Args: args})
				}
			}
		}
	}
	p.Syscalls = append(p.Syscalls, free)
	return json.Marshal(p)
}

// combine returns the combinations of masked values for which all conditions
// are true. The Engine takes one comparison of an argument in each entry.
func combine(all []cond) [][]argEntry {
	list := [][]argEntry{nil}
	for _, c := range all {
		var next [][]argEntry
		for _, have := range list {
			for _, e := range c.entries() {
				next = append(next, append(slices.Clone(have), e))
			}
		}
		list = next
	}
	return list
}

// entries returns what an argument may be equal to, masked: any of them.
func (c cond) entries() []argEntry {
	entry := func(mask, value uint32) argEntry {
		return argEntry{c.arg, uint64(mask), uint64(value), "SCMP_CMP_MASKED_EQ"}
	}
	var list []argEntry
	if !c.not {
		for _, v := range c.list {
			list = append(list, entry(c.mask, v))
		}
		return list
	}
	// What is not in the list differs from all of it in a first bit.
	var split func(mask, prefix uint32, bit int)
	split = func(mask, prefix uint32, bit int) {
		if !slices.ContainsFunc(c.list, func(v uint32) bool { return v&mask == prefix }) {
			list = append(list, entry(mask, prefix))
			return
		}
		if bit < 0 {
			return
		}
		mask |= 1 << bit
		split(mask, prefix, bit-1)
		split(mask, prefix|1<<bit, bit-1)
	}
	split(0, 0, 31)
	return list
}
