package shell

import (
	"errors"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/vfs"
)

// mapfileCall is a call of mapfile.
type mapfileCall struct {
	in       *interp
	cmd      string
	delim    byte
	strip    bool
	count    int
	origin   int64
	keep     bool // -O: the old elements remain
	skip     int
	fd       int
	callback string
	quantum  int
	name     string
	line     []byte // buffer of growScratch
}

func bMapfile(in *interp, args []string) int {
	m := &mapfileCall{in: in, cmd: args[0], delim: '\n', quantum: 5000, name: "MAPFILE"}
	if st := m.parseOptions(args); st != 0 {
		return st
	}
	v, r, ok := in.find(ref{name: m.name})
	switch {
	case !isName(m.name):
		in.errorf("%s: `%s': not a valid identifier", m.cmd, m.name)
		return 1
	case !ok || r.sub != nil:
		return 1
	case in.p.FD(m.fd) == nil:
		in.errorf("%s: %d: invalid file descriptor: Bad file descriptor", m.cmd, m.fd)
		return 1
	case v != nil && v.attrs&attrReadonly != 0:
		in.errorf("%s: readonly variable", r.name)
		return 1
	case v != nil && v.attrs&attrAssoc != 0:
		in.errorf("%s: %s: not an indexed array", m.cmd, r.name)
		return 1
	}
	m.name = r.name
	return m.read()
}

func (m *mapfileCall) parseOptions(args []string) int {
	i := 1
	for ; i < len(args) && len(args[i]) > 1 && args[i][0] == '-'; i++ {
		if args[i] == "--" {
			i++
			break
		}
		for j := 1; j < len(args[i]); j++ {
			c := args[i][j]
			if c == 't' {
				m.strip = true
				continue
			}
			if strings.IndexByte("dnOsuCc", c) < 0 {
				return m.in.reportUsage(m.cmd, "-"+string(c)+": invalid option")
			}
			value := args[i][j+1:]
			if value == "" {
				if i++; i == len(args) {
					return m.in.reportUsage(m.cmd, "-"+string(c)+": option requires an argument")
				}
				value = args[i]
			}
			if !m.setOption(c, value) {
				return 1
			}
			break
		}
	}
	if i < len(args) {
		m.name = args[i]
	}
	return 0
}

func (m *mapfileCall) setOption(c byte, value string) bool {
	switch c {
	case 'd':
		m.delim = 0
		if value != "" {
			m.delim = value[0]
		}
		return true
	case 'C':
		m.callback = value
		return true
	}
	n, err := strconv.ParseInt(value, 10, 64)
	bad := map[byte]string{
		'n': "line count", 's': "line count", 'O': "array origin", 'u': "file descriptor specification", 'c': "callback quantum",
	}[c]
	if err != nil || n < 0 || c == 'c' && n == 0 {
		m.in.errorf("%s: %s: invalid %s", m.cmd, value, bad)
		return false
	}
	switch c {
	case 'n':
		m.count = int(n)
	case 's':
		m.skip = int(n)
	case 'O':
		m.origin, m.keep = n, true
	case 'u':
		m.fd = int(n)
	case 'c':
		m.quantum = int(n)
	}
	return true
}

func (m *mapfileCall) read() int {
	in := m.in
	if !m.keep {
		in.setArray(m.name, nil)
	} else {
		in.toArray(in.mutableVar(m.name))
	}
	src := in.openInput(m.fd)
	src.block = m.count == 0 && m.callback == ""
	defer src.close()
	defer func() { in.releaseScratch(cap(m.line)) }()
	index := m.origin
	for n := 0; m.count == 0 || n < m.count+m.skip; n++ {
		line, ok := m.readLine(src)
		if !ok {
			break
		}
		if n < m.skip {
			continue
		}
		k := n - m.skip + 1
		if m.callback != "" && k%m.quantum == 0 {
			in.runCallback(m.callback + " " + strconv.FormatInt(index, 10) + " " + in.quoteLong(quoteAlways, line))
		}
		v := in.mutableVar(m.name)
		in.toArray(v)
		in.putElem(v, index, line)
		in.chargeWork(1)
		index++
	}
	var no vfs.Errno
	if errors.As(src.err, &no) {
		in.errorf("%s: read error: %d: %v", m.cmd, m.fd, no)
	}
	return 0
}

// readLine reads a line, with its delimiter unless -t is given.
func (m *mapfileCall) readLine(src *input) (string, bool) {
	m.line = m.line[:0]
	for {
		c, ok := src.next()
		if !ok {
			return m.lineText(), len(m.line) > 0
		}
		if c == m.delim {
			if !m.strip && c != 0 {
				m.appendByte(c)
			}
			return m.lineText(), true
		}
		if c == 0 {
			continue
		}
		if m.appendByte(c); len(m.line)&4095 == 0 {
			m.in.chargeWork(64)
		}
	}
}

func (m *mapfileCall) appendByte(c byte) {
	if len(m.line) == cap(m.line) {
		m.line = m.in.growScratch(m.line, 1)
	}
	m.line = append(m.line, c)
}

// lineText returns a copy of the line. A long one must fit beside it.
func (m *mapfileCall) lineText() string {
	if n := len(m.line); n >= 4096 {
		m.in.chargeScratch(n)
		defer m.in.releaseScratch(n) // the element is charged
	}
	return string(m.line)
}

// runCallback runs the callback of mapfile -C.
func (in *interp) runCallback(text string) {
	in.flushOut()
	in.runText(text, source{kind: "mapfile", line: in.line})
}
