package shell

import "strings"

const version = `GNU bash, version 5.2.15(1)-release (x86_64-pc-linux-gnu)
A shell of that language, in a virtual sandbox.
`

// parseInvocation parses the command line of a shell. done is set when there
// is nothing to run; the shell then exits with status.
func (in *interp) parseInvocation(args []string) (inv invocation, status int, done bool) {
	i := 1
	for ; i < len(args); i++ {
		a := args[i]
		if len(a) < 2 || a[0] != '-' && a[0] != '+' {
			if a == "-" {
				i++
			}
			break
		}
		if a == "--" {
			i++
			break
		}
		if strings.HasPrefix(a, "--") {
			next := ""
			if i+1 < len(args) {
				next = args[i+1]
			}
			skip, st, end := in.longOption(a, next, &inv)
			if end {
				return inv, st, true
			}
			i += skip
			continue
		}
		used, bad := in.shortOptions(args[i:], &inv)
		if bad != 0 {
			in.writeStderr(in.name0 + ": " + a[:1] + string(bad) + ": invalid option\n")
			return inv, 2, true
		}
		if used < 0 {
			return inv, 2, true
		}
		i += used
	}
	inv.rest = args[min(i, len(args)):]
	if inv.isC {
		if len(inv.rest) == 0 {
			in.writeStderr(in.name0 + ": -c: option requires an argument\n")
			return inv, 2, true
		}
		inv.command, inv.rest = inv.rest[0], inv.rest[1:]
	}
	return inv, 0, false
}

// longOption handles an option that begins with two dashes; skip is 1 if it
// uses the argument next.
func (in *interp) longOption(a, next string, inv *invocation) (skip, status int, done bool) {
	switch a {
	case "--posix":
		in.setOption(optPosix, true)
	case "--login":
		in.shopts |= shLoginShell
	case "--verbose":
		in.opts |= optVerbose
	case "--noprofile":
		inv.noProfile = true
	case "--norc":
		inv.noRC = true
	case "--noediting", "--restricted", "--debugger":
	case "--rcfile", "--init-file":
		inv.rc = next
		return 1, 0, false
	case "--version":
		return 0, in.print(in.name0, version), true
	case "--help":
		text := version + "Usage:\t" + in.name0 + " [GNU long option] [option] ...\n\t" + in.name0 +
			" [GNU long option] [option] script-file ...\n" +
			"Shell options: -abefhkmnptuvxBCEHPT, -o option, -O shopt_option, -c command, -s, -i, -l\n" +
			"Long options: --posix --login --norc --noprofile --rcfile --verbose --version --help\n"
		return 0, in.print(in.name0, text), true
	default:
		in.writeStderr(in.name0 + ": " + a + ": invalid option\n")
		return 0, 2, true
	}
	return 0, 0, false
}

// shortOptions parses a cluster such as -euxc. It returns how many further
// arguments the cluster uses, or -1 after it has printed an error, and an
// unknown letter.
func (in *interp) shortOptions(args []string, inv *invocation) (used int, bad byte) {
	a, on := args[0], args[0][0] == '-'
	for j := 1; j < len(a); j++ {
		switch c := a[j]; c {
		case 'c':
			inv.isC = true
		case 's':
			inv.stdin = true
		case 'i':
			in.shopts |= shExpandAliases
		case 'l':
			in.shopts |= shLoginShell
		case 'D', 'r':
		case 'o', 'O':
			used++
			if used >= len(args) {
				return used - 1, in.listOptionsFor(c, on)
			}
			if !in.namedOption(c, args[used], on) {
				return -1, 0
			}
		default:
			o, ok := optLetter(c)
			if !ok {
				return 0, c
			}
			in.setOption(o, on)
		}
	}
	return used, 0
}

// listOptionsFor prints the options when -o or -O has no argument.
func (in *interp) listOptionsFor(c byte, on bool) byte {
	if c == 'o' {
		_ = in.listOpts(on)
	} else {
		_ = in.listShopts(map[byte]bool{'p': !on})
	}
	return 0
}

// namedOption sets an option by its name: of set -o for 'o', else of shopt.
func (in *interp) namedOption(c byte, name string, on bool) bool {
	if c == 'o' {
		o, ok := optNamed(name)
		if !ok {
			in.writeStderr(in.name0 + ": " + name + ": invalid option name\n")
			return false
		}
		in.setOption(o, on)
		return true
	}
	o, ok := shoptNamed(name)
	switch {
	case !ok:
		in.writeStderr(in.name0 + ": " + name + ": invalid shell option name\n")
		return false
	case on:
		in.shopts |= o
	default:
		in.shopts &^= o
	}
	return true
}
