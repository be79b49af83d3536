package shell

import (
	"strconv"
	"strings"
)

// getoptState is the position of getopts within an argument.
type getoptState struct{ place int }

// reset restarts the scan, as an assignment to OPTIND does.
func (g *getoptState) reset() { g.place = 0 }

func bGetopts(in *interp, args []string) int {
	if len(args) > 1 && args[1] == "--" {
		args = append(args[:1:1], args[2:]...)
	} else if len(args) > 1 && len(args[1]) > 1 && args[1][0] == '-' {
		return in.reportUsage("getopts", args[1][:2]+": invalid option")
	}
	if len(args) < 3 {
		return in.reportUsage("getopts", "")
	}
	g := getopt{in: in, spec: args[1], name: args[2], args: in.params}
	if len(args) > 3 {
		g.args = args[3:]
	}
	g.silent = strings.HasPrefix(g.spec, ":")
	return g.next()
}

// getopt is a call of getopts.
type getopt struct {
	in     *interp
	spec   string
	name   string
	args   []string
	silent bool
	index  int // OPTIND
}

func (g *getopt) next() int {
	in := g.in
	n, err := strconv.Atoi(in.value("OPTIND"))
	if err != nil || n < 1 {
		n = 1
	}
	g.index = n
	place := in.getopts.place
	if place == 0 || n > len(g.args) || place >= len(g.args[n-1]) {
		place = 1
		if n > len(g.args) || len(g.args[n-1]) < 2 || g.args[n-1][0] != '-' || g.args[n-1] == "--" {
			switch {
			case n > len(g.args):
				g.index = len(g.args) + 1 // the arguments have changed
			case g.args[n-1] == "--":
				g.index++
			}
			in.unsetVar("OPTARG")
			g.saveIndex(0)
			g.setName("?")
			return 1
		}
	}
	arg := g.args[n-1]
	c := arg[place]
	place++
	if place == len(arg) {
		g.index++
		place = 0
	}
	i := strings.IndexByte(g.spec, c)
	if c == ':' || i < 0 {
		return g.illegalOption(c, place)
	}
	if i+1 < len(g.spec) && g.spec[i+1] == ':' {
		return g.readArgument(c, arg, place)
	}
	in.unsetVar("OPTARG")
	g.saveIndex(place)
	return g.setName(string([]byte{c}))
}

func (g *getopt) illegalOption(c byte, place int) int {
	g.saveIndex(place)
	if g.silent {
		g.in.set("OPTARG", string([]byte{c}))
	} else {
		g.in.unsetVar("OPTARG")
		g.printError("illegal option -- %c", c)
	}
	return g.setName("?")
}

// readArgument sets OPTARG to the argument of an option.
func (g *getopt) readArgument(c byte, arg string, place int) int {
	in := g.in
	switch {
	case place > 0:
		in.set("OPTARG", arg[place:])
		g.index++
	case g.index <= len(g.args):
		in.set("OPTARG", g.args[g.index-1])
		g.index++
	default:
		g.saveIndex(0)
		if g.silent {
			in.set("OPTARG", string([]byte{c}))
			return g.setName(":")
		}
		in.unsetVar("OPTARG")
		g.printError("option requires an argument -- %c", c)
		return g.setName("?")
	}
	g.saveIndex(0)
	return g.setName(string([]byte{c}))
}

// saveIndex saves the position for the next call.
func (g *getopt) saveIndex(place int) {
	g.in.set("OPTIND", strconv.Itoa(g.index))
	g.in.getopts.place = place
}

func (g *getopt) setName(value string) int {
	if !isName(g.name) {
		g.in.errorf("getopts: `%s': not a valid identifier", g.name)
		return 1
	}
	if !g.in.set(g.name, value) {
		return 2
	}
	return 0
}

func (g *getopt) printError(format string, c byte) {
	if g.in.value("OPTERR") != "0" {
		g.in.writeStderr(g.in.name0 + ": " + strings.Replace(format, "%c", string([]byte{c}), 1) + "\n")
	}
}
