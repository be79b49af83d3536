package shell

import (
	"sort"
	"strings"
)

func bAlias(in *interp, args []string) int {
	set, rest, ok := in.parseFlags(args, "p")
	if !ok {
		return 2
	}
	b := in.p.Out()
	line := func(name, text string) {
		if !in.optOn(optPosix) || set['p'] {
			b.WriteString("alias ")
		}
		b.WriteString(name + "=")
		writeSingle(b, text)
		b.WriteString("\n")
	}
	if len(rest) == 0 || set['p'] {
		names := make([]string, 0, len(in.alias.m))
		for n := range in.alias.m {
			names = append(names, n)
		}
		sort.Strings(names)
		for _, n := range names {
			line(n, in.alias.m[n])
		}
	}
	status := 0
	for _, a := range rest {
		name, text, assign := strings.Cut(a, "=")
		switch {
		case assign && name != "":
			if strings.ContainsAny(name, "/$`&|;()<> \t\n\"'\\") {
				in.errorf("alias: `%s': invalid alias name", name)
				status = 1
				continue
			}
			in.setAlias(cutOut(a, 0, len(name)), text)
		default:
			text, found := in.alias.get(a)
			if !found {
				in.errorf("alias: %s: not found", a)
				status = 1
				continue
			}
			line(a, text)
		}
	}
	return status
}

func bUnalias(in *interp, args []string) int {
	set, rest, ok := in.parseFlags(args, "a")
	if !ok {
		return 2
	}
	if set['a'] {
		for n := range in.alias.m {
			in.dropAlias(n)
		}
		return 0
	}
	if len(rest) == 0 {
		return in.reportUsage("unalias", "")
	}
	status := 0
	for _, n := range rest {
		if _, found := in.alias.get(n); !found {
			in.errorf("unalias: %s: not found", n)
			status = 1
			continue
		}
		in.dropAlias(n)
	}
	return status
}
