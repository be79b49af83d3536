package system

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/internal/unix/regex"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const parallelUsage = `Usage: parallel [OPTION]... [COMMAND [ARG]...] [::: ARG...] [:::: FILE...]
Run COMMAND by the shell, once for each ARG, or for each line of FILE or of
standard input. Several ::: give all combinations, with :::+ pairs.

  {} the argument, {.} without extension, {/} its name, {//} its directory,
  {/.} the name without extension, {#} number of the job, {%} of its slot;
  {1}, {2.}, {3/}: of one source, or one of -N arguments

  -j, --jobs N        jobs at once (default: one for each processor)
  -k, --keep-order    print output in the order of the arguments
  -n, -N N            arguments for each job;  -X, -m: as many as there are
  -a, --arg-file F    read arguments from F
  -0, --null          arguments end with a NUL;  -d, --delimiter C: with C
  -C, --colsep RE     split arguments at RE into {1}, {2}...
  -I TEXT             TEXT stands for the argument
  -q, --quote         quote COMMAND for the shell
  -r, --no-run-if-empty
      --dry-run       print the commands;  -t, --verbose: print and run them
      --tag           begin each line of output with the argument
      --link          combine the sources in pairs
      --halt W,fail=N end after N failures (W: now or soon)
      --retries N     run a job that fails up to N times
  -u, --ungroup, --lb, --bar, --eta, --will-cite, --no-notice: accepted

The status is the number of jobs that failed, at most 101. --pipe, --results,
--joblog, --sshlogin and {= perl =} are not supported: use xargs or a loop.
`

const (
	parallelDry rune = 256 + iota
	parallelTag
	parallelLink
	parallelHalt
	parallelRetries
	parallelIgnored
	parallelRefused
)

var parallelOptions = option.Parser{StopAtOperand: true, Options: []option.Option{
	{Short: 'j', Long: "jobs", Arg: option.Required},
	{Short: 'P', Long: "max-procs", Arg: option.Required, ID: 'j'},
	{Short: 'k', Long: "keep-order"},
	{Short: 'n', Long: "max-args", Arg: option.Required},
	{Short: 'N', Long: "max-replace-args", Arg: option.Required},
	{Short: 'X'},
	{Short: 'm'},
	{Short: 'a', Long: "arg-file", Arg: option.Required},
	{Short: '0', Long: "null"},
	{Short: 'd', Long: "delimiter", Arg: option.Required},
	{Short: 'C', Long: "colsep", Arg: option.Required},
	{Short: 'I', Arg: option.Required},
	{Short: 'i', Arg: option.Optional},
	{Short: 'q', Long: "quote"},
	{Short: 'r', Long: "no-run-if-empty"},
	{Long: "dry-run", ID: parallelDry},
	{Long: "dryrun", ID: parallelDry},
	{Short: 't', Long: "verbose"},
	{Long: "tag", ID: parallelTag},
	{Long: "link", ID: parallelLink},
	{Long: "xapply", ID: parallelLink},
	{Long: "halt", Arg: option.Required, ID: parallelHalt},
	{Long: "halt-on-error", Arg: option.Required, ID: parallelHalt},
	{Long: "retries", Arg: option.Required, ID: parallelRetries},
	{Short: 'u', Long: "ungroup"},
	{Long: "lb", ID: parallelIgnored},
	{Long: "line-buffer", ID: parallelIgnored},
	{Long: "group", ID: parallelIgnored},
	{Long: "bar", ID: parallelIgnored},
	{Long: "eta", ID: parallelIgnored},
	{Long: "progress", ID: parallelIgnored},
	{Long: "will-cite", ID: parallelIgnored},
	{Long: "no-notice", ID: parallelIgnored},
	{Long: "plain", ID: parallelIgnored},
	{Long: "citation", ID: parallelIgnored},
	{Long: "load", Arg: option.Required, ID: parallelIgnored},
	{Long: "delay", Arg: option.Required, ID: parallelIgnored},
	{Long: "nice", Arg: option.Required, ID: parallelIgnored},
	{Long: "memfree", Arg: option.Required, ID: parallelIgnored},
	{Long: "pipe", ID: parallelRefused},
	{Long: "pipepart", ID: parallelRefused},
	{Long: "results", Arg: option.Required, ID: parallelRefused},
	{Long: "joblog", Arg: option.Required, ID: parallelRefused},
	{Long: "sshlogin", Arg: option.Required, ID: parallelRefused},
	{Short: 'S', Arg: option.Required, ID: parallelRefused},
	{Long: "timeout", Arg: option.Required, ID: parallelRefused},
	{Long: "resume", ID: parallelRefused},
}}

// parallelJob is one command of parallel that runs.
type parallelJob struct {
	number, slot, tries int
	tag, command        string
	charged             int64 // for the command
	proc                *kernel.Proc
	out, err            *kernel.Buffer
	done                bool
}

// parallelRun is the state of one run of parallel.
type parallelRun struct {
	p                                      *kernel.Proc
	jobs, perJob, retries, halt            int
	keep, each, fill, quote, dry, verbose  bool
	tag, link, haltNow, stop, direct, bare bool
	replace                                string
	delim                                  byte
	colsep                                 *regex.Regexp
	command                                []string
	sources                                [][]string
	linked                                 []bool

	temp int64 // charged while a command is made

	running []*parallelJob
	waiting []*parallelJob // have ended, and are printed after earlier ones
	next    int            // number of the job to print
	failed  int
}

func runParallel(p *kernel.Proc) int {
	r := &parallelRun{p: p, jobs: 2, retries: 1, replace: "{}", delim: '\n', next: 1}
	opts, rest, ok := parallelOptions.Parse(p)
	if !ok {
		return 255
	}
	var files []string
	for _, o := range opts {
		if o.Key == 'a' {
			files = append(files, o.Value)
		} else if !r.applyOption(o) {
			return 255
		}
	}
	if !r.readSources(rest, files) {
		return 255
	}
	if r.quote {
		for i, a := range r.command {
			r.command[i] = quoteForParallel(a)
		}
	}
	r.runAll()
	return min(r.failed, 101)
}

func (r *parallelRun) applyOption(o option.Setting) bool {
	switch o.Key {
	case 'k':
		r.keep = true
	case 'X':
		r.fill, r.each = true, true
	case 'm':
		r.fill = true
	case '0':
		r.delim = 0
	case 'd':
		text := strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\0`, "\x00").Replace(o.Value)
		if text == "" {
			text = "\n"
		}
		r.delim = text[0]
	case 'C':
		re, err := regex.Compile(o.Value, regex.Options{Syntax: regex.Perl, Budget: r.p})
		if err != nil {
			r.p.Errorf("Error: --colsep %s: %v", o.Value, err)
			return false
		}
		r.colsep = re
	case 'I', 'i':
		if o.Value != "" {
			r.replace = o.Value
		}
	case 'q':
		r.quote = true
	case parallelDry:
		r.dry = true
	case 't':
		r.verbose = true
	case 'u':
		r.direct = true
	case parallelTag:
		r.tag = true
	case parallelLink:
		r.link = true
	case parallelHalt:
		return r.applyHalt(o.Value)
	case parallelRefused:
		r.p.Errorf("Error: %s is not supported here: use xargs, split, or a loop of the shell", o.Name)
		return false
	case 'j', 'n', 'N', parallelRetries:
		return r.applyNumber(o)
	}
	return true
}

func (r *parallelRun) applyNumber(o option.Setting) bool {
	text := strings.TrimPrefix(o.Value, "+")
	n, err := strconv.Atoi(strings.TrimSuffix(text, "%"))
	if err != nil || n < 0 {
		r.p.Errorf("Error: Parsing of %s %s failed: a number is needed", o.Name, o.Value)
		return false
	}
	switch o.Key {
	case 'j':
		if strings.HasSuffix(text, "%") || strings.HasPrefix(o.Value, "+") {
			n = 2
		}
		if r.jobs = min(n, 64); n == 0 {
			r.jobs = 64
		}
	case 'n', 'N':
		r.perJob, r.bare = n, n == 0
	case parallelRetries:
		r.retries = max(n, 1)
	}
	return true
}

// applyHalt applies never, now,fail=N, soon,fail=N, 1 or 2.
func (r *parallelRun) applyHalt(text string) bool {
	when, what, _ := strings.Cut(text, ",")
	switch text {
	case "never", "0":
		return true
	case "1":
		when, what = "soon", "fail=1"
	case "2":
		when, what = "now", "fail=1"
	}
	count, ok := strings.CutPrefix(what, "fail=")
	n, err := strconv.Atoi(count)
	if !ok || err != nil || n < 1 || when != "now" && when != "soon" {
		r.p.Errorf("Error: --halt must be 'never', 'now,fail=N' or 'soon,fail=N', not %s", text)
		return false
	}
	r.halt, r.haltNow = n, when == "now"
	return true
}

// readSources splits the operands into the command and the sources of arguments.
func (r *parallelRun) readSources(rest, files []string) bool {
	at := slices.IndexFunc(rest, isSourceMark)
	if at < 0 {
		at = len(rest)
	}
	r.command, rest = slices.Clone(rest[:at]), rest[at:]
	for len(rest) > 0 {
		mark := rest[0]
		end := slices.IndexFunc(rest[1:], isSourceMark)
		if end < 0 {
			end = len(rest) - 1
		}
		list := rest[1 : end+1]
		rest = rest[end+1:]
		if strings.HasPrefix(mark, "::::") {
			for _, name := range list {
				if !r.readSource(name) {
					return false
				}
			}
		} else {
			r.sources = append(r.sources, list)
		}
		r.linked = append(r.linked, strings.HasSuffix(mark, "+"))
	}
	for _, name := range files {
		if !r.readSource(name) {
			return false
		}
	}
	if len(r.sources) == 0 && len(files) == 0 && !r.readSource("-") {
		return false
	}
	for len(r.linked) < len(r.sources) {
		r.linked = append(r.linked, false)
	}
	return true
}

func isSourceMark(a string) bool { return a == ":::" || a == "::::" || a == ":::+" || a == "::::+" }

// parallelArgCost is what an argument costs beside its text, while the list of them grows.
const parallelArgCost = 56

// readSource reads the arguments in a file.
func (r *parallelRun) readSource(name string) bool {
	h, err := stream.Open(r.p, name)
	if err != nil {
		r.p.Errorf("Error: Cannot open input file `%s': %s.", name, program.Reason(err))
		return false
	}
	defer stream.Close(h)
	lines := stream.NewLineReader(r.p, h, r.delim)
	defer lines.Close()
	var list []string
	for {
		line := lines.Next()
		if line == nil {
			break
		}
		text := string(stream.TrimDelimiter(line, r.delim))
		r.p.Alloc(int64(len(text)) + parallelArgCost)
		list = append(list, text)
	}
	r.sources = append(r.sources, list)
	return true
}

// runAll runs the command for each combination of arguments.
func (r *parallelRun) runAll() {
	number := 0
	start := func(args []string) {
		number++
		r.start(number, args)
	}
	switch {
	case len(r.sources) == 1:
		r.runSingle(r.sources[0], start)
	case r.link:
		longest := 0
		for _, s := range r.sources {
			longest = max(longest, len(s))
		}
		for i := range longest {
			var args []string
			for _, s := range r.sources {
				if len(s) > 0 {
					args = append(args, s[i%len(s)])
				}
			}
			start(args)
		}
	default:
		r.combine(0, nil, 0, start)
	}
	for len(r.running) > 0 {
		r.wait()
	}
}

// runSingle runs the command for the arguments of one source.
func (r *parallelRun) runSingle(list []string, start func([]string)) {
	size := max(r.perJob, 1)
	if r.fill {
		size = max(1, min(4096, (len(list)+r.jobs-1)/r.jobs))
		if r.perJob > 0 {
			size = r.perJob
		}
	}
	for len(list) > 0 && !r.stop {
		args := list[:min(size, len(list))]
		list = list[len(args):]
		if r.colsep != nil {
			args = r.splitColumns(args)
		}
		start(args)
	}
}

func (r *parallelRun) splitColumns(args []string) []string {
	var out []string
	for _, a := range args {
		caps := make([]int, 2)
		from := 0
		for from <= len(a) && r.colsep.Match([]byte(a), from, caps, r.p) && caps[1] > caps[0] {
			out = append(out, a[from:caps[0]])
			from = caps[1]
		}
		out = append(out, a[from:])
	}
	return out
}

// combine starts jobs for all combinations of the sources from n on; index is that of the last argument.
func (r *parallelRun) combine(n int, args []string, index int, start func([]string)) {
	if n == len(r.sources) {
		start(args)
		return
	}
	if n > 0 && r.linked[n] {
		if list := r.sources[n]; len(list) > 0 {
			r.combine(n+1, append(slices.Clip(args), list[index%len(list)]), index, start)
		}
		return
	}
	for i, a := range r.sources[n] {
		if r.stop {
			return
		}
		r.combine(n+1, append(slices.Clip(args), a), i, start)
	}
}

// start starts a job when there is a free slot.
func (r *parallelRun) start(number int, args []string) {
	for len(r.running) >= r.jobs {
		r.wait()
	}
	if r.stop {
		return
	}
	slot := 1
	for slices.ContainsFunc(r.running, func(j *parallelJob) bool { return j.slot == slot }) {
		slot++
	}
	if r.bare {
		args = nil
	}
	j := &parallelJob{number: number, slot: slot}
	if r.tag {
		j.tag = strings.Join(args, " ")
	}
	j.command = r.expand(args, number, slot)
	j.charged = int64(len(j.command))
	r.p.Alloc(j.charged)
	r.p.Free(r.temp)
	r.temp = 0
	if r.dry {
		_, _ = r.p.Out().WriteString(j.command + "\n") // Flush reports the error
		r.p.Free(j.charged)
		return
	}
	if r.verbose {
		_, _ = r.p.Stderr.WriteString(j.command + "\n") // best effort
	}
	r.spawn(j)
}

// expand returns the command with its placeholders replaced. With -X a word that has one is repeated for each argument.
func (r *parallelRun) expand(args []string, number, slot int) string {
	if !r.each || len(args) < 2 || !strings.Contains(strings.Join(r.command, " "), "{") {
		return r.expandText(strings.Join(r.command, " "), args, number, slot)
	}
	var words []string
	for _, w := range r.command {
		if !strings.Contains(w, "{") {
			words = append(words, w)
			continue
		}
		for _, a := range args {
			text := r.expandText(w, []string{a}, number, slot)
			r.charge(2*len(text) + parallelArgCost)
			words = append(words, text)
		}
	}
	return strings.Join(words, " ")
}

// charge charges memory until the command is made.
func (r *parallelRun) charge(n int) {
	r.p.Alloc(int64(n))
	r.temp += int64(n)
}

// expandText replaces the placeholders of a text; without any, the arguments follow it.
func (r *parallelRun) expandText(text string, args []string, number, slot int) string {
	if text == "" {
		return strings.Join(args, " ")
	}
	size := 0
	for _, a := range args {
		size += len(quoteForParallel(a)) + parallelArgCost
	}
	r.p.Tick(1 + (len(text)+size)>>1)
	cost := int64(len(parallelParts) * 3 * size)
	r.p.Alloc(cost)
	defer r.p.Free(cost)
	values := map[string]string{"#": strconv.Itoa(number), "%": strconv.Itoa(slot)}
	for suffix := range parallelParts {
		parts := make([]string, len(args))
		for i, a := range args {
			parts[i] = quoteForParallel(parallelPart(a, suffix))
			values[strconv.Itoa(i+1)+suffix] = parts[i]
		}
		values[suffix] = strings.Join(parts, " ")
	}
	if r.replace != "{}" {
		r.charge(len(text) + strings.Count(text, r.replace)*len(values[""]))
		return strings.ReplaceAll(text, r.replace, values[""])
	}
	var b strings.Builder
	found := false
	for {
		open := strings.IndexByte(text, '{')
		end := -1
		if open >= 0 {
			end = strings.IndexByte(text[open:], '}')
		}
		if end < 0 {
			b.WriteString(text)
			break
		}
		name := text[open+1 : open+end]
		value, ok := values[name]
		if _, err := strconv.Atoi(strings.TrimRight(name, "./")); err == nil && !ok {
			value, ok = "", true
		}
		if !ok {
			b.WriteString(text[:open+1])
			text = text[open+1:]
			continue
		}
		found = true
		r.charge(3 * (open + len(value))) // b may grow to twice its length, and be copied
		b.WriteString(text[:open])
		b.WriteString(value)
		text = text[open+end+1:]
	}
	if !found && len(args) > 0 {
		r.charge(2 * (b.Len() + len(values[""])))
		return b.String() + " " + values[""]
	}
	return b.String()
}

// parallelParts are the suffixes of placeholders.
var parallelParts = map[string]bool{"": true, ".": true, "/": true, "//": true, "/.": true}

func parallelPart(a, suffix string) string {
	switch suffix {
	case ".":
		return strings.TrimSuffix(a, path.Ext(a))
	case "/":
		return a[strings.LastIndexByte(a, '/')+1:]
	case "//":
		return path.Dir(a)
	case "/.":
		a = a[strings.LastIndexByte(a, '/')+1:]
		return strings.TrimSuffix(a, path.Ext(a))
	}
	return a
}

// quoteForParallel quotes a word for the shell, if it must be.
func quoteForParallel(a string) string {
	if a != "" && strings.Trim(a, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_/.,:=@%+-") == "" {
		return a
	}
	return "'" + strings.ReplaceAll(a, "'", `'"'"'`) + "'"
}

// spawn starts the process of a job.
func (r *parallelRun) spawn(j *parallelJob) {
	p := r.p
	_ = p.Out().Flush() // the next write reports the error
	s, err := p.Command([]string{"/bin/sh", "-c", j.command})
	if err != nil {
		p.Errorf("/bin/sh: %s", program.Reason(err))
		r.failed, r.stop = r.failed+1, true
		return
	}
	s.Env = setVar(setVar(slices.Clone(p.Env), "PARALLEL_SEQ="+strconv.Itoa(j.number)), "PARALLEL_JOBSLOT="+strconv.Itoa(j.slot))
	if null, err := p.OpenAt("/dev/null", 0, 0); err == nil {
		s.Stdin = null
		defer null.Release()
	}
	if !r.direct {
		out, f := p.Buffer()
		errs, g := p.Buffer()
		j.out, j.err, s.Stdout, s.Stderr = out, errs, f, g
		defer f.Release()
		defer g.Release()
	}
	if j.proc, err = p.Spawn(s); err != nil {
		p.Errorf("fork: %s", program.Reason(err))
		r.failed, r.stop = r.failed+1, true
		return
	}
	r.running = append(r.running, j)
}

// wait waits for one of the jobs.
func (r *parallelRun) wait() {
	list := make([]*kernel.Proc, len(r.running))
	for i, j := range r.running {
		list[i] = j.proc
	}
	c, err := r.p.WaitAny(list, false)
	if err != nil {
		r.running = nil
		return
	}
	i := slices.Index(list, c)
	j := r.running[i]
	r.running = slices.Delete(r.running, i, i+1)
	code := c.Result().Code
	if j.tries++; code != 0 && j.tries < r.retries {
		r.closeBuffers(j)
		r.spawn(j)
		return
	}
	if code != 0 {
		r.failed++
	}
	j.done, j.command = true, ""
	r.p.Free(j.charged)
	if !r.keep {
		r.printOutput(j)
	} else {
		r.waiting = append(r.waiting, j)
		r.printWaiting()
	}
	if r.halt > 0 && r.failed >= r.halt && !r.stop {
		r.stop = true
		if r.failed = code; r.haltNow {
			r.killRest()
		}
	}
}

// printWaiting prints the jobs that no earlier one keeps waiting.
func (r *parallelRun) printWaiting() {
	for {
		i := slices.IndexFunc(r.waiting, func(j *parallelJob) bool { return j.number == r.next })
		if i < 0 {
			return
		}
		r.printOutput(r.waiting[i])
		r.waiting = slices.Delete(r.waiting, i, i+1)
		r.next++
	}
}

func (r *parallelRun) killRest() {
	for _, j := range r.running {
		_ = j.proc.Kill(kernel.SIGTERM) // it may have ended
	}
	for len(r.running) > 0 {
		j := r.running[0]
		_, _ = r.p.Wait(j.proc, false) // it was started here
		r.closeBuffers(j)
		r.running = r.running[1:]
	}
}

func (r *parallelRun) closeBuffers(j *parallelJob) {
	if j.out != nil {
		j.out.Close()
		j.err.Close()
	}
}

func (r *parallelRun) printOutput(j *parallelJob) {
	if j.out == nil {
		return
	}
	text, errs := j.out.Wait(), j.err.Wait()
	if !r.tag {
		_, _ = r.p.Out().Write(text) // Flush reports the error
	} else {
		for line := range strings.Lines(string(text)) {
			r.p.Tick(1)
			_, _ = r.p.Out().WriteString(j.tag + "\t" + line) // likewise
		}
	}
	if len(errs) > 0 {
		_ = r.p.Out().Flush()         // the next write reports the error
		_, _ = r.p.Stderr.Write(errs) // best effort
	}
	r.closeBuffers(j)
}
