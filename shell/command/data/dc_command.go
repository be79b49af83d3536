package data

import (
	"math/big"
	"strings"
)

// runRegisterCommand runs the commands that name a register.
func (vm *dcVM) runRegisterCommand(c, name byte) {
	r := vm.findRegister(name)
	top := len(r.values) - 1
	switch c {
	case 's', 'S':
		v, ok := vm.pop(1)
		if !ok {
			return
		}
		vm.p.Alloc(v[0].memoryCost())
		if c == 'S' || top < 0 {
			r.values = append(r.values, v[0])
			r.arrays = append(r.arrays, nil)
			return
		}
		vm.p.Free(r.values[top].memoryCost())
		r.values[top] = v[0]
	case 'l':
		if top < 0 {
			vm.pushNum(newNum(0))
			return
		}
		vm.push(r.values[top])
	case 'L':
		if top < 0 {
			vm.reportError("stack register '%c' (0%o) is empty", name, name)
			return
		}
		vm.p.Free(r.values[top].memoryCost())
		vm.push(r.values[top])
		r.values, r.arrays = r.values[:top], r.arrays[:top]
	case ':':
		vm.storeElement(r)
	case ';':
		vm.loadElement(r)
	}
}

// dcElementCost is the memory of an element of an array in bytes, without its value: the map is copied when it grows.
const dcElementCost = 160

// storeElement stores a value in the array of a register.
func (vm *dcVM) storeElement(r *dcRegister) {
	if len(vm.stack) < 2 {
		vm.reportError("stack empty")
		return
	}
	v, _ := vm.pop(2)
	i, ok := v[1].n.v, !v[1].isText
	if !ok || i == nil || !i.IsInt64() || i.Sign() < 0 || i.Int64() >= maxBCIndex {
		vm.reportError("array index must be a nonnegative integer")
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
		vm.p.Free(old.memoryCost() + dcElementCost)
	}
	vm.p.Alloc(v[0].memoryCost() + dcElementCost)
	r.arrays[top][int(i.Int64())] = v[0]
}

// loadElement pushes a value from the array of a register.
func (vm *dcVM) loadElement(r *dcRegister) {
	n, ok := vm.popNums(1)
	if !ok {
		return
	}
	i, fits := n[0].toInt()
	if !fits || i < 0 {
		vm.reportError("array index must be a nonnegative integer")
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

// runStackCommand runs the commands for the stack and the output.
func (vm *dcVM) runStackCommand(c byte) bool {
	switch c {
	case 'p':
		if len(vm.stack) == 0 {
			vm.reportError("stack empty")
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
		vm.rotateStack()
	case 'q':
		vm.quit = 2
		if vm.depth <= 2 {
			vm.quit = maxDCDepth
		}
	case 'Q':
		if n, ok := vm.popNums(1); ok {
			if k, fits := n[0].toInt(); fits && k > 0 {
				vm.quit = min(k, maxDCDepth)
			}
		}
	default:
		return false
	}
	return true
}

// rotateStack rotates the top values of the stack, as many as the number on its top.
func (vm *dcVM) rotateStack() {
	n, ok := vm.popNums(1)
	if !ok {
		return
	}
	k, fits := n[0].toInt()
	if !fits {
		return
	}
	count := max(k, -k)
	if count > len(vm.stack) || count < 2 {
		if count > len(vm.stack) {
			vm.reportError("stack empty")
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

// runParameterCommand runs the commands that set parameters or query values.
func (vm *dcVM) runParameterCommand(c byte) bool {
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
		vm.pushMeasure(c, v[0])
	default:
		return false
	}
	return true
}

// setParameter sets the precision, the input base or the output base.
func (vm *dcVM) setParameter(c byte, d bcNum) {
	n, ok := d.toInt()
	switch {
	case c == 'k' && (!ok || n < 0):
		vm.reportError("scale must be a nonnegative integer")
	case c == 'k':
		vm.scale = min(n, maxDigits/2)
	case c == 'i' && (!ok || n < 2 || n > 16):
		vm.reportError("input base must be a number between 2 and 16 (inclusive)")
	case c == 'i':
		vm.ibase = n
	case !ok || n < 2 || n > 1<<30:
		vm.reportError("output base must be a number greater than 1")
	default:
		vm.obase = n
	}
}

// pushMeasure pushes the length, the scale or the first character of a value.
func (vm *dcVM) pushMeasure(c byte, v dcValue) {
	switch {
	case c == 'Z' && v.isText:
		vm.pushNum(newNum(int64(len(v.text))))
	case c == 'Z':
		vm.pushNum(newNum(int64(v.n.countDigits())))
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

// print prints a value; long numbers are wrapped.
func (vm *dcVM) print(v dcValue, end string) {
	out := vm.p.Out()
	if v.isText {
		_, _ = out.WriteString(v.text + end) // Flush reports the error
		return
	}
	s, err := vm.formatNumber(v.n, vm.obase)
	if err != nil {
		vm.reportError("%s", err)
		return
	}
	var b strings.Builder
	for len(s) > 69 {
		b.WriteString(s[:69] + "\\\n")
		s = s[69:]
	}
	_, _ = out.WriteString(b.String() + s + end)
}

// printBytes prints a string, or the bytes of a number.
func (vm *dcVM) printBytes(v dcValue) {
	if v.isText {
		_, _ = vm.p.Out().WriteString(v.text) // Flush reports the error
		return
	}
	_, _ = vm.p.Out().Write(new(big.Int).Abs(v.n.rescale(0).v).Bytes())
}
