package shell

import "strings"

// limit is a resource limit of ulimit.
type limit struct {
	letter byte
	text   string
	unit   string
	scale  int64
}

func limitTable() []limit {
	return []limit{
		{'R', "real-time non-blocking time", "microseconds, -R", 1},
		{'c', "core file size", "blocks, -c", 512},
		{'d', "data seg size", "kbytes, -d", 1024},
		{'e', "scheduling priority", "-e", 1},
		{'f', "file size", "blocks, -f", 1024},
		{'i', "pending signals", "-i", 1},
		{'l', "max locked memory", "kbytes, -l", 1024},
		{'m', "max memory size", "kbytes, -m", 1024},
		{'n', "open files", "-n", 1},
		{'p', "pipe size", "512 bytes, -p", 512},
		{'q', "POSIX message queues", "bytes, -q", 1},
		{'r', "real-time priority", "-r", 1},
		{'s', "stack size", "kbytes, -s", 1024},
		{'t', "cpu time", "seconds, -t", 1},
		{'u', "max user processes", "-u", 1},
		{'v', "virtual memory", "kbytes, -v", 1024},
		{'x', "file locks", "-x", 1},
	}
}

// limitValue returns the current limit in its unit; -1 means none.
func (in *interp) limitValue(l limit) int64 {
	if v, ok := in.limits[l.letter]; ok {
		return v
	}
	k := in.p.Kernel().Limits()
	switch l.letter {
	case 'n':
		return int64(k.Files)
	case 'u':
		return int64(k.Procs)
	case 'v', 'm':
		return k.Memory / l.scale
	case 'c', 'e', 'r':
		return 0
	case 'p':
		return 8
	case 's':
		return 8192
	}
	return -1
}

func limitText(v int64) string {
	if v < 0 {
		return "unlimited"
	}
	return itoa(int(v))
}

func bUlimit(in *interp, args []string) int {
	set, rest, ok := in.parseFlags(args, "SHabcdefiklmnpqrstuvxPRT")
	if !ok {
		return 2
	}
	if set['a'] {
		var b strings.Builder
		for _, l := range limitTable() {
			b.WriteString(padRight(l.text, 27) + padLeft("("+l.unit+")", 20) + " " + limitText(in.limitValue(l)) + "\n")
		}
		return in.print("ulimit", b.String())
	}
	which := limitTable()[4]
	for _, l := range limitTable() {
		if set[l.letter] {
			which = l
		}
	}
	if len(rest) == 0 {
		return in.print("ulimit", limitText(in.limitValue(which))+"\n")
	}
	v := int64(-1)
	if rest[0] != "unlimited" && rest[0] != "hard" && rest[0] != "soft" {
		n, valid := parseNumber(rest[0])
		if !valid || n < 0 {
			in.errorf("ulimit: %s: invalid number", rest[0])
			return 1
		}
		v = int64(n)
	}
	old := in.limitValue(which)
	if old >= 0 && (v < 0 || v > old) {
		in.errorf("ulimit: %s: cannot modify limit: Operation not permitted", which.text)
		return 1
	}
	in.setLimit(which.letter, v)
	return 0
}

func (in *interp) setLimit(letter byte, v int64) {
	m := make(map[byte]int64, len(in.limits)+1)
	for k, x := range in.limits {
		m[k] = x
	}
	m[letter] = v
	in.limits = m
}
