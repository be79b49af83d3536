package data

import (
	"math/big"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
)

const factorUsage = `Usage: factor [OPTION] [NUMBER]...
Print the prime factors of each specified integer NUMBER.  If none
are specified on the command line, read them from standard input.

  -h, --exponents   print repeated factors in form p^e unless e is 1
      --help        display this help and exit
`

// maxFactorBits limits the numbers: larger ones could take too long.
const maxFactorBits = 128

func runFactor(p *kernel.Proc) int {
	opts, args, ok := option.Parser{Options: []option.Option{{Short: 'h', Long: "exponents"}}}.Parse(p)
	if !ok {
		return 1
	}
	code := 0
	one := func(s string) {
		if !printFactors(p, s, len(opts) > 0) {
			code = 1
		}
	}
	for _, a := range args {
		one(a)
	}
	if len(args) > 0 {
		return code
	}
	l := stream.NewLineReader(p, p.Stdin, '\n')
	defer l.Close()
	for line := l.Next(); line != nil; line = l.Next() {
		for _, w := range strings.Fields(string(line)) {
			one(w)
		}
	}
	return code
}

func printFactors(p *kernel.Proc, s string, exponents bool) bool {
	t := strings.TrimPrefix(strings.TrimLeft(s, " "), "+")
	var n *big.Int
	ok := len(t) <= 100 && strings.Trim(t, "0123456789") == "" // parsing a million digits takes seconds
	if ok {
		n, ok = new(big.Int).SetString(t, 10)
	}
	if !ok {
		defer quoting.ChargeMessage(p, s)()
		p.Errorf("%s is not a valid positive integer", quoting.QuoteWord(s))
		return false
	}
	if n.BitLen() > maxFactorBits {
		p.Errorf("%s is too large", quoting.QuoteWord(t))
		return false
	}
	var list []*big.Int
	if n.IsUint64() {
		for _, f := range factorize64(p, n.Uint64()) {
			list = append(list, new(big.Int).SetUint64(f))
		}
	} else {
		list = factorizeBig(p, n)
	}
	var b strings.Builder
	b.WriteString(n.String() + ":")
	for i := 0; i < len(list); {
		j := i
		for j < len(list) && list[j].Cmp(list[i]) == 0 {
			j++
		}
		if exponents && j-i > 1 {
			b.WriteString(" " + list[i].String() + "^" + strconv.Itoa(j-i))
		} else {
			for range j - i {
				b.WriteString(" " + list[i].String())
			}
		}
		i = j
	}
	_, _ = p.Out().WriteString(b.String() + "\n") // Flush reports the error
	return true
}

func mulMod(a, b, m uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	_, r := bits.Div64(hi%m, lo, m)
	return r
}

// factorize64 returns the prime factors of n in order.
func factorize64(p *kernel.Proc, n uint64) []uint64 {
	var list []uint64
	if n < 2 {
		return nil
	}
	for d := uint64(2); d < 1000 && d*d <= n; d++ {
		for n%d == 0 {
			list = append(list, d)
			n /= d
		}
	}
	todo := []uint64{}
	if n > 1 {
		todo = append(todo, n)
	}
	for len(todo) > 0 {
		m := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if new(big.Int).SetUint64(m).ProbablyPrime(0) {
			list = append(list, m)
			continue
		}
		d := findDivisor64(p, m)
		todo = append(todo, d, m/d)
	}
	slices.Sort(list)
	return list
}

// findDivisor64 finds a divisor of a composite number.
func findDivisor64(p *kernel.Proc, n uint64) uint64 {
	for c := uint64(1); ; c++ {
		if d := rhoWalk(p, n, c); d != n {
			return d
		}
	}
}

// rhoWalk runs Pollard's rho algorithm with the constant c. It returns n if it fails.
func rhoWalk(p *kernel.Proc, n, c uint64) uint64 {
	step := func(v uint64) uint64 { return (mulMod(v, v, n) + c) % n }
	x, y, d := uint64(2), uint64(2), uint64(1)
	for d == 1 {
		prod := uint64(1)
		for range 64 {
			x, y = step(x), step(step(y))
			diff := max(x, y) - min(x, y)
			next := mulMod(prod, diff, n)
			if next == 0 {
				prod = max(diff, 1) // shares a factor with n, unless the walk reached a cycle
				break
			}
			prod = next
		}
		p.Tick(16)
		if d = gcd64(prod, n); x == y && d == 1 {
			return n
		}
	}
	return d
}

func gcd64(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// factorizeBig returns the prime factors of a number over 64 bits, in order.
func factorizeBig(p *kernel.Proc, n *big.Int) []*big.Int {
	var list []*big.Int
	todo := []*big.Int{new(big.Int).Set(n)}
	for len(todo) > 0 {
		m := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		p.Tick(64)
		switch {
		case m.IsUint64():
			for _, f := range factorize64(p, m.Uint64()) {
				list = append(list, new(big.Int).SetUint64(f))
			}
		case m.ProbablyPrime(20):
			list = append(list, m)
		default:
			d := findDivisorBig(p, m)
			todo = append(todo, d, new(big.Int).Quo(m, d))
		}
	}
	slices.SortFunc(list, (*big.Int).Cmp)
	return list
}

func findDivisorBig(p *kernel.Proc, n *big.Int) *big.Int {
	for d := int64(2); d < 1000; d++ {
		if new(big.Int).Mod(n, big.NewInt(d)).Sign() == 0 {
			return big.NewInt(d)
		}
	}
	one, diff, prod := big.NewInt(1), new(big.Int), new(big.Int)
	for c := int64(1); ; c++ {
		x, y, d, add := big.NewInt(2), big.NewInt(2), big.NewInt(1), big.NewInt(c)
		step := func(v *big.Int) { v.Mul(v, v).Add(v, add).Mod(v, n) }
		for d.Cmp(one) == 0 {
			step(x)
			step(y)
			step(y)
			p.Tick(8)
			diff.Sub(x, y)
			d.GCD(nil, nil, prod.Abs(diff), n)
		}
		if d.Cmp(n) != 0 {
			return d
		}
	}
}
