package data

import (
	"errors"
	"math/big"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
)

const dcUsage = `Usage: dc [OPTION] [file ...]
  -e, --expression=EXPR    evaluate expression
  -f, --file=FILE          evaluate contents of file
  -h, --help               display this help and exit
  -V, --version            output version information and exit

Numbers have at most 100,000 digits.
`

// dcValue is a number, or a string if isText is set.
type dcValue struct {
	n      bcNum
	text   string
	isText bool
}

func (v dcValue) memoryCost() int64 {
	if v.isText {
		return int64(len(v.text)) + 64
	}
	return numberCost(v.n)
}

// dcRegister is a stack of values, each with an array.
type dcRegister struct {
	values []dcValue
	arrays []map[int]dcValue
}

// dcVM is the state of one run of dc.
type dcVM struct {
	calculator
	stack               []dcValue
	regs                [256]*dcRegister
	scale, ibase, obase int
	depth               int
	quit                int // levels of macros still to leave
	in                  *stream.LineReader
}

const (
	maxDCDepth = 10000
	maxDCStack = 100_000
)

var dcOptions = option.Parser{Options: []option.Option{
	{Short: 'e', Long: "expression", Arg: option.Required}, {Short: 'f', Long: "file", Arg: option.Required}, {Short: 'h', Long: "help"}, {Short: 'V', Long: "version"},
}}

func runDc(p *kernel.Proc) int {
	opts, names, ok := dcOptions.Parse(p)
	if !ok {
		return 1
	}
	vm := &dcVM{calculator: calculator{p}, ibase: 10, obase: 10}
	done := len(names) > 0
	for _, o := range opts {
		switch o.Key {
		case 'e':
			vm.run(o.Value)
			done = true
		case 'f':
			vm.runFile(o.Value)
			done = true
		case 'h':
			_, _ = p.Out().WriteString(dcUsage) // Flush reports the error
			return 0
		case 'V':
			_, _ = p.Out().WriteString("dc of atoll, for the language of GNU dc 1.4.1\n")
			return 0
		}
		if vm.quit > 0 {
			return 0
		}
	}
	for _, n := range names {
		vm.runFile(n)
		if vm.quit > 0 {
			return 0
		}
	}
	if !done {
		vm.runFile("-")
	}
	return 0
}

// runFile runs a file. It runs standard input line by line, except while a bracket is open.
func (vm *dcVM) runFile(name string) {
	in, err := stream.Open(vm.p, name)
	if err != nil {
		vm.p.Errorf("Could not open file %s", name)
		return
	}
	defer stream.Close(in)
	l := stream.NewLineReader(vm.p, in, '\n')
	defer l.Close()
	if name == "-" {
		vm.in = l
	}
	var text strings.Builder
	for vm.quit == 0 {
		if l.Buffered() == 0 {
			_ = vm.p.Out().Flush() // the input may depend on it
		}
		line := l.Next()
		text.Write(line)
		if line != nil && isUnbalanced(text.String()) && text.Len() < 1<<20 {
			continue
		}
		vm.run(text.String())
		text.Reset()
		if line == nil {
			break
		}
	}
}

// isUnbalanced reports whether a bracket of a string is open.
func isUnbalanced(s string) bool {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '[':
			depth++
		case s[i] == ']' && depth > 0:
			depth--
		case s[i] == '#' && depth == 0:
			n := strings.IndexByte(s[i:], '\n')
			if n < 0 {
				return false
			}
			i += n
		}
	}
	return depth > 0
}

func (vm *dcVM) reportError(format string, a ...any) { vm.p.Errorf(format, a...) }

func (vm *dcVM) push(v dcValue) {
	if len(vm.stack) >= maxDCStack {
		vm.reportError("stack full")
		vm.quit = maxDCDepth
		return
	}
	vm.p.Alloc(v.memoryCost())
	vm.stack = append(vm.stack, v)
}

func (vm *dcVM) pushNum(n bcNum) { vm.push(dcValue{n: n}) }

// pop removes and returns n values, the top one last. With fewer on the stack it reports an error and
// returns false.
func (vm *dcVM) pop(n int) ([]dcValue, bool) {
	if len(vm.stack) < n {
		vm.reportError("stack empty")
		return nil, false
	}
	list := append([]dcValue(nil), vm.stack[len(vm.stack)-n:]...)
	for _, v := range list {
		vm.p.Free(v.memoryCost())
	}
	vm.stack = vm.stack[:len(vm.stack)-n]
	return list, true
}

// popNums is like pop for numbers; it leaves strings on the stack.
func (vm *dcVM) popNums(n int) ([]bcNum, bool) {
	if len(vm.stack) < n {
		vm.reportError("stack empty")
		return nil, false
	}
	nums := make([]bcNum, n)
	for i, v := range vm.stack[len(vm.stack)-n:] {
		if v.isText {
			vm.reportError("non-numeric value")
			return nil, false
		}
		nums[i] = v.n
	}
	_, _ = vm.pop(n)
	return nums, true
}

func (vm *dcVM) findRegister(c byte) *dcRegister {
	if vm.regs[c] == nil {
		vm.regs[c] = &dcRegister{}
	}
	return vm.regs[c]
}

// run runs a text. A macro called at the end of a macro replaces it, as a tail call.
func (vm *dcVM) run(s string) {
	vm.depth++
	defer func() { vm.depth-- }()
	if vm.depth > maxDCDepth || vm.depth%16 == 0 && !vm.p.Enter() {
		vm.reportError("macros nested too deeply")
		return
	}
	if vm.depth%16 == 0 {
		defer vm.p.Leave()
	}
	tails := 0
	for i := 0; i < len(s) && vm.quit == 0; {
		vm.p.Tick(1)
		n, tail := vm.runCommand(s[i:])
		i += n
		if tail != nil {
			if strings.TrimSpace(s[i:]) == "" {
				s, i = *tail, 0
				tails++
				continue
			}
			vm.run(*tail)
			if vm.quit > 0 {
				vm.quit--
			}
		}
	}
	for ; tails > 0 && vm.quit > 1; tails-- {
		vm.quit-- // the callers that were replaced
	}
}

// runCommand runs the command at the head of s. It returns the length of the command, and the macro
// that it calls, if any.
func (vm *dcVM) runCommand(s string) (used int, macro *string) {
	c := s[0]
	switch {
	case strings.IndexByte(" \t\n\r\f\v", c) >= 0:
		return 1, nil
	case digitValue(c) >= 0 && c <= 'F' || c == '.' || c == '_':
		return vm.pushLiteral(s), nil
	case c == '[':
		return vm.pushString(s), nil
	case c == '#':
		if n := strings.IndexByte(s, '\n'); n >= 0 {
			return n, nil
		}
		return len(s), nil
	case strings.IndexByte("+-*/%^~|v", c) >= 0:
		vm.runArithmetic(c)
		return 1, nil
	case strings.IndexByte("slSL:;", c) >= 0:
		if len(s) < 2 {
			return 1, nil
		}
		vm.runRegisterCommand(c, s[1])
		return 2, nil
	case strings.IndexByte("<>=!", c) >= 0:
		return vm.runConditional(s)
	case c == 'x' || c == '?':
		return 1, vm.runMacro(c)
	}
	if !vm.runStackCommand(c) && !vm.runParameterCommand(c) {
		vm.reportError("'%c' (0%o) unimplemented", c, c)
	}
	return 1, nil
}

// pushLiteral pushes the number at the head of s and returns its length.
func (vm *dcVM) pushLiteral(s string) int {
	i := 0
	neg := s[0] == '_'
	if neg {
		i++
	}
	start, point := i, false
	for i < len(s) && (s[i] == '.' && !point || digitValue(s[i]) >= 0 && s[i] <= 'F') {
		point = point || s[i] == '.'
		i++
	}
	if err := vm.chargeWork((i - start) * 8); err != nil {
		vm.reportError("%s", err)
		return i
	}
	d := newNum(0)
	if text := s[start:i]; text != "" && text != "." {
		d = parseDC(text, vm.ibase)
	}
	if neg {
		d = d.neg()
	}
	vm.pushNum(d)
	return i
}

// parseDC parses a number; digits keep their value in any base.
func parseDC(s string, base int) bcNum {
	whole, frac, _ := strings.Cut(s, ".")
	if base == 10 && strings.Trim(s, "0123456789.") == "" {
		return parseNum(whole+"."+frac, 10)
	}
	v, b := new(big.Int), big.NewInt(int64(base))
	for i := range len(whole) + len(frac) {
		v.Mul(v, b)
		v.Add(v, big.NewInt(int64(digitValue((whole + frac)[i]))))
	}
	v.Mul(v, powerOfTen(len(frac)))
	v.Quo(v, new(big.Int).Exp(b, big.NewInt(int64(len(frac))), nil))
	return bcNum{v, len(frac)}
}

// pushString pushes the string in brackets at the head of s and returns its length.
func (vm *dcVM) pushString(s string) int {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				vm.push(dcValue{text: s[1:i], isText: true})
				return i + 1
			}
		}
	}
	vm.push(dcValue{text: s[1:], isText: true})
	return len(s)
}

func (vm *dcVM) runArithmetic(c byte) {
	count := map[byte]int{'v': 1, '|': 3}[c]
	if count == 0 {
		count = 2
	}
	n, ok := vm.popNums(count)
	if !ok {
		return
	}
	var r []bcNum
	var err error
	one := func(d bcNum, e error) { r, err = []bcNum{d}, e }
	switch c {
	case '+':
		one(vm.add(n[0], n[1]))
	case '-':
		one(vm.add(n[0], n[1].neg()))
	case '*':
		one(vm.mul(n[0], n[1], vm.scale))
	case '/':
		one(vm.div(n[0], n[1], vm.scale))
	case '%':
		one(vm.mod(n[0], n[1], vm.scale))
	case '^':
		one(vm.raiseTo(n[0], n[1], vm.scale))
	case 'v':
		one(vm.sqrt(n[0], vm.scale))
	case '|':
		one(vm.modExp(n[0], n[1], n[2]))
	case '~':
		var q, m bcNum
		if q, err = vm.div(n[0], n[1], vm.scale); err == nil {
			m, err = vm.mod(n[0], n[1], vm.scale)
		}
		r = []bcNum{q, m}
	}
	if err != nil {
		for _, v := range n {
			vm.pushNum(v)
		}
		vm.reportError("%s", errorText(err))
		return
	}
	for _, v := range r {
		vm.pushNum(v)
	}
}

// errorText returns the message of an error in the words of GNU dc.
func errorText(err error) string {
	switch {
	case errors.Is(err, errDivideByZero):
		return "divide by zero"
	case errors.Is(err, errModuloByZero):
		return "remainder by zero"
	case errors.Is(err, errNegativeRoot):
		return "square root of negative number"
	}
	return err.Error()
}

// modExp returns a to the power of e modulo m.
func (vm *dcVM) modExp(a, e, m bcNum) (bcNum, error) {
	x, y, z := a.rescale(0).v, e.rescale(0).v, m.rescale(0).v
	if z.Sign() == 0 {
		return a, errModuloByZero
	}
	if bits := y.BitLen() * (z.BitLen() + 64); y.Sign() < 0 || bits > 1<<22 {
		return a, errTooManyDigit
	}
	if err := vm.chargeWork(x.BitLen() + z.BitLen()); err != nil {
		return a, err
	}
	return bcNum{v: new(big.Int).Exp(x, y, z)}, nil
}

// runConditional runs a conditional call: <r, !<r and so on; a bare ! runs a shell command.
func (vm *dcVM) runConditional(s string) (used int, macro *string) {
	not := s[0] == '!'
	i := 0
	if not {
		i = 1
	}
	if i+1 >= len(s) || strings.IndexByte("<>=", s[i]) < 0 {
		if not {
			line, _, _ := strings.Cut(s[1:], "\n")
			vm.p.Run("sh", "-c", line)
			return 1 + len(line), nil
		}
		return len(s), nil
	}
	n, ok := vm.popNums(2)
	if !ok {
		return i + 2, nil
	}
	c, err := vm.calculator.compare(n[1], n[0])
	if err != nil {
		vm.reportError("%s", err)
		return i + 2, nil
	}
	truth := map[byte]bool{'<': c < 0, '>': c > 0, '=': c == 0}[s[i]]
	if truth == not {
		return i + 2, nil
	}
	r := vm.findRegister(s[i+1])
	if len(r.values) == 0 {
		return i + 2, nil
	}
	return i + 2, vm.macroText(r.values[len(r.values)-1])
}

// macroText returns the text of a macro. A number is pushed back instead.
func (vm *dcVM) macroText(v dcValue) *string {
	if !v.isText {
		vm.push(v)
		return nil
	}
	return &v.text
}

func (vm *dcVM) runMacro(c byte) *string {
	if c == '?' {
		if vm.in == nil {
			vm.in = stream.NewLineReader(vm.p, vm.p.Stdin, '\n')
		}
		_ = vm.p.Out().Flush() // the user may have to see it first
		line := string(vm.in.Next())
		return &line
	}
	v, ok := vm.pop(1)
	if !ok {
		return nil
	}
	return vm.macroText(v[0])
}
