package shell

import (
	"encoding/binary"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// dynID identifies a variable whose value is computed when it is read.
type dynID uint8

const (
	dynNone dynID = iota
	dynRandom
	dynSrandom
	dynSeconds
	dynLineno
	dynEpochSeconds
	dynEpochRealtime
	dynBashpid
	dynPpid
	dynSubshell
	dynCommand
	dynArgv0
	dynHistcmd
	dynShellopts
	dynBashopts
	dynHostname
	dynUnderscore
	dynWordbreaks
	dynFuncname
	dynBashSource
	dynBashLineno
	dynPipestatus
	dynDirstack
	dynGroups
	dynArgc
	dynArgv
	dynAliases
	dynCmds
)

// hookID identifies a variable whose changes affect the shell.
type hookID uint8

const (
	hookNone hookID = iota
	hookIFS
	hookOptind
	hookPath
	hookLocale
	hookPosix
	hookGlobignore
)

func hookOf(name string) hookID {
	switch name {
	case "IFS":
		return hookIFS
	case "OPTIND":
		return hookOptind
	case "PATH":
		return hookPath
	case "LC_ALL", "LC_CTYPE", "LANG":
		return hookLocale
	case "POSIXLY_CORRECT":
		return hookPosix
	case "GLOBIGNORE":
		return hookGlobignore
	}
	return hookNone
}

// specials returns the initial variables of every shell. They are shared and
// never changed; a shell copies one when it assigns to it.
var specials = sync.OnceValue(func() map[string]*variable {
	m := map[string]*variable{}
	value := func(name, s string, a attr) { m[name] = &variable{s: s, set: true, attrs: a, hook: hookOf(name)} }
	dynamic := func(name string, d dynID, a attr) { m[name] = &variable{dyn: d, set: true, attrs: a} }
	value("BASH", "/bin/bash", 0)
	value("BASH_VERSION", "5.2.15(1)-release", 0)
	value("HOSTTYPE", "x86_64", 0)
	value("MACHTYPE", "x86_64-pc-linux-gnu", 0)
	value("OSTYPE", "linux-gnu", 0)
	value("IFS", " \t\n", 0)
	value("OPTIND", "1", attrInteger)
	value("OPTERR", "1", 0)
	value("PS4", "+ ", 0)
	value("UID", "0", attrInteger|attrReadonly)
	value("EUID", "0", attrInteger|attrReadonly)
	value("BASH_LOADABLES_PATH", "/usr/local/lib/bash:/usr/lib/bash:/opt/local/lib/bash:/usr/pkg/lib/bash:/opt/pkg/lib/bash:.", 0)
	m["BASH_VERSINFO"] = &variable{
		set: true, attrs: attrArray | attrReadonly,
		arr: newArray([]string{"5", "2", "15", "1", "release", "x86_64-pc-linux-gnu"}),
	}
	dynamic("COMP_WORDBREAKS", dynWordbreaks, 0)
	dynamic("RANDOM", dynRandom, attrInteger)
	dynamic("SRANDOM", dynSrandom, attrInteger)
	dynamic("SECONDS", dynSeconds, 0)
	dynamic("LINENO", dynLineno, 0)
	dynamic("EPOCHSECONDS", dynEpochSeconds, 0)
	dynamic("EPOCHREALTIME", dynEpochRealtime, 0)
	dynamic("BASHPID", dynBashpid, attrInteger)
	dynamic("PPID", dynPpid, attrInteger|attrReadonly)
	dynamic("BASH_SUBSHELL", dynSubshell, 0)
	dynamic("BASH_COMMAND", dynCommand, 0)
	dynamic("BASH_ARGV0", dynArgv0, 0)
	dynamic("HISTCMD", dynHistcmd, attrInteger)
	dynamic("SHELLOPTS", dynShellopts, attrReadonly)
	dynamic("BASHOPTS", dynBashopts, attrReadonly)
	dynamic("HOSTNAME", dynHostname, 0)
	dynamic("_", dynUnderscore, 0)
	dynamic("FUNCNAME", dynFuncname, attrArray|attrNoSet)
	dynamic("BASH_SOURCE", dynBashSource, attrArray|attrNoSet|attrNoUnset)
	dynamic("BASH_LINENO", dynBashLineno, attrArray|attrNoSet|attrNoUnset)
	dynamic("PIPESTATUS", dynPipestatus, attrArray)
	dynamic("DIRSTACK", dynDirstack, attrArray)
	dynamic("GROUPS", dynGroups, attrArray|attrNoSet)
	dynamic("BASH_ARGC", dynArgc, attrArray|attrNoSet|attrNoUnset)
	dynamic("BASH_ARGV", dynArgv, attrArray|attrNoSet|attrNoUnset)
	dynamic("BASH_ALIASES", dynAliases, attrAssoc)
	dynamic("BASH_CMDS", dynCmds, attrAssoc)
	return m
})

func specialVar(name string) *variable {
	if name == "" {
		return nil
	}
	if c := name[0]; c != '_' && (c < 'A' || c > 'U') {
		return nil
	}
	return specials()[name]
}

func specialNames() []string {
	list := make([]string, 0, len(specials()))
	for name := range specials() {
		list = append(list, name)
	}
	sort.Strings(list)
	return list
}

// dynText returns the value of a dynamic variable.
func (in *interp) dynText(v *variable) (string, bool) {
	switch v.dyn {
	case dynRandom:
		return strconv.Itoa(in.nextRandom()), true
	case dynSrandom:
		var b [4]byte
		in.p.Rand(b[:])
		return strconv.FormatUint(uint64(binary.LittleEndian.Uint32(b[:])), 10), true
	case dynSeconds:
		now := in.p.Now()
		return strconv.FormatInt(now.Unix()-time.Unix(0, in.began).Unix()+v.n, 10), true
	case dynLineno:
		return strconv.Itoa(int(in.line)), true
	case dynEpochSeconds:
		return strconv.FormatInt(in.p.Now().Unix(), 10), true
	case dynEpochRealtime:
		now := in.p.Now()
		return fmt.Sprintf("%d.%06d", now.Unix(), now.Nanosecond()/1000), true
	case dynBashpid:
		return strconv.Itoa(in.p.PID()), true
	case dynPpid:
		return strconv.Itoa(in.shellPPID), true
	case dynSubshell:
		return strconv.Itoa(in.subshellLevel), true
	case dynCommand:
		return in.bashCommand(), true
	case dynArgv0:
		return in.name0, true
	case dynHistcmd:
		return "1", true
	case dynShellopts:
		return in.shellOptsValue(), true
	case dynBashopts:
		return in.bashOptsValue(), true
	case dynHostname:
		return in.p.Kernel().Hostname(), true
	case dynUnderscore:
		return in.last, true
	case dynWordbreaks:
		return " \t\n\"'><=;|&(:", true
	case dynAliases, dynCmds:
		return in.dynAssoc(v).get("0")
	}
	return in.dynArray(v).get(0)
}

// dynSet assigns to a dynamic variable; most ignore it.
func (in *interp) dynSet(v *variable, value string) {
	switch v.dyn {
	case dynRandom:
		in.seed, in.lastRand = uint32(in.evalText(value)), 0
	case dynSeconds:
		in.began, v.n = in.p.Now().UnixNano(), in.evalText(value)
	case dynArgv0:
		in.name0 = value
	case dynUnderscore:
		in.last = value
	case dynHostname, dynHistcmd, dynLineno, dynWordbreaks:
		v.dyn = 0
		in.setString(v, value)
	}
}

// nextRandom is bash's generator: the minimal standard generator of Park and
// Miller, its halves folded into 15 bits.
func (in *interp) nextRandom() int {
	for {
		r := in.seed
		if r == 0 {
			r = 123459876
		}
		h, l := int32(r/127773), int32(r%127773)
		t := 16807*l - 2836*h
		if t < 0 {
			t += 0x7fffffff
		}
		in.seed = uint32(t)
		n := uint32(t)>>16 ^ uint32(t)&0xffff
		if n &= 32767; n != in.lastRand {
			in.lastRand = n
			return int(n)
		}
	}
}

// dynArray returns the elements of a dynamic indexed array.
func (in *interp) dynArray(v *variable) *array {
	var list []string
	switch v.dyn {
	case dynFuncname, dynBashSource, dynBashLineno:
		list = in.callStack(v.dyn)
	case dynPipestatus:
		for _, s := range in.pipeStatus() {
			list = append(list, strconv.Itoa(s))
		}
	case dynDirstack:
		list = append([]string{in.p.Dir()}, in.dirs...)
	case dynGroups:
		list = []string{"0"}
	case dynArgc, dynArgv:
	default:
		return v.arr
	}
	return newArray(list)
}

// callStack lists the calls, the innermost first.
func (in *interp) callStack(d dynID) []string {
	var list []string
	if d == dynFuncname && len(in.frames) == 1 && in.frames[0].fn == "main" {
		return nil // a script outside of functions
	}
	for i := len(in.frames) - 1; i >= 0; i-- {
		switch f := in.frames[i]; d {
		case dynFuncname:
			list = append(list, f.fn)
		case dynBashSource:
			list = append(list, f.source)
		default:
			list = append(list, strconv.Itoa(int(f.line)))
		}
	}
	return list
}

// dynAssoc returns the elements of BASH_ALIASES or BASH_CMDS.
func (in *interp) dynAssoc(v *variable) *assoc {
	a := newAssoc()
	if v.dyn == dynAliases {
		for name, text := range in.alias.m {
			a.set(name, text)
		}
		return a
	}
	for name, h := range in.hash.m {
		a.set(name, h.path)
	}
	return a
}

// dynPut assigns to an element of BASH_ALIASES or BASH_CMDS.
func (in *interp) dynPut(v *variable, key, s string) {
	if v.dyn == dynAliases {
		in.setAlias(key, s)
		return
	}
	in.rememberPath(key, hashed{path: s})
}

// applyHook applies the new value of a variable that affects the shell.
func (in *interp) applyHook(v *variable) {
	switch v.hook {
	case hookIFS:
		s, ok := in.valueOf(v)
		in.ifs.reset(s, ok)
	case hookOptind:
		in.getopts.reset()
	case hookPath:
		in.hash = cow[hashed]{}
	case hookLocale:
		in.setLocale()
	case hookPosix:
		in.opts |= optPosix
	case hookGlobignore:
		if s, _ := in.valueOf(v); s != "" {
			in.shopts |= shDotglob
		} else {
			in.shopts &^= shDotglob
		}
	}
}

// revertHook applies that such a variable was unset or became visible again.
func (in *interp) revertHook(name string, hook hookID) {
	v := in.lookupVar(name)
	switch hook {
	case hookIFS:
		s, ok := in.valueOf(v)
		in.ifs.reset(s, ok)
	case hookPath:
		in.hash = cow[hashed]{}
	case hookLocale:
		in.setLocale()
	case hookPosix:
		if v == nil {
			in.opts &^= optPosix
		}
	case hookGlobignore:
		if v == nil {
			in.shopts &^= shDotglob
		}
	}
}

// setLocale determines whether characters are bytes.
func (in *interp) setLocale() {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if s := in.value(name); s != "" {
			in.bytes = !strings.Contains(strings.ToLower(s), "utf")
			return
		}
	}
	in.bytes = false
}
