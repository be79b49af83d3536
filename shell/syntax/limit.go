package syntax

import "github.com/atoll-sandbox/atoll"

// depthCeiling is the upper limit of nesting for all Options: a parser, a
// printer or a compiler that recurses this deep does not exhaust a Go stack.
const depthCeiling = 2000

// nodeCost is the charge in bytes for a node: about its size with its contents, and its closures.
const nodeCost = 224

// Unwrap returns atoll.ErrQuota for an exceeded limit, else atoll.ErrInvalid.
func (e *Error) Unwrap() error {
	if e.TooBig {
		return atoll.ErrQuota
	}
	return atoll.ErrInvalid
}

// enterLevel enters a level of nesting and reports whether that is allowed.
func (p *parser) enterLevel() bool {
	p.depth++
	if p.depth > p.o.MaxDepth {
		p.failTooBig("maximum nesting depth exceeded")
		return false
	}
	return p.err == nil
}

// leaveLevel leaves a level of nesting.
func (p *parser) leaveLevel() { p.depth-- }

// countNode charges a node of the tree.
func (p *parser) countNode() {
	p.nodes++
	if p.nodes%64 != 0 {
		return
	}
	if p.o.MaxNodes > 0 && p.nodes > p.o.MaxNodes {
		p.failTooBig("script is too complex")
	}
	if p.o.Budget != nil {
		p.o.Budget.Alloc(64 * nodeCost)
		p.cost += 64 * nodeCost
	}
}

// chargeWork charges the reading of n bytes.
func (p *parser) chargeWork(n int) {
	p.ticks += n
	if p.ticks < 4096 {
		return
	}
	if p.o.Budget != nil {
		p.o.Budget.Tick(p.ticks / 16)
	}
	p.ticks = 0
}

// refundCost refunds the charge for a tree that is discarded.
func (p *parser) refundCost() {
	if p.o.Budget != nil {
		p.o.Budget.Free(p.cost)
	}
	p.cost = 0
}
