package command

import (
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

// bcFrame holds the variables of the program, or those of a call.
type bcFrame struct {
	vars   map[string]bcNum
	arrays map[string]map[int]bcNum
}

// bcVM runs a bc program.
type bcVM struct {
	calculator
	scale, ibase, obase int
	last                bcNum
	globals             bcFrame
	frames              []bcFrame // of the calls at work
	funcs               map[string]*bcFunc
	math                bool
	width               int // of output lines, 0 for no limit
	col                 int
	ret                 bcNum
	read                func() (string, bool)
}

// bcFlow is how a statement ended.
type bcFlow int

const (
	bcOn bcFlow = iota
	bcBreak
	bcContinue
	bcReturn
	bcHalt
)

const (
	maxBCCalls = 2000
	// bcNumberCost is what a variable is charged for beside its digits.
	bcNumberCost = 96
	maxBCIndex   = 1 << 24
)

func newBC(p *kernel.Proc) *bcVM {
	return &bcVM{
		calculator: calculator{p}, ibase: 10, obase: 10, last: newNum(0), funcs: make(map[string]*bcFunc), width: 70,
		globals: bcFrame{vars: make(map[string]bcNum), arrays: make(map[string]map[int]bcNum)},
	}
}

// frameOf returns the innermost frame that has the name. Calls see the
// variables of their callers.
func (vm *bcVM) frameOf(name string, array bool) *bcFrame {
	for i := len(vm.frames) - 1; i >= 0; i-- {
		vm.p.Tick(1)
		f := &vm.frames[i]
		if array {
			if _, ok := f.arrays[name]; ok {
				return f
			}
		} else if _, ok := f.vars[name]; ok {
			return f
		}
	}
	return &vm.globals
}

func cost(d bcNum) int64 { return int64(d.v.BitLen()/8) + bcNumberCost }

func (vm *bcVM) setVar(name string, d bcNum) {
	f := vm.frameOf(name, false)
	if old, ok := f.vars[name]; ok {
		vm.p.Free(cost(old))
	}
	vm.p.Alloc(cost(d))
	f.vars[name] = d
}

func (vm *bcVM) getVar(name string) bcNum {
	if d, ok := vm.frameOf(name, false).vars[name]; ok {
		return d
	}
	return newNum(0)
}

func (vm *bcVM) index(n *bcNode) (int, error) {
	d, err := vm.eval(n.kids[0])
	if err != nil {
		return 0, err
	}
	i, ok := d.integer()
	if !ok || i < 0 || i >= maxBCIndex {
		return 0, calcError("Array " + n.text + " subscript out of bounds.")
	}
	return i, nil
}

func (vm *bcVM) run(n *bcNode) (bcFlow, error) {
	vm.p.Tick(1)
	switch n.op {
	case "block":
		for _, k := range n.kids {
			if flow, err := vm.run(k); flow != bcOn || err != nil {
				return flow, err
			}
		}
		return bcOn, nil
	case "string":
		vm.write(n.text)
		return bcOn, nil
	case "effect":
		_, err := vm.eval(n.kids[0])
		return bcOn, err
	case "show":
		return bcOn, vm.show(n.kids[0])
	case "print":
		return bcOn, vm.print(n)
	case "if":
		return vm.branch(n)
	case "for":
		return vm.loop(n)
	case "break":
		return bcBreak, nil
	case "continue":
		return bcContinue, nil
	case "halt":
		return bcHalt, nil
	case "return":
		vm.ret = newNum(0)
		var err error
		if len(n.kids) > 0 {
			vm.ret, err = vm.eval(n.kids[0])
		}
		return bcReturn, err
	}
	return bcOn, nil
}

func (vm *bcVM) branch(n *bcNode) (bcFlow, error) {
	c, err := vm.eval(n.kids[0])
	switch {
	case err != nil:
		return bcOn, err
	case c.sign() != 0:
		return vm.run(n.kids[1])
	case len(n.kids) > 2:
		return vm.run(n.kids[2])
	}
	return bcOn, nil
}

func (vm *bcVM) loop(n *bcNode) (bcFlow, error) {
	if n.kids[0] != nil {
		if _, err := vm.eval(n.kids[0]); err != nil {
			return bcOn, err
		}
	}
	for {
		vm.p.Tick(1)
		if n.kids[1] != nil {
			c, err := vm.eval(n.kids[1])
			if err != nil || c.sign() == 0 {
				return bcOn, err
			}
		}
		flow, err := vm.run(n.kids[3])
		switch {
		case err != nil:
			return bcOn, err
		case flow == bcBreak:
			return bcOn, nil
		case flow == bcReturn || flow == bcHalt:
			return flow, nil
		}
		if n.kids[2] != nil {
			if _, err := vm.eval(n.kids[2]); err != nil {
				return bcOn, err
			}
		}
	}
}

var bcEscapes = map[byte]string{'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 'q': `"`, 't': "\t", '\\': `\`, 'e': `\e`}

func bcUnescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
			b.WriteString(bcEscapes[s[i]])
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func (vm *bcVM) print(n *bcNode) error {
	for _, k := range n.kids {
		if k.op == "string" {
			vm.write(bcUnescape(k.text))
			continue
		}
		d, err := vm.eval(k)
		if err != nil {
			return err
		}
		if err := vm.number(d); err != nil {
			return err
		}
	}
	return nil
}

func (vm *bcVM) show(n *bcNode) error {
	d, err := vm.eval(n)
	if err != nil {
		return err
	}
	if n.op == "call" && vm.funcs[n.text] != nil && vm.funcs[n.text].void {
		return nil
	}
	if err := vm.number(d); err != nil {
		return err
	}
	vm.write("\n")
	return nil
}

// number writes a number and remembers it as the last one.
func (vm *bcVM) number(d bcNum) error {
	vm.last = d
	s, err := vm.text(d, vm.obase)
	if err != nil {
		return err
	}
	out := vm.p.Out()
	for i := range len(s) {
		if vm.width > 0 && vm.col >= vm.width-2 {
			_, _ = out.WriteString("\\\n") // shows at the flush
			vm.col = 0
		}
		_ = out.WriteByte(s[i])
		vm.col++
	}
	return nil
}

// write writes a string as it is.
func (vm *bcVM) write(s string) {
	_, _ = vm.p.Out().WriteString(s) // shows at the flush
	if i := strings.LastIndexByte(s, '\n'); i >= 0 {
		vm.col = len(s) - i - 1
	} else {
		vm.col += len(s)
	}
}

func boolNumber(b bool) bcNum {
	if b {
		return newNum(1)
	}
	return newNum(0)
}

func (vm *bcVM) eval(n *bcNode) (bcNum, error) {
	vm.p.Tick(1)
	switch n.op {
	case "number":
		if err := vm.work(len(n.text) * 8); err != nil {
			return bcNum{}, err
		}
		return parseNum(n.text, vm.ibase), nil
	case "var":
		return vm.getVar(n.text), nil
	case "special":
		return vm.special(n.text), nil
	case "index":
		i, err := vm.index(n)
		if err != nil {
			return bcNum{}, err
		}
		if d, ok := vm.frameOf(n.text, true).arrays[n.text][i]; ok {
			return d, nil
		}
		return newNum(0), nil
	case "assign":
		return vm.assign(n)
	case "pre++", "pre--", "post++", "post--":
		return vm.increment(n)
	case "call":
		return vm.call(n)
	case "builtin":
		return vm.builtin(n)
	}
	a, err := vm.eval(n.kids[0])
	if err != nil {
		return a, err
	}
	switch n.op {
	case "neg":
		return a.neg(), nil
	case "!":
		return boolNumber(a.sign() == 0), nil
	}
	if known := n.op == "&&" && a.sign() == 0 || n.op == "||" && a.sign() != 0; known {
		return boolNumber(a.sign() != 0), nil
	}
	b, err := vm.eval(n.kids[1])
	if err != nil {
		return b, err
	}
	return vm.operate(n.op, a, b)
}

// operate applies an operator of two operands.
func (vm *bcVM) operate(op string, a, b bcNum) (bcNum, error) {
	switch op {
	case "+":
		return vm.add(a, b)
	case "-":
		return vm.add(a, b.neg())
	case "*":
		return vm.mul(a, b, vm.scale)
	case "/":
		return vm.div(a, b, vm.scale)
	case "%":
		return vm.mod(a, b, vm.scale)
	case "^":
		if b.scale > 0 && new(big.Int).Rem(b.v, powerOfTen(b.scale)).Sign() != 0 {
			vm.warn("non-zero scale in exponent")
		}
		return vm.raise(a, b, vm.scale)
	case "&&":
		return boolNumber(a.sign() != 0 && b.sign() != 0), nil
	case "||":
		return boolNumber(a.sign() != 0 || b.sign() != 0), nil
	}
	c, err := vm.calculator.compare(a, b)
	truth := map[string]bool{"==": c == 0, "!=": c != 0, "<": c < 0, "<=": c <= 0, ">": c > 0, ">=": c >= 0}[op]
	return boolNumber(truth), err
}

func (vm *bcVM) warn(msg string) {
	_ = vm.p.Out().Flush()                                                             // what was printed comes first
	_, _ = fmt.Fprintf(vm.p.Stderr, "Runtime warning (func=(main), adr=3): %s\n", msg) // nobody to tell
}

func (vm *bcVM) special(name string) bcNum {
	switch name {
	case "scale":
		return newNum(int64(vm.scale))
	case "ibase":
		return newNum(int64(vm.ibase))
	case "obase":
		return newNum(int64(vm.obase))
	case "last":
		return vm.last
	}
	return newNum(0)
}

// setSpecial assigns scale, ibase, obase or last, within their limits.
func (vm *bcVM) setSpecial(name string, d bcNum) {
	n, ok := d.integer()
	if !ok {
		n = 1 << 30
	}
	clamp := func(low, high int) int {
		if n < low {
			vm.warn(fmt.Sprintf("%s too small, set to %d", name, low))
		}
		if n > high {
			vm.warn(fmt.Sprintf("%s too large, set to %d", name, high))
		}
		return max(low, min(high, n))
	}
	switch name {
	case "scale":
		if n < 0 {
			vm.warn("negative scale, set to 0")
		}
		vm.scale = max(0, min(n, maxDigits/2))
	case "ibase":
		vm.ibase = clamp(2, 36)
	case "obase":
		vm.obase = clamp(2, 1<<30)
	case "last":
		vm.last = d
	}
}

// storeTo assigns d to a variable; i is the index of an element.
func (vm *bcVM) storeTo(l *bcNode, i int, d bcNum) {
	switch l.op {
	case "var":
		vm.setVar(l.text, d)
	case "special":
		vm.setSpecial(l.text, d)
	case "index":
		f := vm.frameOf(l.text, true)
		if f.arrays[l.text] == nil {
			f.arrays[l.text] = make(map[int]bcNum)
		}
		if old, ok := f.arrays[l.text][i]; ok {
			vm.p.Free(cost(old))
		}
		vm.p.Alloc(cost(d))
		f.arrays[l.text][i] = d
	}
}

// place evaluates the subscript of a variable and reads its value.
func (vm *bcVM) place(l *bcNode) (i int, old bcNum, err error) {
	if l.op != "index" {
		old, err = vm.eval(l)
		return 0, old, err
	}
	if i, err = vm.index(l); err != nil {
		return 0, old, err
	}
	old, ok := vm.frameOf(l.text, true).arrays[l.text][i]
	if !ok {
		old = newNum(0)
	}
	return i, old, nil
}

func (vm *bcVM) assign(n *bcNode) (bcNum, error) {
	i, old, err := vm.place(n.kids[0])
	if err != nil {
		return old, err
	}
	d, err := vm.eval(n.kids[1])
	if err == nil && n.text != "" {
		d, err = vm.operate(n.text, old, d)
	}
	if err != nil {
		return d, err
	}
	vm.storeTo(n.kids[0], i, d)
	return d, nil
}

func (vm *bcVM) increment(n *bcNode) (bcNum, error) {
	i, old, err := vm.place(n.kids[0])
	if err != nil {
		return old, err
	}
	step := newNum(1)
	if strings.HasSuffix(n.op, "--") {
		step = newNum(-1)
	}
	d, err := vm.add(old, step)
	if err != nil {
		return d, err
	}
	vm.storeTo(n.kids[0], i, d)
	if strings.HasPrefix(n.op, "post") {
		return old, nil
	}
	return d, nil
}

func (vm *bcVM) builtin(n *bcNode) (bcNum, error) {
	if n.text == "read" || n.text == "random" {
		return vm.input()
	}
	d, err := vm.eval(n.kids[0])
	if err != nil {
		return d, err
	}
	switch n.text {
	case "length":
		return newNum(int64(d.length())), nil
	case "scale":
		return newNum(int64(d.scale)), nil
	}
	return vm.sqrt(d, vm.scale)
}

// input reads a number for read().
func (vm *bcVM) input() (bcNum, error) {
	if vm.read == nil {
		return newNum(0), nil
	}
	_ = vm.p.Out().Flush() // a question may wait for its answer
	s, _ := vm.read()
	s = strings.TrimSpace(s)
	neg := strings.HasPrefix(s, "-")
	s = strings.TrimPrefix(s, "-")
	n := 0
	for n < len(s) && (s[n] == '.' || digitValue(s[n]) >= 0) {
		n++
	}
	if n == 0 {
		return newNum(0), nil
	}
	if err := vm.work(n * 8); err != nil {
		return bcNum{}, err
	}
	d := parseNum(s[:n], vm.ibase)
	if neg {
		d = d.neg()
	}
	return d, nil
}

// call runs a function with a frame of its own.
func (vm *bcVM) call(n *bcNode) (bcNum, error) {
	f := vm.funcs[n.text]
	if f == nil {
		if vm.math && len(n.kids) > 0 {
			if d, ok, err := vm.mathCall(n); ok {
				return d, err
			}
		}
		return bcNum{}, calcError("Function " + n.text + " not defined.")
	}
	if len(n.kids) != len(f.params) {
		return bcNum{}, calcError("Parameter number mismatch")
	}
	if len(vm.frames) >= maxBCCalls || !vm.p.Enter() {
		return bcNum{}, calcError("functions nested too deeply")
	}
	defer vm.p.Leave()
	frame := bcFrame{vars: make(map[string]bcNum), arrays: make(map[string]map[int]bcNum)}
	charged := int64(1024)
	for i, q := range f.params {
		if q.array != (n.kids[i].op == "array") {
			return bcNum{}, calcError("Parameter type mismatch, parameter " + q.name + ".")
		}
		if q.array {
			frame.arrays[q.name] = vm.copyArray(n.kids[i].text)
			charged += int64(len(frame.arrays[q.name])) * bcNumberCost
			continue
		}
		d, err := vm.eval(n.kids[i])
		if err != nil {
			return d, err
		}
		frame.vars[q.name] = d
		charged += cost(d)
	}
	for _, a := range f.autos {
		if a.array {
			frame.arrays[a.name] = make(map[int]bcNum)
		} else {
			frame.vars[a.name] = newNum(0)
		}
	}
	vm.p.Alloc(charged)
	defer vm.p.Free(charged)
	vm.frames = append(vm.frames, frame)
	vm.ret = newNum(0)
	_, err := vm.run(f.body)
	vm.frames = vm.frames[:len(vm.frames)-1]
	d := vm.ret
	vm.ret = newNum(0)
	return d, err
}

func (vm *bcVM) copyArray(name string) map[int]bcNum {
	src := vm.frameOf(name, true).arrays[name]
	vm.p.Tick(len(src))
	dst := make(map[int]bcNum, len(src))
	for k, v := range src {
		dst[k] = v
	}
	return dst
}

// bcFault reports an error that is not of the sandbox.
func bcFault(err error) (string, bool) {
	var c calcError
	if errors.As(err, &c) {
		return string(c), true
	}
	return "", false
}
