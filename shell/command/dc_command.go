package command

import (
	"math/big"
	"strings"
)

// register runs the commands that name a register.
func (vm *dcVM) register(c, name byte) {
	r := vm.reg(name)
	top := len(r.values) - 1
	switch c {
	case 's', 'S':
		v, ok := vm.pop(1)
		if !ok {
			return
		}
		vm.p.Alloc(v[0].cost())
		if c == 'S' || top < 0 {
			r.values = append(r.values, v[0])
			r.arrays = append(r.arrays, nil)
			return
		}
		vm.p.Free(r.values[top].cost())
		r.values[top] = v[0]
	case 'l':
		if top < 0 {
			vm.pushNum(newNum(0))
			return
		}
		vm.push(r.values[top])
	case 'L':
		if top < 0 {
			vm.complain("stack register '%c' (0%o) is empty", name, name)
			return
		}
		vm.p.Free(r.values[top].cost())
		vm.push(r.values[top])
		r.values, r.arrays = r.values[:top], r.arrays[:top]
	case ':':
		vm.arrayStore(r)
	case ';':
		vm.arrayLoad(r)
	}
}

func (vm *dcVM) arrayStore(r *dcRegister) {
	if len(vm.stack) < 2 {
		vm.complain("stack empty")
		return
	}
	v, _ := vm.pop(2)
	i, ok := v[1].n.v, !v[1].isText
	if !ok || i == nil || !i.IsInt64() || i.Sign() < 0 || i.Int64() >= maxBCIndex {
		vm.complain("array index must be a nonnegative integer")
		return
	}
	if len(r.values) == 0 {
		r.values, r.arrays = append(r.values, dcValue{n: newNum(0)}), append(r.arrays, nil)
	}
	top := len(r.arrays) - 1
	if r.arrays[top] == nil {
		r.arrays[top] = make(map[int]dcValue)
	}
	if old, ok := r.arrays[top][int(i.Int64())]; ok {
		vm.p.Free(old.cost())
	}
	vm.p.Alloc(v[0].cost())
	r.arrays[top][int(i.Int64())] = v[0]
}

func (vm *dcVM) arrayLoad(r *dcRegister) {
	n, ok := vm.popNums(1)
	if !ok {
		return
	}
	i, fits := n[0].integer()
	if !fits || i < 0 {
		vm.complain("array index must be a nonnegative integer")
		return
	}
	if top := len(r.arrays) - 1; top >= 0 {
		if v, ok := r.arrays[top][i]; ok {
			vm.push(v)
			return
		}
	}
	vm.pushNum(newNum(0))
}

// command runs the commands about the stack and the output.
func (vm *dcVM) command(c byte) bool {
	switch c {
	case 'p':
		if len(vm.stack) == 0 {
			vm.complain("stack empty")
			return true
		}
		vm.print(vm.stack[len(vm.stack)-1], "\n")
	case 'n':
		if v, ok := vm.pop(1); ok {
			vm.print(v[0], "")
		}
	case 'P':
		if v, ok := vm.pop(1); ok {
			vm.printBytes(v[0])
		}
	case 'f':
		for i := len(vm.stack) - 1; i >= 0; i-- {
			vm.print(vm.stack[i], "\n")
		}
	case 'c':
		_, _ = vm.pop(len(vm.stack))
	case 'd':
		if v, ok := vm.pop(1); ok {
			vm.push(v[0])
			vm.push(v[0])
		}
	case 'r':
		if v, ok := vm.pop(2); ok {
			vm.push(v[1])
			vm.push(v[0])
		}
	case 'R':
		vm.rotate()
	case 'q':
		vm.quit = 2
		if vm.depth <= 2 {
			vm.quit = maxDCDepth
		}
	case 'Q':
		if n, ok := vm.popNums(1); ok {
			if k, fits := n[0].integer(); fits && k > 0 {
				vm.quit = min(k, maxDCDepth)
			}
		}
	default:
		return false
	}
	return true
}

func (vm *dcVM) rotate() {
	n, ok := vm.popNums(1)
	if !ok {
		return
	}
	k, fits := n[0].integer()
	if !fits {
		return
	}
	count := max(k, -k)
	if count > len(vm.stack) || count < 2 {
		if count > len(vm.stack) {
			vm.complain("stack empty")
		}
		return
	}
	part := vm.stack[len(vm.stack)-count:]
	vm.p.Tick(count)
	if k > 0 {
		first := part[0]
		copy(part, part[1:])
		part[count-1] = first
		return
	}
	last := part[count-1]
	copy(part[1:], part[:count-1])
	part[0] = last
}

// about runs the commands that set parameters or ask about values.
func (vm *dcVM) about(c byte) bool {
	ask := map[byte]int{'K': vm.scale, 'I': vm.ibase, 'O': vm.obase, 'z': len(vm.stack)}
	if n, ok := ask[c]; ok {
		vm.pushNum(newNum(int64(n)))
		return true
	}
	switch c {
	case 'k', 'i', 'o':
		if n, ok := vm.popNums(1); ok {
			vm.setParameter(c, n[0])
		}
	case 'Z', 'X', 'a':
		v, ok := vm.pop(1)
		if !ok {
			return true
		}
		vm.measure(c, v[0])
	default:
		return false
	}
	return true
}

func (vm *dcVM) setParameter(c byte, d bcNum) {
	n, ok := d.integer()
	switch {
	case c == 'k' && (!ok || n < 0):
		vm.complain("scale must be a nonnegative integer")
	case c == 'k':
		vm.scale = min(n, maxDigits/2)
	case c == 'i' && (!ok || n < 2 || n > 16):
		vm.complain("input base must be a number between 2 and 16 (inclusive)")
	case c == 'i':
		vm.ibase = n
	case !ok || n < 2 || n > 1<<30:
		vm.complain("output base must be a number greater than 1")
	default:
		vm.obase = n
	}
}

func (vm *dcVM) measure(c byte, v dcValue) {
	switch {
	case c == 'Z' && v.isText:
		vm.pushNum(newNum(int64(len(v.text))))
	case c == 'Z':
		vm.pushNum(newNum(int64(v.n.length())))
	case c == 'X' && v.isText:
		vm.pushNum(newNum(0))
	case c == 'X':
		vm.pushNum(newNum(int64(v.n.scale)))
	case v.isText:
		vm.push(dcValue{text: v.text[:min(1, len(v.text))], isText: true})
	default:
		b := new(big.Int).And(new(big.Int).Abs(v.n.rescale(0).v), big.NewInt(255))
		vm.push(dcValue{text: string([]byte{byte(b.Int64())}), isText: true})
	}
}

// print writes a value; long numbers are broken over lines.
func (vm *dcVM) print(v dcValue, end string) {
	out := vm.p.Out()
	if v.isText {
		_, _ = out.WriteString(v.text + end) // shows at the flush
		return
	}
	s, err := vm.text(v.n, vm.obase)
	if err != nil {
		vm.complain("%s", err)
		return
	}
	var b strings.Builder
	for len(s) > 69 {
		b.WriteString(s[:69] + "\\\n")
		s = s[69:]
	}
	_, _ = out.WriteString(b.String() + s + end)
}

// printBytes writes a string, or the bytes of a number.
func (vm *dcVM) printBytes(v dcValue) {
	if v.isText {
		_, _ = vm.p.Out().WriteString(v.text) // shows at the flush
		return
	}
	_, _ = vm.p.Out().Write(new(big.Int).Abs(v.n.rescale(0).v).Bytes())
}
