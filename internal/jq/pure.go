package jq

// The input of a subexpression is on the stack twice. Where the subexpression
// only looks at it, the value needn't be marked as shared, and what follows can
// still change it in place.

// borrows tells that e only looks at its input, or just gives it back.
func (c *compiler) borrows(e expr) bool {
	if p, ok := e.(*pipe); ok && len(p.parts) == 1 {
		return c.borrows(p.parts[0])
	}
	_, ok := e.(*identity)
	return ok || c.pure(e)
}

// pure tells that e only looks at its input, and that no output is, or holds,
// the input itself without having marked it as shared.
func (c *compiler) pure(e expr) bool {
	switch e := e.(type) {
	case *literal, *variable, *location:
		return true
	case *text:
		for _, part := range e.exprs {
			if !c.borrows(part) {
				return false
			}
		}
		return true
	case *index:
		return c.borrows(e.target) && c.borrows(e.key)
	case *iterate:
		return c.borrows(e.target)
	case *negate:
		return c.borrows(e.body)
	case *binary:
		return c.pureOperator(e)
	case *pipe:
		return c.pure(e.parts[0])
	case *array:
		return e.body == nil || c.pure(e.body)
	case *object:
		return c.pureObject(e)
	case *branch:
		return c.borrows(e.cond) && c.pure(e.then) && e.otherwise != nil && c.pure(e.otherwise)
	case *call:
		if !pureCalls[e.name] || len(e.args) > 0 {
			return false
		}
		b, _ := c.lookup(signature(e.name, 0))
		return b == nil
	}
	return false
}

func (c *compiler) pureObject(e *object) bool {
	for _, pr := range e.pairs {
		if !c.borrows(pr.key) || pr.value != nil && !c.pure(pr.value) {
			return false
		}
	}
	return true
}

func (c *compiler) pureOperator(e *binary) bool {
	switch e.op {
	case "==", "!=", "<", "<=", ">", ">=", "and", "or":
		return c.borrows(e.left) && c.borrows(e.right)
	case "+", "-", "*", "/", "%":
		return c.pure(e.left) && c.pure(e.right)
	}
	return false
}

// pureCalls are functions that look at their input only.
var pureCalls = map[string]bool{
	"length": true, "not": true, "type": true, "keys": true, "tojson": true, "tostring": true, "tonumber": true,
	"empty": true, "utf8bytelength": true, "floor": true, "ascii_downcase": true,
}
