// Package javascript is the command node. Each run has a QuickJS engine of its own, whose memory is charged before it
// exists, and reaches only the files, the commands and the network of the sandbox.
package javascript

import (
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const usage = `Usage: node [OPTION]... [SCRIPT|-] [ARG]...
       node -e CODE [ARG]...
       node -p CODE [ARG]...
Run JavaScript (ES2023, CommonJS and ES modules) on the files of the sandbox.

  -e, --eval CODE      run CODE
  -p, --print CODE     run CODE and print its value
  -c, --check FILE     check the syntax only
  -r, --require FILE   load a module first
      --input-type=module   CODE or standard input is a module
  -v, --version

Modules: assert, buffer, child_process, crypto (hashes, random), events, fs,
fs/promises, module, os, path, perf_hooks, process, querystring, readline,
stream (a part), timers, tty, url, util; fetch with the hosts that the sandbox
may reach; packages of plain JavaScript below node_modules. Not supported:
http, net, worker_threads, zlib, vm, native addons, TypeScript, npm and a
prompt. Every run has at most half of the free memory, 64 MiB at most.
`

// maxEngines is how many engines may run at once in this process, those of all sandboxes together.
const maxEngines = 64

// Commands returns node. The commands of one call share a limit of running engines.
func Commands() []program.Command {
	slots := make(chan struct{}, maxEngines)
	run := func(p *kernel.Proc) int { return runNode(p, slots) }
	return []program.Command{{Name: "node", Aliases: []string{"nodejs", "js"}, Short: "run JavaScript", Usage: usage, Run: program.FlushOutput(run, 1)}}
}

// options are the arguments of one call.
type options struct {
	code         string
	hasCode      bool
	print, check bool
	module       bool
	requires     []string
	script       string
	args         []string
}

// runNode runs node and returns its exit status.
func runNode(p *kernel.Proc, slots chan struct{}) int {
	o, done, code := parseOptions(p)
	if done {
		return code
	}
	e := &engine{p: p, options: o, slots: slots}
	return e.run()
}

func fail(p *kernel.Proc, text string) int {
	_, _ = p.Stderr.WriteString("node: " + text + "\n") // best effort
	return 9
}

func parseOptions(p *kernel.Proc) (o options, done bool, code int) {
	args := p.Args[1:]
	for len(args) > 0 {
		p.Tick(1)
		a := args[0]
		if a == "-" || !strings.HasPrefix(a, "-") {
			break
		}
		args = args[1:]
		name, value, hasValue := strings.Cut(a, "=")
		take := func() bool {
			if !hasValue && len(args) > 0 {
				value, args, hasValue = args[0], args[1:], true
			}
			return hasValue
		}
		ok := true
		switch name {
		case "--":
			o.args = args
			return o, false, 0
		case "-e", "--eval", "-p", "--print", "-pe":
			ok = take()
			o.code, o.hasCode, o.print = value, true, name != "-e" && name != "--eval"
		case "-r", "--require", "--import":
			ok = take()
			o.requires = append(o.requires, value)
		case "-c", "--check":
			o.check = true
		case "--input-type":
			ok = take()
			o.module = value == "module"
		case "-v", "--version":
			_, _ = p.Out().WriteString("v20.20.2\n") // Flush reports the error
			return o, true, 0
		case "-h":
			_, _ = p.Out().WriteString(usage) // likewise
			return o, true, 0
		case "--test", "--watch", "--inspect", "--inspect-brk", "-i", "--interactive", "--experimental-strip-types", "--loader", "--env-file":
			return o, true, fail(p, name+" is not supported in a virtual sandbox: run a script with node FILE")
		default:
			if !strings.HasPrefix(name, "--no-") && !strings.HasPrefix(name, "--max") && !strings.HasPrefix(name, "--stack") && !strings.HasPrefix(name, "--experimental") && !strings.HasPrefix(name, "--enable") && !strings.HasPrefix(name, "--unhandled") && !strings.HasPrefix(name, "--trace") {
				return o, true, fail(p, "bad option: "+a)
			}
		}
		if !ok {
			return o, true, fail(p, a+" requires an argument")
		}
	}
	if !o.hasCode && len(args) > 0 {
		o.script, args = args[0], args[1:]
	}
	o.args = args
	return o, false, 0
}
