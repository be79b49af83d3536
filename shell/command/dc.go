package command

import (
	"errors"
	"math/big"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

const dcUsage = `Usage: dc [OPTION] [file ...]
  -e, --expression=EXPR    evaluate expression
  -f, --file=FILE          evaluate contents of file
  -h, --help               display this help and exit
  -V, --version            output version information and exit

Numbers have at most 100,000 digits.
`

// dcValue is a number, or a string where isText is set.
type dcValue struct {
	n      bcNum
	text   string
	isText bool
}

func (v dcValue) cost() int64 {
	if v.isText {
		return int64(len(v.text)) + 64
	}
	return cost(v.n)
}

// dcRegister is a stack of values, each with an array.
type dcRegister struct {
	values []dcValue
	arrays []map[int]dcValue
}

// dcVM is a desk calculator.
type dcVM struct {
	calculator
	stack               []dcValue
	regs                [256]*dcRegister
	scale, ibase, obase int
	depth               int
	quit                int // how many levels of macros are left
	in                  *lines
}

const (
	maxDCDepth = 10000
	maxDCStack = 100_000
)

var dcOptions = parsing{options: []option{
	{short: 'e', long: "expression", arg: required}, {short: 'f', long: "file", arg: required}, {short: 'h', long: "help"}, {short: 'V', long: "version"},
}}

func dc(p *kernel.Proc) int {
	opts, names, ok := dcOptions.parse(p)
	if !ok {
		return 1
	}
	vm := &dcVM{calculator: calculator{p}, ibase: 10, obase: 10}
	done := len(names) > 0
	for _, o := range opts {
		switch o.key {
		case 'e':
			vm.run(o.value)
			done = true
		case 'f':
			vm.file(o.value)
			done = true
		case 'h':
			_, _ = p.Out().WriteString(dcUsage) // shows at the flush
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
		vm.file(n)
		if vm.quit > 0 {
			return 0
		}
	}
	if !done {
		vm.file("-")
	}
	return 0
}

// file runs a file. Standard input is run as it comes, line by line, as long
// as no bracket is open.
func (vm *dcVM) file(name string) {
	in, err := open(vm.p, name)
	if err != nil {
		vm.p.Errorf("Could not open file %s", name)
		return
	}
	defer closeInput(in)
	l := newLines(vm.p, in, '\n')
	defer l.close()
	if name == "-" {
		vm.in = l
	}
	var text strings.Builder
	for vm.quit == 0 {
		if l.at == l.end {
			_ = vm.p.Out().Flush() // an answer may wait for a question
		}
		line := l.next()
		text.Write(line)
		if line != nil && unbalanced(text.String()) && text.Len() < 1<<20 {
			continue
		}
		vm.run(text.String())
		text.Reset()
		if line == nil {
			break
		}
	}
}

// unbalanced reports whether a bracket of a string is still open.
func unbalanced(s string) bool {
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

func (vm *dcVM) complain(format string, a ...any) { vm.p.Errorf(format, a...) }

func (vm *dcVM) push(v dcValue) {
	if len(vm.stack) >= maxDCStack {
		vm.complain("stack full")
		vm.quit = maxDCDepth
		return
	}
	vm.p.Alloc(v.cost())
	vm.stack = append(vm.stack, v)
}

func (vm *dcVM) pushNum(n bcNum) { vm.push(dcValue{n: n}) }

// pop takes n values, the top one last; without enough it complains.
func (vm *dcVM) pop(n int) ([]dcValue, bool) {
	if len(vm.stack) < n {
		vm.complain("stack empty")
		return nil, false
	}
	list := append([]dcValue(nil), vm.stack[len(vm.stack)-n:]...)
	for _, v := range list {
		vm.p.Free(v.cost())
	}
	vm.stack = vm.stack[:len(vm.stack)-n]
	return list, true
}

// popNums is pop for numbers; strings stay where they are.
func (vm *dcVM) popNums(n int) ([]bcNum, bool) {
	if len(vm.stack) < n {
		vm.complain("stack empty")
		return nil, false
	}
	nums := make([]bcNum, n)
	for i, v := range vm.stack[len(vm.stack)-n:] {
		if v.isText {
			vm.complain("non-numeric value")
			return nil, false
		}
		nums[i] = v.n
	}
	_, _ = vm.pop(n)
	return nums, true
}

func (vm *dcVM) reg(c byte) *dcRegister {
	if vm.regs[c] == nil {
		vm.regs[c] = &dcRegister{}
	}
	return vm.regs[c]
}

// run runs a text. A macro that ends its caller takes the caller's place.
func (vm *dcVM) run(s string) {
	vm.depth++
	defer func() { vm.depth-- }()
	if vm.depth > maxDCDepth || vm.depth%16 == 0 && !vm.p.Enter() {
		vm.complain("macros nested too deeply")
		return
	}
	if vm.depth%16 == 0 {
		defer vm.p.Leave()
	}
	tails := 0
	for i := 0; i < len(s) && vm.quit == 0; {
		vm.p.Tick(1)
		n, tail := vm.step(s[i:])
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

// step runs one command and returns how long it was, and the macro that it
// calls.
func (vm *dcVM) step(s string) (used int, macro *string) {
	c := s[0]
	switch {
	case strings.IndexByte(" \t\n\r\f\v", c) >= 0:
		return 1, nil
	case digitValue(c) >= 0 && c <= 'F' || c == '.' || c == '_':
		return vm.number(s), nil
	case c == '[':
		return vm.str(s), nil
	case c == '#':
		if n := strings.IndexByte(s, '\n'); n >= 0 {
			return n, nil
		}
		return len(s), nil
	case strings.IndexByte("+-*/%^~|v", c) >= 0:
		vm.arithmetic(c)
		return 1, nil
	case strings.IndexByte("slSL:;", c) >= 0:
		if len(s) < 2 {
			return 1, nil
		}
		vm.register(c, s[1])
		return 2, nil
	case strings.IndexByte("<>=!", c) >= 0:
		return vm.compared(s)
	case c == 'x' || c == '?':
		return 1, vm.execute(c)
	}
	if !vm.command(c) && !vm.about(c) {
		vm.complain("'%c' (0%o) unimplemented", c, c)
	}
	return 1, nil
}

func (vm *dcVM) number(s string) int {
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
	if err := vm.work((i - start) * 8); err != nil {
		vm.complain("%s", err)
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

// parseDC reads a number, whose digits have their values in any base.
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

func (vm *dcVM) str(s string) int {
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

func (vm *dcVM) arithmetic(c byte) {
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
		one(vm.raise(n[0], n[1], vm.scale))
	case 'v':
		one(vm.sqrt(n[0], vm.scale))
	case '|':
		one(vm.modexp(n[0], n[1], n[2]))
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
		vm.complain("%s", dcWords(err))
		return
	}
	for _, v := range r {
		vm.pushNum(v)
	}
}

// dcWords returns an error in the words of dc.
func dcWords(err error) string {
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

func (vm *dcVM) modexp(a, e, m bcNum) (bcNum, error) {
	x, y, z := a.rescale(0).v, e.rescale(0).v, m.rescale(0).v
	if z.Sign() == 0 {
		return a, errModuloByZero
	}
	if bits := y.BitLen() * (z.BitLen() + 64); y.Sign() < 0 || bits > 1<<22 {
		return a, errTooManyDigit
	}
	if err := vm.work(x.BitLen() + z.BitLen()); err != nil {
		return a, err
	}
	return bcNum{v: new(big.Int).Exp(x, y, z)}, nil
}

// compared runs a conditional call: <r, !<r and so on; ! alone runs a
// command of the system.
func (vm *dcVM) compared(s string) (used int, macro *string) {
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
		vm.complain("%s", err)
		return i + 2, nil
	}
	truth := map[byte]bool{'<': c < 0, '>': c > 0, '=': c == 0}[s[i]]
	if truth == not {
		return i + 2, nil
	}
	r := vm.reg(s[i+1])
	if len(r.values) == 0 {
		return i + 2, nil
	}
	return i + 2, vm.macroOf(r.values[len(r.values)-1])
}

// macroOf returns the text of a macro; a number is only pushed.
func (vm *dcVM) macroOf(v dcValue) *string {
	if !v.isText {
		vm.push(v)
		return nil
	}
	return &v.text
}

func (vm *dcVM) execute(c byte) *string {
	if c == '?' {
		if vm.in == nil {
			vm.in = newLines(vm.p, vm.p.Stdin, '\n')
		}
		_ = vm.p.Out().Flush() // a question may wait for its answer
		line := string(vm.in.next())
		return &line
	}
	v, ok := vm.pop(1)
	if !ok {
		return nil
	}
	return vm.macroOf(v[0])
}
