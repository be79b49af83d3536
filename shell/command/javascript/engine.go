package javascript

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"

	"modernc.org/quickjs"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

//go:embed prelude.js
var prelude string

const (
	// maxMemory is the largest memory of an engine; with less than minMemory it does not work.
	maxMemory = 64 << 20
	minMemory = 8 << 20
	// grace is how long an engine may take to notice an interrupt. It looks at loops and calls, not within its own
	// functions.
	grace = 2 * time.Second
)

// engine is one run of node. The engine has a goroutine of its own, which sends the calls of the script to the goroutine of
// the process as requests, because only that one may use the process.
type engine struct {
	options

	p     *kernel.Proc
	slots chan struct{}
	free  func() // frees the charge for the memory of the engine

	vm       *quickjs.VM
	driver   quickjs.Value
	requests chan request
	done     chan struct{} // closed when the engine's goroutine has ended
	dead     chan struct{} // closed when the process ends
	source   string
	file     string // of the script; [eval] or [stdin]
	failure  error
	code     int
	exited   bool
}

// request is a call of the script that the process answers.
type request struct {
	op    string
	args  []any
	reply chan any
}

var (
	errEnded = errors.New("the process ends")
	errExit  = errors.New("exit")
)

// run runs the script and returns its status.
func (e *engine) run() int {
	if !e.readSource() {
		return 1
	}
	memory := min(maxMemory, e.p.FreeMemory()/2)
	if memory < minMemory {
		return fail(e.p, fmt.Sprintf("not enough memory: %d bytes are free, and it needs %d", e.p.FreeMemory(), 2*minMemory))
	}
	select {
	case e.slots <- struct{}{}:
	default:
		return fail(e.p, "too many scripts run at once: try again")
	}
	e.p.Alloc(memory)
	e.free = e.p.DetachCharge(memory)
	e.requests, e.done, e.dead = make(chan request), make(chan struct{}), make(chan struct{})
	vm, err := quickjs.NewVM()
	if err != nil {
		e.free()
		<-e.slots
		return fail(e.p, err.Error())
	}
	e.vm = vm
	vm.SetMemoryLimit(uintptr(memory))
	vm.SetCanBlock(false)
	environ, argv := e.start()
	go e.work(environ, argv)
	defer e.stop()
	e.serve()
	if e.failure != nil {
		_, _ = e.p.Stderr.WriteString("FATAL ERROR: " + e.failure.Error() + " (node has at most half of the sandbox's free memory)\n") // best effort
		return 134
	}
	return e.code
}

// readSource reads the script.
func (e *engine) readSource() bool {
	switch {
	case e.hasCode:
		e.source, e.file = e.options.code, "[eval]"
	case e.script == "" || e.script == "-":
		b, err := e.p.ReadAll(e.p.Stdin)
		if err != nil {
			fail(e.p, "standard input: "+program.Reason(err))
			return false
		}
		e.source, e.file = string(b), "[stdin]"
	default:
		return e.readScript()
	}
	return true
}

func (e *engine) readScript() bool {
	for _, suffix := range []string{"", ".js", ".cjs", ".mjs", "/index.js"} {
		info, err := e.p.Stat(e.script + suffix)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if strings.HasSuffix(e.script+suffix, ".ts") || strings.HasSuffix(e.script+suffix, ".tsx") {
			fail(e.p, e.script+": TypeScript is not supported in a virtual sandbox: write JavaScript, or use a driver with real processes")
			return false
		}
		real, err := e.p.Resolve(e.script + suffix)
		if err != nil {
			real = e.p.Path(e.script + suffix)
		}
		b, err := e.p.ReadFile(real)
		if err != nil {
			fail(e.p, e.script+": "+program.Reason(err))
			return false
		}
		e.source, e.file = string(b), real
		return true
	}
	_, _ = e.p.Stderr.WriteString("node:internal/modules/cjs/loader\n\nError: Cannot find module '" + e.p.Path(e.script) + "'\n\nNode.js v20.20.2\n") // best effort
	return false
}

// start returns the environment and the arguments of the script.
func (e *engine) start() (environ map[string]string, argv []string) {
	environ = map[string]string{}
	for _, v := range e.p.Env {
		name, value, _ := strings.Cut(v, "=")
		environ[name] = strings.ToValidUTF8(value, "\uFFFD")
	}
	argv = []string{"/usr/bin/node"}
	if strings.HasPrefix(e.file, "/") {
		argv = append(argv, e.file)
	}
	for _, a := range e.args {
		argv = append(argv, strings.ToValidUTF8(a, "\uFFFD"))
	}
	return environ, argv
}

// serve answers the requests of the script until the engine has ended.
func (e *engine) serve() {
	for {
		var r request
		finished := false
		_ = e.p.Await(func(ctx context.Context) error { // it ends the process itself when its context is done
			select {
			case r = <-e.requests:
			case <-e.done:
				finished = true
			case <-ctx.Done():
				e.vm.Interrupt()
			}
			return nil
		})
		if finished {
			return
		}
		if r.reply != nil {
			r.reply <- e.answer(r.op, r.args)
		}
	}
}

// stop ends the engine when the process ends, and waits for it. An engine that can't be interrupted is left behind: it
// keeps its slot and its memory until it ends, and has no access to the sandbox.
func (e *engine) stop() {
	close(e.dead)
	e.vm.Interrupt()
	select {
	case <-e.done:
	case <-time.After(grace):
	}
}

// work runs the script in the engine.
func (e *engine) work(environ map[string]string, argv []string) {
	defer func() { <-e.slots }()
	defer close(e.done)
	defer e.free()
	defer func() {
		if v := recover(); v != nil {
			e.failure = fmt.Errorf("the engine failed: %v", v)
		}
		_ = e.vm.Close() // its memory is freed, or is lost with the engine
	}()
	if err := e.evaluate(environ, argv); err != nil && !e.exited && !errors.Is(err, errEnded) {
		e.failure = err
	}
}

// evaluate runs the prelude, the script, and its jobs and timers.
func (e *engine) evaluate(environ map[string]string, argv []string) error {
	if err := e.vm.RegisterHostFunc("__host", e.callHost); err != nil {
		return err
	}
	module := e.isModule()
	head := []any{argv, environ, e.p.Dir(), map[string]string{"name": e.file, "source": ""}}
	if module {
		head[3] = map[string]string{"name": e.moduleName(), "source": e.source}
	}
	b, err := json.Marshal(head)
	if err != nil {
		return err
	}
	text := string(b)
	if e.driver, err = e.vm.EvalValue("(function(a){const h=globalThis.__host;delete globalThis.__host;return ("+strings.TrimSuffix(strings.TrimSpace(prelude), ")")+"))(h,a[0],a[1],a[2],a[3])})("+text+")", quickjs.EvalGlobal); err != nil {
		return err
	}
	defer e.driver.Free()
	e.vm.SetModuleLoader(e.loadModule, e.normalizeModule)
	if e.check {
		return e.checkSyntax(module)
	}
	if err := e.begin(module); err != nil {
		return err
	}
	return e.loop()
}

// begin starts the script.
func (e *engine) begin(module bool) error {
	for _, name := range e.requires {
		if err := e.drive("script", "require("+quoteJS(name)+")", "[require]"); err != nil {
			return err
		}
	}
	switch {
	case module:
		v, err := e.vm.EvalValue("import("+quoteJS(e.moduleName())+")", quickjs.EvalGlobal)
		if err != nil {
			return err
		}
		defer v.Free()
		return e.drive("module", v)
	case e.print:
		return e.drive("print", e.source, e.file)
	}
	return e.drive("script", e.source, e.file)
}

func quoteJS(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		return `""`
	}
	return string(b)
}

// loop runs jobs and timers until there are none.
func (e *engine) loop() error {
	for {
		if _, err := e.vm.ExecutePendingJobs(); err != nil {
			var js *quickjs.Error
			if !errors.As(err, &js) || e.isDead() {
				return err
			}
		}
		due, err := e.driveNumber("turn")
		if err != nil {
			return err
		}
		if due < 0 {
			if n, err := e.vm.ExecutePendingJobs(); err != nil || n > 0 {
				continue
			}
			if due, err = e.driveNumber("beforeExit"); err != nil {
				return err
			}
			if n, err := e.vm.ExecutePendingJobs(); err == nil && n == 0 && due < 0 {
				return e.drive("end")
			}
			continue
		}
		if due > 0 {
			if _, err := e.callHost([]any{"sleep", due}); err != nil {
				return err
			}
		}
	}
}

func (e *engine) isDead() bool {
	select {
	case <-e.dead:
		return true
	default:
		return e.exited
	}
}

func (e *engine) checkSyntax(module bool) error {
	var err error
	if module {
		_, err = e.vm.Compile(e.source, quickjs.EvalModule)
	} else {
		_, err = e.vm.Compile("(function(exports,require,module,__filename,__dirname){"+stripBang(e.source)+"\n})", quickjs.EvalGlobal)
	}
	var js *quickjs.Error
	if errors.As(err, &js) {
		return e.drive("syntax", js.Message, e.file)
	}
	return err
}

func stripBang(source string) string {
	if strings.HasPrefix(source, "#!") {
		if _, rest, ok := strings.Cut(source, "\n"); ok {
			return "\n" + rest
		}
		return ""
	}
	return source
}

var moduleSyntax = regexp.MustCompile(`(?m)^\s*(?:import\s*(?:[\w{*"'$]|\()|export\s+(?:default|const|let|var|function|class|async|\{|\*))`)

var importCall = regexp.MustCompile(`(?m)^\s*import\s*\(`)

// isModule reports whether the script is an ES module.
func (e *engine) isModule() bool {
	switch {
	case e.module:
		return true
	case strings.HasSuffix(e.file, ".mjs"):
		return true
	case strings.HasSuffix(e.file, ".cjs"):
		return false
	case strings.HasPrefix(e.file, "/"):
		if kind := e.packageType(); kind != "" {
			return kind == "module"
		}
	}
	found := moduleSyntax.FindAllString(e.source, -1)
	for _, f := range found {
		if !importCall.MatchString(f) {
			return true
		}
	}
	return false
}

// packageType returns the type of the nearest package.json.
func (e *engine) packageType() string {
	for dir := path.Dir(e.file); ; dir = path.Dir(dir) {
		reply, err := e.ask("readText", dir+"/package.json")
		if text, ok := reply.(string); err == nil && ok && strings.HasPrefix(text, "=") {
			var p struct {
				Type string `json:"type"`
			}
			if json.Unmarshal([]byte(text[1:]), &p) == nil {
				return p.Type
			}
			return ""
		}
		if dir == "/" || err != nil {
			return ""
		}
	}
}

// moduleName returns the name of the script as a module.
func (e *engine) moduleName() string {
	if strings.HasPrefix(e.file, "/") {
		return e.file
	}
	return path.Join(e.p.Dir(), e.file+".mjs")
}

// drive calls the driver of the prelude.
func (e *engine) drive(op string, args ...any) error {
	_, err := e.driver.Call(quickjs.UndefinedValue, append([]any{op}, args...)...)
	return err
}

func (e *engine) driveNumber(op string) (float64, error) {
	v, err := e.driver.Call(quickjs.UndefinedValue, op)
	switch n := v.(type) {
	case int:
		return float64(n), err
	case float64:
		return n, err
	}
	return -1, err
}

func (e *engine) driveText(op string, args ...any) (string, error) {
	v, err := e.driver.Call(quickjs.UndefinedValue, append([]any{op}, args...)...)
	text, _ := v.(string) // an error has none
	return text, err
}

// loadModule returns the source of a module.
func (e *engine) loadModule(_ *quickjs.VM, name string) (string, error) {
	return e.driveText("source", name)
}

// normalizeModule returns the name of a module that another one imports.
func (e *engine) normalizeModule(_ *quickjs.VM, base, name string) (string, error) {
	if name == e.moduleName() && !strings.HasPrefix(base, "/") {
		return name, nil
	}
	return e.driveText("resolve", name, base)
}

// ask sends a request to the process.
func (e *engine) ask(op string, args ...any) (any, error) {
	r := request{op, args, make(chan any, 1)}
	select {
	case e.requests <- r:
	case <-e.dead:
		return nil, errEnded
	}
	select {
	case v := <-r.reply:
		return v, nil
	case <-e.dead:
		return nil, errEnded
	}
}

// callHost is the function of the host that the prelude calls.
func (e *engine) callHost(args []any) (any, error) {
	op, _ := args[0].(string)
	switch op {
	case "exit":
		e.code, e.exited = toInt(args[1])&255, true
		e.vm.Interrupt()
		return nil, errExit
	case "now":
		return float64(time.Now().UnixMicro()%1e12) / 1000, nil
	}
	return e.ask(op, args[1:]...)
}

func toInt(v any) int {
	switch n := v.(type) {
	case int:
		return n
	case int64:
		return int(n)
	case float64:
		return int(n)
	}
	return 0
}
