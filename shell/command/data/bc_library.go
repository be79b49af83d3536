package data

import "math/big"

// callMath calls a function of bc -l. It computes the result with extra digits and truncates it to
// scale. known is false if there is no such function.
func (vm *bcVM) callMath(n *bcNode) (d bcNum, known bool, err error) {
	f := map[string]func(x bcNum, scale int) (bcNum, error){
		"e": vm.exp, "l": vm.log, "s": vm.sin, "c": vm.cos, "a": vm.atan,
	}[n.text]
	switch {
	case n.text == "j" && len(n.kids) == 2:
		return vm.callBessel(n)
	case f == nil || len(n.kids) != 1:
		return d, false, nil
	}
	x, err := vm.eval(n.kids[0])
	if err != nil {
		return d, true, err
	}
	if vm.scale > maxDigits/100 {
		return d, true, errTooManyDigit
	}
	d, err = f(x, vm.scale)
	return d, true, err
}

// fixed is fixed-point arithmetic: an integer n stands for n / 10^digits.
type fixed struct {
	vm     *bcVM
	digits int
	one    *big.Int
}

func (vm *bcVM) newFixed(digits int) fixed { return fixed{vm, digits, powerOfTen(digits)} }

func (f fixed) fromNum(d bcNum) *big.Int { return d.rescale(f.digits).v }

func (f fixed) mul(a, b *big.Int) *big.Int {
	f.vm.p.Tick(1 + f.digits>>4)
	r := new(big.Int).Mul(a, b)
	return r.Quo(r, f.one)
}

func (f fixed) div(a, b *big.Int) *big.Int {
	f.vm.p.Tick(1 + f.digits>>4)
	r := new(big.Int).Mul(a, f.one)
	return r.Quo(r, b)
}

func (f fixed) toNum(v *big.Int, scale int) bcNum { return bcNum{v, f.digits}.rescale(scale) }

// exp returns e^x. It halves x until it is small, then sums a power series.
func (vm *bcVM) exp(x bcNum, scale int) (bcNum, error) {
	if x.sign() == 0 {
		return newNum(1).rescale(scale), nil
	}
	whole, ok := x.toInt()
	if !ok || whole > 20_000 {
		return x, errTooManyDigit
	}
	if whole < -3*(scale+2)-10 {
		return newNum(0).rescale(scale), nil
	}
	extra := 12
	if whole > 0 {
		extra += whole * 44 / 100
	}
	f := vm.newFixed(scale + extra + x.scale/8)
	v := f.fromNum(x)
	halves := 0
	limit := new(big.Int).Quo(f.one, big.NewInt(16))
	for new(big.Int).Abs(v).Cmp(limit) > 0 {
		v = new(big.Int).Rsh(v, 1)
		halves++
	}
	sum, term := new(big.Int).Add(f.one, v), new(big.Int).Set(v)
	for i := int64(2); term.Sign() != 0; i++ {
		term = f.mul(term, v)
		term.Quo(term, big.NewInt(i))
		sum.Add(sum, term)
	}
	for range halves {
		sum = f.mul(sum, sum)
	}
	return f.toNum(sum, scale), nil
}

// log returns the natural logarithm. It takes roots until x is near one, then sums a series.
func (vm *bcVM) log(x bcNum, scale int) (bcNum, error) {
	if x.sign() <= 0 {
		r := bcNum{new(big.Int).Sub(big.NewInt(1), powerOfTen(scale)), 0}
		return r.rescale(scale), nil
	}
	f := vm.newFixed(scale + 14 + len(x.v.String()))
	v := f.fromNum(x)
	low, high := new(big.Int).Quo(new(big.Int).Mul(f.one, big.NewInt(9)), bigTen), new(big.Int).Quo(new(big.Int).Mul(f.one, big.NewInt(11)), bigTen)
	double := uint(1)
	for v.Cmp(low) < 0 || v.Cmp(high) > 0 {
		vm.p.Tick(1 + f.digits>>3)
		v = new(big.Int).Sqrt(new(big.Int).Mul(v, f.one))
		double++
	}
	y := f.div(new(big.Int).Sub(v, f.one), new(big.Int).Add(v, f.one))
	square := f.mul(y, y)
	sum, term := new(big.Int).Set(y), new(big.Int).Set(y)
	for i := int64(3); term.Sign() != 0; i += 2 {
		term = f.mul(term, square)
		sum.Add(sum, new(big.Int).Quo(term, big.NewInt(i)))
	}
	return f.toNum(sum.Lsh(sum, double), scale), nil
}

// computePi returns 3.14159… by Machin's formula.
func (f fixed) computePi() *big.Int {
	part := func(n int64) *big.Int {
		square := big.NewInt(n * n)
		term := new(big.Int).Quo(f.one, big.NewInt(n))
		sum := new(big.Int).Set(term)
		for i := int64(3); term.Sign() != 0; i += 2 {
			f.vm.p.Tick(1 + f.digits>>6)
			term.Quo(term, square)
			t := new(big.Int).Quo(term, big.NewInt(i))
			if i%4 == 3 {
				t.Neg(t)
			}
			sum.Add(sum, t)
		}
		return sum
	}
	r := new(big.Int).Mul(part(5), big.NewInt(16))
	return r.Sub(r, new(big.Int).Mul(part(239), big.NewInt(4)))
}

func (vm *bcVM) sin(x bcNum, scale int) (bcNum, error) {
	if x.sign() == 0 {
		return newNum(0).rescale(scale), nil
	}
	whole, ok := x.toInt()
	if !ok || whole > 1<<40 || whole < -1<<40 {
		return x, errTooManyDigit
	}
	f := vm.newFixed(scale + 30)
	return f.toNum(f.reducedSine(f.fromNum(x)), scale), nil
}

func (vm *bcVM) cos(x bcNum, scale int) (bcNum, error) {
	whole, ok := x.toInt()
	if !ok || whole > 1<<40 || whole < -1<<40 {
		return x, errTooManyDigit
	}
	f := vm.newFixed(scale + 30)
	if x.sign() == 0 {
		return f.toNum(f.one, scale), nil
	}
	v := f.fromNum(x)
	return f.toNum(f.reducedSine(v.Add(new(big.Int).Set(v), new(big.Int).Quo(f.computePi(), big.NewInt(2)))), scale), nil
}

// reducedSine reduces v to a quarter turn and sums the series.
func (f fixed) reducedSine(v *big.Int) *big.Int {
	pi := f.computePi()
	n := new(big.Int).Quo(new(big.Int).Add(v, new(big.Int).Mul(new(big.Int).Quo(pi, big.NewInt(2)), big.NewInt(int64(v.Sign())))), pi)
	v = new(big.Int).Sub(v, new(big.Int).Mul(n, pi))
	if n.Bit(0) == 1 {
		v.Neg(v)
	}
	square := f.mul(v, v)
	sum, term := new(big.Int).Set(v), new(big.Int).Set(v)
	for i := int64(3); term.Sign() != 0; i += 2 {
		term = f.mul(term, square)
		term.Quo(term, big.NewInt(-i*(i-1)))
		sum.Add(sum, term)
	}
	return sum
}

// atan returns the arctangent. It halves the angle until the series converges quickly.
func (vm *bcVM) atan(x bcNum, scale int) (bcNum, error) {
	if x.sign() == 0 {
		return newNum(0).rescale(scale), nil
	}
	f := vm.newFixed(scale + 16)
	v := f.fromNum(x)
	limit := new(big.Int).Quo(f.one, bigTen)
	double := uint(0)
	for new(big.Int).Abs(v).Cmp(limit) > 0 {
		// atan x = 2 atan(x / (1 + sqrt(1 + x²)))
		s := new(big.Int).Add(f.one, f.mul(v, v))
		root := new(big.Int).Sqrt(new(big.Int).Mul(s, f.one))
		v = f.div(v, root.Add(root, f.one))
		double++
	}
	square := f.mul(v, v)
	sum, term := new(big.Int).Set(v), new(big.Int).Set(v)
	for i := int64(3); term.Sign() != 0; i += 2 {
		term = f.mul(term, square)
		term.Neg(term)
		sum.Add(sum, new(big.Int).Quo(term, big.NewInt(i)))
	}
	return f.toNum(sum.Lsh(sum, double), scale), nil
}

// callBessel evaluates j(n, x), the Bessel function.
func (vm *bcVM) callBessel(n *bcNode) (bcNum, bool, error) {
	order, err := vm.eval(n.kids[0])
	if err != nil {
		return order, true, err
	}
	x, err := vm.eval(n.kids[1])
	if err != nil {
		return x, true, err
	}
	k, ok := order.toInt()
	whole, fits := x.toInt()
	if !ok || !fits || k > 1000 || k < -1000 || whole > 1000 || whole < -1000 || vm.scale > maxDigits/100 {
		return x, true, errTooManyDigit
	}
	f := vm.newFixed(vm.scale + 16 + max(whole, -whole))
	half := new(big.Int).Quo(f.fromNum(x), big.NewInt(2))
	term := new(big.Int).Set(f.one)
	flip := k < 0 && k%2 != 0
	for i := 1; i <= max(k, -k); i++ {
		term = f.mul(term, half)
		term.Quo(term, big.NewInt(int64(i)))
	}
	square := f.mul(half, half)
	sum := new(big.Int).Set(term)
	for i := int64(1); term.Sign() != 0; i++ {
		term = f.mul(term, square)
		term.Quo(term, big.NewInt(-i*(i+int64(max(k, -k)))))
		sum.Add(sum, term)
	}
	if flip {
		sum.Neg(sum)
	}
	return f.toNum(sum, vm.scale), true, nil
}
