package seccomp

import (
	"encoding/json"
	"slices"
)

// profile is the part of a container engine's seccomp profile that is used here.
type profile struct {
	DefaultAction string      `json:"defaultAction"`
	ArchMap       []archEntry `json:"archMap"`
	Syscalls      []callEntry `json:"syscalls"`
}

type archEntry struct {
	Architecture     string   `json:"architecture"`
	SubArchitectures []string `json:"subArchitectures,omitempty"`
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

// JSON returns the policy as a seccomp profile for Docker and Podman, for all supported
// architectures.
func JSON(o Options) ([]byte, error) {
	rules := policyRules(o)
	p := profile{DefaultAction: "SCMP_ACT_ERRNO"}
	// Without x32, which has the same architecture for the kernel, libseccomp kills a thread that makes
	// one of its calls. The same rules apply to it; the filter of commands refuses them all.
	p.ArchMap = []archEntry{{"SCMP_ARCH_X86_64", []string{"SCMP_ARCH_X32"}}, {"SCMP_ARCH_AARCH64", nil}}
	free := callEntry{Action: "SCMP_ACT_ALLOW"}
	for _, c := range calls {
		r, ok := rules[c.name]
		switch {
		case !ok || r.alwaysAllows():
			free.Names = append(free.Names, c.name)
		case len(r.when) == 0 && r.errno != eperm:
			p.Syscalls = append(p.Syscalls, callEntry{Names: []string{c.name}, Action: "SCMP_ACT_ERRNO", ErrnoRet: &r.errno})
		}
		for _, all := range r.when {
			for _, args := range combineConditions(all) {
				if len(args) > 0 {
					p.Syscalls = append(p.Syscalls, callEntry{Names: []string{c.name}, Action: "SCMP_ACT_ALLOW", Args: args})
				}
			}
		}
	}
	p.Syscalls = append(p.Syscalls, free)
	return json.Marshal(p)
}

// combineConditions returns the combinations of masked values for which all conditions hold. The
// engine accepts one comparison of each argument in an entry.
func combineConditions(all []cond) [][]argEntry {
	list := [][]argEntry{nil}
	for _, c := range all {
		var next [][]argEntry
		for _, have := range list {
			for _, e := range c.listEntries() {
				next = append(next, append(slices.Clone(have), e))
			}
		}
		list = next
	}
	return list
}

// listEntries returns the masked values that an argument may have, as alternatives.
func (c cond) listEntries() []argEntry {
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
	// A value that is not in the list differs from all values of it in some first bit.
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
