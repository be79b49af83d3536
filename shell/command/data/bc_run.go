package data

import (
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// bcFrame holds the variables of the program or of a call.
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
	frames              []bcFrame // of the active calls
	funcs               map[string]*bcFunc
	math                bool
	width               int // of output lines, 0 for no limit
	col                 int
	ret                 bcNum
	read                func() (string, bool)
}

// bcFlow is how a statement ends.
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
	// bcNumberCost is the memory charged for a variable besides its digits.
	bcNumberCost = 96
	maxBCIndex   = 1 << 24
)

func newBC(p *kernel.Proc) *bcVM {
	return &bcVM{
		calculator: calculator{p}, ibase: 10, obase: 10, last: newNum(0), funcs: make(map[string]*bcFunc), width: 70,
		globals: bcFrame{vars: make(map[string]bcNum), arrays: make(map[string]map[int]bcNum)},
	}
}

// findFrame returns the innermost frame with the name. A call sees the variables of its callers.
func (vm *bcVM) findFrame(name string, array bool) *bcFrame {
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

func numberCost(d bcNum) int64 { return int64(d.v.BitLen()/8) + bcNumberCost }

func (vm *bcVM) setVar(name string, d bcNum) {
	f := vm.findFrame(name, false)
	if old, ok := f.vars[name]; ok {
		vm.p.Free(numberCost(old))
	}
	vm.p.Alloc(numberCost(d))
	f.vars[name] = d
}

func (vm *bcVM) getVar(name string) bcNum {
	if d, ok := vm.findFrame(name, false).vars[name]; ok {
		return d
	}
	return newNum(0)
}

// evalSubscript returns the index of an array element.
func (vm *bcVM) evalSubscript(n *bcNode) (int, error) {
	d, err := vm.eval(n.kids[0])
	if err != nil {
		return 0, err
	}
	i, ok := d.toInt()
	if !ok || i < 0 || i >= maxBCIndex {
		return 0, calcError("Array " + n.text + " subscript out of bounds.")
	}
	return i, nil
}

// run executes a statement.
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
		return bcOn, vm.printValue(n.kids[0])
	case "print":
		return bcOn, vm.print(n)
	case "if":
		return vm.runIf(n)
	case "for":
		return vm.runLoop(n)
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

func (vm *bcVM) runIf(n *bcNode) (bcFlow, error) {
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

func (vm *bcVM) runLoop(n *bcNode) (bcFlow, error) {
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

// unescapeString replaces the escapes of a string for print.
func unescapeString(s string) string {
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
			vm.write(unescapeString(k.text))
			continue
		}
		d, err := vm.eval(k)
		if err != nil {
			return err
		}
		if err := vm.writeNumber(d); err != nil {
			return err
		}
	}
	return nil
}

func (vm *bcVM) printValue(n *bcNode) error {
	d, err := vm.eval(n)
	if err != nil {
		return err
	}
	if n.op == "call" && vm.funcs[n.text] != nil && vm.funcs[n.text].void {
		return nil
	}
	if err := vm.writeNumber(d); err != nil {
		return err
	}
	vm.write("\n")
	return nil
}

// writeNumber prints a number and sets last to it.
func (vm *bcVM) writeNumber(d bcNum) error {
	vm.last = d
	s, err := vm.formatNumber(d, vm.obase)
	if err != nil {
		return err
	}
	out := vm.p.Out()
	for i := range len(s) {
		if vm.width > 0 && vm.col >= vm.width-2 {
			_, _ = out.WriteString("\\\n") // Flush reports the error
			vm.col = 0
		}
		_ = out.WriteByte(s[i])
		vm.col++
	}
	return nil
}

// write prints a string unchanged.
func (vm *bcVM) write(s string) {
	_, _ = vm.p.Out().WriteString(s) // Flush reports the error
	if i := strings.LastIndexByte(s, '\n'); i >= 0 {
		vm.col = len(s) - i - 1
	} else {
		vm.col += len(s)
	}
}

func numFromBool(b bool) bcNum {
	if b {
		return newNum(1)
	}
	return newNum(0)
}

// eval evaluates an expression.
func (vm *bcVM) eval(n *bcNode) (bcNum, error) {
	vm.p.Tick(1)
	switch n.op {
	case "number":
		if err := vm.chargeWork(len(n.text) * 8); err != nil {
			return bcNum{}, err
		}
		return parseNum(n.text, vm.ibase), nil
	case "var":
		return vm.getVar(n.text), nil
	case "special":
		return vm.specialValue(n.text), nil
	case "index":
		i, err := vm.evalSubscript(n)
		if err != nil {
			return bcNum{}, err
		}
		if d, ok := vm.findFrame(n.text, true).arrays[n.text][i]; ok {
			return d, nil
		}
		return newNum(0), nil
	case "assign":
		return vm.evalAssignment(n)
	case "pre++", "pre--", "post++", "post--":
		return vm.evalIncrement(n)
	case "call":
		return vm.callFunction(n)
	case "builtin":
		return vm.callBuiltin(n)
	}
	a, err := vm.eval(n.kids[0])
	if err != nil {
		return a, err
	}
	switch n.op {
	case "neg":
		return a.neg(), nil
	case "!":
		return numFromBool(a.sign() == 0), nil
	}
	if known := n.op == "&&" && a.sign() == 0 || n.op == "||" && a.sign() != 0; known {
		return numFromBool(a.sign() != 0), nil
	}
	b, err := vm.eval(n.kids[1])
	if err != nil {
		return b, err
	}
	return vm.applyOperator(n.op, a, b)
}

// applyOperator applies a binary operator.
func (vm *bcVM) applyOperator(op string, a, b bcNum) (bcNum, error) {
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
			vm.printWarning("non-zero scale in exponent")
		}
		return vm.raiseTo(a, b, vm.scale)
	case "&&":
		return numFromBool(a.sign() != 0 && b.sign() != 0), nil
	case "||":
		return numFromBool(a.sign() != 0 || b.sign() != 0), nil
	}
	c, err := vm.calculator.compare(a, b)
	truth := map[string]bool{"==": c == 0, "!=": c != 0, "<": c < 0, "<=": c <= 0, ">": c > 0, ">=": c >= 0}[op]
	return numFromBool(truth), err
}

func (vm *bcVM) printWarning(msg string) {
	_ = vm.p.Out().Flush()                                                             // earlier output comes first
	_, _ = fmt.Fprintf(vm.p.Stderr, "Runtime warning (func=(main), adr=3): %s\n", msg) // best effort
}

// specialValue returns scale, ibase, obase or last.
func (vm *bcVM) specialValue(name string) bcNum {
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
	n, ok := d.toInt()
	if !ok {
		n = 1 << 30
	}
	clamp := func(low, high int) int {
		if n < low {
			vm.printWarning(fmt.Sprintf("%s too small, set to %d", name, low))
		}
		if n > high {
			vm.printWarning(fmt.Sprintf("%s too large, set to %d", name, high))
		}
		return max(low, min(high, n))
	}
	switch name {
	case "scale":
		if n < 0 {
			vm.printWarning("negative scale, set to 0")
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

// assignTo assigns d to a variable, or to element i of an array.
func (vm *bcVM) assignTo(l *bcNode, i int, d bcNum) {
	switch l.op {
	case "var":
		vm.setVar(l.text, d)
	case "special":
		vm.setSpecial(l.text, d)
	case "index":
		f := vm.findFrame(l.text, true)
		if f.arrays[l.text] == nil {
			f.arrays[l.text] = make(map[int]bcNum)
		}
		if old, ok := f.arrays[l.text][i]; ok {
			vm.p.Free(numberCost(old))
		}
		vm.p.Alloc(numberCost(d))
		f.arrays[l.text][i] = d
	}
}

// evalPlace evaluates the subscript of a variable and returns it with the current value.
func (vm *bcVM) evalPlace(l *bcNode) (i int, old bcNum, err error) {
	if l.op != "index" {
		old, err = vm.eval(l)
		return 0, old, err
	}
	if i, err = vm.evalSubscript(l); err != nil {
		return 0, old, err
	}
	old, ok := vm.findFrame(l.text, true).arrays[l.text][i]
	if !ok {
		old = newNum(0)
	}
	return i, old, nil
}

// evalAssignment evaluates an assignment, possibly with an operator.
func (vm *bcVM) evalAssignment(n *bcNode) (bcNum, error) {
	i, old, err := vm.evalPlace(n.kids[0])
	if err != nil {
		return old, err
	}
	d, err := vm.eval(n.kids[1])
	if err == nil && n.text != "" {
		d, err = vm.applyOperator(n.text, old, d)
	}
	if err != nil {
		return d, err
	}
	vm.assignTo(n.kids[0], i, d)
	return d, nil
}

// evalIncrement evaluates ++ and --, before or after a variable.
func (vm *bcVM) evalIncrement(n *bcNode) (bcNum, error) {
	i, old, err := vm.evalPlace(n.kids[0])
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
	vm.assignTo(n.kids[0], i, d)
	if strings.HasPrefix(n.op, "post") {
		return old, nil
	}
	return d, nil
}

// callBuiltin calls length, scale, sqrt, read or random.
func (vm *bcVM) callBuiltin(n *bcNode) (bcNum, error) {
	if n.text == "read" || n.text == "random" {
		return vm.readNumber()
	}
	d, err := vm.eval(n.kids[0])
	if err != nil {
		return d, err
	}
	switch n.text {
	case "length":
		return newNum(int64(d.countDigits())), nil
	case "scale":
		return newNum(int64(d.scale)), nil
	}
	return vm.sqrt(d, vm.scale)
}

// readNumber reads a number for read().
func (vm *bcVM) readNumber() (bcNum, error) {
	if vm.read == nil {
		return newNum(0), nil
	}
	_ = vm.p.Out().Flush() // the user may have to see it first
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
	if err := vm.chargeWork(n * 8); err != nil {
		return bcNum{}, err
	}
	d := parseNum(s[:n], vm.ibase)
	if neg {
		d = d.neg()
	}
	return d, nil
}

// callFunction calls a function with a frame of its own.
func (vm *bcVM) callFunction(n *bcNode) (bcNum, error) {
	f := vm.funcs[n.text]
	if f == nil {
		if vm.math && len(n.kids) > 0 {
			if d, ok, err := vm.callMath(n); ok {
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
		charged += numberCost(d)
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

// copyArray copies an array that is passed to a function.
func (vm *bcVM) copyArray(name string) map[int]bcNum {
	src := vm.findFrame(name, true).arrays[name]
	vm.p.Tick(len(src))
	dst := make(map[int]bcNum, len(src))
	for k, v := range src {
		dst[k] = v
	}
	return dst
}

// faultMessage returns the message for an error of bc, and false for an error of the sandbox.
func faultMessage(err error) (string, bool) {
	var c calcError
	if errors.As(err, &c) {
		return string(c), true
	}
	return "", false
}
