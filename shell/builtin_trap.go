package shell

import (
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

func bTrap(in *interp, args []string) int {
	set, rest, ok := in.parseFlags(args, "lp")
	if !ok {
		return 2
	}
	if set['l'] {
		return in.print("trap", signalList())
	}
	if set['p'] || len(rest) == 0 {
		return in.printTraps(rest)
	}
	text, specs := rest[0], rest[1:]
	_, numeric := parseNumber(text)
	remove := text == "-"
	if len(specs) == 0 || numeric {
		if len(specs) == 0 && !numeric && len(rest) == 1 {
			if _, known := trapNamed(text); !known {
				return in.reportUsage("trap", "")
			}
		}
		specs, remove = rest, true
	}
	if remove {
		text = ""
	}
	status := 0
	for _, spec := range specs {
		if spec == "-" && remove {
			continue
		}
		s, known := trapNamed(spec)
		if !known {
			in.errorf("trap: %s: invalid signal specification", spec)
			status = 1
			continue
		}
		in.setTrap(s, text, remove)
	}
	return status
}

func (in *interp) printTraps(specs []string) int {
	t := &in.traps
	if t.shown != nil {
		t = t.shown
	}
	list := t.list()
	status := 0
	if len(specs) > 0 {
		list = nil
		for _, spec := range specs {
			s, known := trapNamed(spec)
			if !known {
				in.errorf("trap: %s: invalid signal specification", spec)
				status = 1
			} else if t.isSet(s) {
				list = append(list, s)
			}
		}
	}
	b := in.p.Out()
	for _, s := range list {
		b.WriteString("trap -- '" + strings.ReplaceAll(t.command(s), "'", `'\''`) + "' " + in.printedTrap(s) + "\n")
	}
	return status
}

// printedTrap returns the name of a trap as trap -p prints it.
func (in *interp) printedTrap(s kernel.Signal) string {
	if in.optOn(optPosix) {
		return strings.TrimPrefix(trapName(s), "SIG")
	}
	return trapName(s)
}
