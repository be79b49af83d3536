package syntax

import "github.com/atoll-sandbox/atoll"

// depthCeiling is the deepest nesting any Options can ask for: a parser, a
// printer or a compiler that recurses this deep stays far from the end of a
// Go stack.
const depthCeiling = 2000

// nodeCost is what a node is charged for: about its size with what it points to.
const nodeCost = 112

// Unwrap lets errors.Is tell a passed limit from a mistake in the script.
func (e *Error) Unwrap() error {
	if e.TooBig {
		return atoll.ErrQuota
	}
	return atoll.ErrInvalid
}

// enter goes one level down and reports whether that was allowed.
func (p *parser) enter() bool {
	p.depth++
	if p.depth > p.o.MaxDepth {
		p.tooBig("maximum nesting depth exceeded")
		return false
	}
	return p.err == nil
}

func (p *parser) leave() { p.depth-- }

// node counts a node of the tree.
func (p *parser) node() {
	p.nodes++
	if p.nodes%64 != 0 {
		return
	}
	if p.o.MaxNodes > 0 && p.nodes > p.o.MaxNodes {
		p.tooBig("script is too complex")
	}
	if p.o.Budget != nil {
		p.o.Budget.Alloc(64 * nodeCost)
		p.cost += 64 * nodeCost
	}
}

// work counts n bytes looked at.
func (p *parser) work(n int) {
	p.ticks += n
	if p.ticks < 4096 {
		return
	}
	if p.o.Budget != nil {
		p.o.Budget.Tick(p.ticks / 16)
	}
	p.ticks = 0
}

// refund gives back what was charged for a tree that nobody gets or keeps.
func (p *parser) refund() {
	if p.o.Budget != nil {
		p.o.Budget.Free(p.cost)
	}
	p.cost = 0
}
