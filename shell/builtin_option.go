package shell

import (
	"sort"
	"strings"
)

// optNames are the names of the options of set -o, in the order of their bits.
const optNames = "allexport braceexpand emacs errexit errtrace functrace hashall histexpand history ignoreeof " +
	"interactive-comments keyword monitor noclobber noexec noglob nolog notify nounset onecmd physical pipefail " +
	"posix privileged verbose vi xtrace"

// shoptNames are the names of the options of shopt, in the order of their bits.
const shoptNames = "autocd assoc_expand_once cdable_vars cdspell checkhash checkjobs checkwinsize cmdhist compat31 compat32 " +
	"compat40 compat41 compat42 compat43 compat44 complete_fullquote direxpand dirspell dotglob execfail expand_aliases " +
	"extdebug extglob extquote failglob force_fignore globasciiranges globskipdots globstar gnu_errfmt histappend histreedit " +
	"histverify hostcomplete huponexit inherit_errexit interactive_comments lastpipe lithist localvar_inherit localvar_unset " +
	"login_shell mailwarn no_empty_cmd_completion nocaseglob nocasematch noexpand_translation nullglob patsub_replacement " +
	"progcomp progcomp_alias promptvars restricted_shell shift_verbose sourcepath varredir_close xpg_echo"

// setLetters are the option letters of set, in the order of $-.
var setLetters = [...]struct {
	letter byte
	opt    optSet
}{
	{'a', optAllexport},
	{'b', optNotify},
	{'e', optErrexit},
	{'f', optNoglob},
	{'h', optHashall},
	{'k', optKeyword},
	{'m', optMonitor},
	{'n', optNoexec},
	{'p', optPrivileged},
	{'t', optOnecmd},
	{'u', optNounset},
	{'v', optVerbose},
	{'x', optXtrace},
	{'B', optBraceexpand},
	{'C', optNoclobber},
	{'E', optErrtrace},
	{'H', optHistexpand},
	{'P', optPhysical},
	{'T', optFunctrace},
}

func optNamed(name string) (optSet, bool) {
	for i, n := range strings.Fields(optNames) {
		if n == name {
			return 1 << i, true
		}
	}
	return 0, false
}

func shoptNamed(name string) (shoptSet, bool) {
	for i, n := range strings.Fields(shoptNames) {
		if n == name {
			return 1 << i, true
		}
	}
	return 0, false
}

func optLetter(c byte) (optSet, bool) {
	for _, l := range setLetters {
		if l.letter == c {
			return l.opt, true
		}
	}
	return 0, false
}

// optString returns the value of $-.
func (in *interp) optString() string {
	var b []byte
	for _, l := range setLetters {
		if in.optOn(l.opt) {
			b = append(b, l.letter)
		}
		if l.letter == 'h' && in.interactive != nil {
			b = append(b, 'i')
		}
	}
	switch {
	case in.interactive != nil:
		b = append(b, 's')
	case in.fromStdin:
		b = append(b, 's')
	case len(in.frames) == 0 || in.frames[0].fn != "main":
		b = append(b, 'c')
	}
	return string(b)
}

// shellOptsValue returns the value of SHELLOPTS.
func (in *interp) shellOptsValue() string {
	var on []string
	for i, n := range strings.Fields(optNames) {
		if in.optOn(1 << i) {
			on = append(on, n)
		}
	}
	return strings.Join(on, ":")
}

// bashOptsValue returns the value of BASHOPTS.
func (in *interp) bashOptsValue() string {
	var on []string
	for i, n := range strings.Fields(shoptNames) {
		if in.shoptOn(1 << i) {
			on = append(on, n)
		}
	}
	sort.Strings(on)
	return strings.Join(on, ":")
}

// setOption sets an option of set and the options that depend on it.
func (in *interp) setOption(o optSet, on bool) {
	if on {
		in.opts |= o
	} else {
		in.opts &^= o
	}
	switch {
	case o == optPosix && on:
		in.shopts |= shInheritErrexit | shShiftVerbose | shSourcepath | shExpandAliases
	case o == optPosix:
		in.shopts &^= shInheritErrexit | shShiftVerbose | shExpandAliases
	case o == optVi && on:
		in.opts &^= optEmacs
	case o == optEmacs && on:
		in.opts &^= optVi
	}
}

func bSet(in *interp, args []string) int {
	if len(args) == 1 {
		return in.print("set", in.setText())
	}
	for i := 1; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			in.setParams(args[i+1:])
			return 0
		case a == "-":
			in.opts &^= optXtrace | optVerbose
			if i+1 < len(args) {
				in.setParams(args[i+1:])
			}
			return 0
		case a == "+":
			return 0
		case a == "" || a[0] != '-' && a[0] != '+':
			in.setParams(args[i:])
			return 0
		}
		used, status := in.setFlags(args[i:])
		if status >= 0 {
			return status
		}
		i += used
	}
	return 0
}

// setFlags handles a cluster such as -euo. It returns how many further
// arguments the cluster uses, and a status if the builtin is to end, else -1.
func (in *interp) setFlags(args []string) (used, status int) {
	a := args[0]
	on := a[0] == '-'
	for j := 1; j < len(a); j++ {
		if a[j] == 'o' {
			if used+1 >= len(args) {
				return used, in.listOpts(on)
			}
			used++
			o, ok := optNamed(args[used])
			if !ok {
				in.errorf("set: %s: invalid option name", args[used])
				return used, 2
			}
			in.setOption(o, on)
			continue
		}
		o, ok := optLetter(a[j])
		if !ok {
			in.errorf("set: %c%c: invalid option", a[0], a[j])
			return used, in.reportUsage("set", "")
		}
		in.setOption(o, on)
	}
	return used, -1
}

// listOpts prints the output of `set -o` (human) or `set +o`.
func (in *interp) listOpts(human bool) int {
	var b strings.Builder
	for i, n := range strings.Fields(optNames) {
		b.WriteString(optLine(n, in.optOn(1<<i), human))
	}
	return in.print("set", b.String())
}

func optLine(name string, on, human bool) string {
	switch {
	case human && on:
		return padRight(name, 15) + "\ton\n"
	case human:
		return padRight(name, 15) + "\toff\n"
	case on:
		return "set -o " + name + "\n"
	}
	return "set +o " + name + "\n"
}

func padRight(s string, n int) string { return s + strings.Repeat(" ", max(0, n-len(s))) }

// setText returns the variables and functions as set prints them.
func (in *interp) setText() string {
	var b strings.Builder
	b.WriteString(in.variablesText())
	if !in.optOn(optPosix) {
		for _, name := range in.functionNames() {
			f, _ := in.funcs.get(name)
			b.WriteString(printFunction(f) + "\n")
		}
	}
	return b.String()
}

func bShopt(in *interp, args []string) int {
	set, names, ok := in.parseFlags(args, "suqpo")
	if !ok {
		return 2
	}
	if set['s'] && set['u'] {
		in.errorf("shopt: cannot set and unset shell options simultaneously")
		return 1
	}
	if set['o'] {
		return in.shoptO(set, names)
	}
	if len(names) == 0 {
		return in.listShopts(set)
	}
	status := 0
	b := in.p.Out()
	for _, n := range names {
		o, known := shoptNamed(n)
		if !known {
			in.errorf("shopt: %s: invalid shell option name", n)
			status = 1
			continue
		}
		switch {
		case set['s']:
			in.shopts |= o
		case set['u']:
			in.shopts &^= o
		default:
			if !in.shoptOn(o) {
				status = 1
			}
			if !set['q'] {
				b.WriteString(shoptLine(n, in.shoptOn(o), set['p']))
			}
		}
	}
	return status
}

func shoptLine(name string, on, reusable bool) string {
	switch {
	case reusable && on:
		return "shopt -s " + name + "\n"
	case reusable:
		return "shopt -u " + name + "\n"
	case on:
		return padRight(name, 15) + "\ton\n"
	}
	return padRight(name, 15) + "\toff\n"
}

func (in *interp) listShopts(set map[byte]bool) int {
	names := strings.Fields(shoptNames)
	var b strings.Builder
	for i, n := range names {
		on := in.shoptOn(1 << i)
		if set['s'] && !on || set['u'] && on || set['q'] {
			continue
		}
		b.WriteString(shoptLine(n, on, set['p']))
	}
	return in.print("shopt", b.String())
}

// shoptO implements shopt -o, which handles the options of set.
func (in *interp) shoptO(set map[byte]bool, names []string) int {
	b := in.p.Out()
	if len(names) == 0 {
		for i, n := range strings.Fields(optNames) {
			on := in.optOn(1 << i)
			if set['s'] && !on || set['u'] && on || set['q'] {
				continue
			}
			b.WriteString(optLine(n, on, !set['p']))
		}
		return 0
	}
	status := 0
	for _, n := range names {
		o, known := optNamed(n)
		switch {
		case !known:
			in.errorf("shopt: %s: invalid option name", n)
			status = 1
		case set['s'] || set['u']:
			in.setOption(o, set['s'])
		default:
			if !in.optOn(o) {
				status = 1
			}
			if !set['q'] {
				b.WriteString(optLine(n, in.optOn(o), !set['p']))
			}
		}
	}
	return status
}

func bEnable(in *interp, args []string) int {
	set, names, ok := in.parseFlags(args, "adnpsf")
	if !ok {
		return 2
	}
	if set['f'] || set['d'] {
		in.errorf("enable: dynamic loading not available")
		return 1
	}
	if len(names) == 0 {
		var b strings.Builder
		list := builtinNames()
		for _, n := range list {
			off := in.disabled[n]
			if set['s'] && !isSpecial(n) {
				continue
			}
			switch {
			case off && (set['n'] || set['a']):
				b.WriteString("enable -n " + n + "\n")
			case !off && !set['n']:
				b.WriteString("enable " + n + "\n")
			}
		}
		return in.print("enable", b.String())
	}
	status := 0
	for _, n := range names {
		if findDoc(n) == nil {
			in.errorf("enable: %s: not a shell builtin", n)
			status = 1
			continue
		}
		m := make(map[string]bool, len(in.disabled)+1)
		for k, v := range in.disabled {
			m[k] = v
		}
		delete(m, n)
		if set['n'] {
			m[n] = true
		}
		in.disabled = m
	}
	return status
}

// builtinNames returns the names of all builtins, sorted.
func builtinNames() []string {
	var list []string
	for i := range builtinDocs().list {
		list = append(list, builtinDocs().list[i].name)
	}
	sort.Strings(list)
	return list
}

func bUmask(in *interp, args []string) int {
	set, rest, ok := in.parseFlags(args, "pS")
	if !ok {
		return 2
	}
	if len(rest) == 0 {
		text := formatOctalMask(in.p.Umask())
		if set['S'] {
			text = formatSymbolicMask(in.p.Umask())
		}
		if set['p'] {
			opt := "umask "
			if set['S'] {
				opt = "umask -S "
			}
			text = opt + text
		}
		return in.print("umask", text+"\n")
	}
	mask, problem := parseMask(rest[0], in.p.Umask())
	if problem != "" {
		in.errorf("umask: %s", problem)
		return 1
	}
	in.p.SetUmask(mask)
	if set['S'] {
		return in.print("umask", formatSymbolicMask(mask)+"\n")
	}
	return 0
}

func formatOctalMask(m uint32) string {
	return string([]byte{'0', '0' + byte(m>>6&7), '0' + byte(m>>3&7), '0' + byte(m&7)})
}

func formatSymbolicMask(m uint32) string {
	var parts []string
	for i, who := range []string{"u", "g", "o"} {
		bits := ^m >> (6 - 3*i) & 7
		s := who + "="
		for k, c := range "rwx" {
			if bits&(4>>k) != 0 {
				s += string(c)
			}
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, ",")
}

// parseMask parses an octal or symbolic umask; problem describes an error.
func parseMask(s string, old uint32) (mask uint32, problem string) {
	if s == "" || s[0] < '0' || s[0] > '9' {
		allowed := ^old & 0o777
		for _, clause := range strings.Split(s, ",") {
			if allowed, problem = maskClause(clause, allowed); problem != "" {
				return 0, problem
			}
		}
		return ^allowed & 0o777, ""
	}
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '7' || len(s) > 8 {
			return 0, s + ": octal number out of range"
		}
		mask = mask<<3 | uint32(s[i]-'0')
	}
	if mask > 0o7777 {
		return 0, s + ": octal number out of range"
	}
	return mask & 0o777, ""
}

// maskClause applies a clause such as u+rw to the allowed permissions.
func maskClause(clause string, allowed uint32) (result uint32, problem string) {
	who, i := uint32(0), 0
	for ; i < len(clause) && strings.IndexByte("ugoa", clause[i]) >= 0; i++ {
		who |= map[byte]uint32{'u': 0o700, 'g': 0o070, 'o': 0o007, 'a': 0o777}[clause[i]]
	}
	if who == 0 {
		who = 0o777
	}
	if i == len(clause) || strings.IndexByte("=+-", clause[i]) < 0 {
		bad := ""
		if i < len(clause) {
			bad = clause[i : i+1]
		}
		return 0, "`" + bad + "': invalid symbolic mode operator"
	}
	op, bits := clause[i], uint32(0)
	for _, c := range clause[i+1:] {
		switch c {
		case 'r':
			bits |= 0o444
		case 'w':
			bits |= 0o222
		case 'x', 'X':
			bits |= 0o111
		case 's', 't':
		case 'u':
			bits |= allowed >> 6 & 7 * 0o111
		case 'g':
			bits |= allowed >> 3 & 7 * 0o111
		case 'o':
			bits |= allowed & 7 * 0o111
		default:
			return 0, "`" + string(c) + "': invalid symbolic mode character"
		}
	}
	switch op {
	case '=':
		allowed = allowed&^who | bits&who
	case '+':
		allowed |= bits & who
	default:
		allowed &^= bits & who
	}
	return allowed, ""
}
