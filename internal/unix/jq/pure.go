package jq

// The input of a subexpression is on the stack twice. If the subexpression only reads it, the value
// needn't be marked as shared, and later instructions can still change it in place.

// onlyBorrows reports whether e only reads its input or returns it unchanged.
func (c *compiler) onlyBorrows(e expr) bool {
	if p, ok := e.(*pipe); ok && len(p.parts) == 1 {
		return c.onlyBorrows(p.parts[0])
	}
	_, ok := e.(*identity)
	return ok || c.isPure(e)
}

// isPure reports whether e only reads its input, and no output is or contains the input without
// having marked it as shared.
func (c *compiler) isPure(e expr) bool {
	switch e := e.(type) {
	case *literal, *variable, *location:
		return true
	case *text:
		for _, part := range e.exprs {
			if !c.onlyBorrows(part) {
				return false
			}
		}
		return true
	case *index:
		return c.onlyBorrows(e.target) && c.onlyBorrows(e.key)
	case *iterate:
		return c.onlyBorrows(e.target)
	case *negate:
		return c.onlyBorrows(e.body)
	case *binary:
		return c.isPureOperator(e)
	case *pipe:
		return c.isPure(e.parts[0])
	case *array:
		return e.body == nil || c.isPure(e.body)
	case *object:
		return c.isPureObject(e)
	case *branch:
		return c.onlyBorrows(e.cond) && c.isPure(e.then) && e.otherwise != nil && c.isPure(e.otherwise)
	case *call:
		if !pureCalls[e.name] || len(e.args) > 0 {
			return false
		}
		b, _ := c.lookupName(signatureOf(e.name, 0))
		return b == nil
	}
	return false
}

// isPureObject reports whether an object construction is pure.
func (c *compiler) isPureObject(e *object) bool {
	for _, pr := range e.pairs {
		if !c.onlyBorrows(pr.key) || pr.value != nil && !c.isPure(pr.value) {
			return false
		}
	}
	return true
}

// isPureOperator reports whether an operator and its operands are pure.
func (c *compiler) isPureOperator(e *binary) bool {
	switch e.op {
	case "==", "!=", "<", "<=", ">", ">=", "and", "or":
		return c.onlyBorrows(e.left) && c.onlyBorrows(e.right)
	case "+", "-", "*", "/", "%":
		return c.isPure(e.left) && c.isPure(e.right)
	}
	return false
}

// pureCalls are functions that only read their input.
var pureCalls = map[string]bool{
	"length": true, "not": true, "type": true, "keys": true, "tojson": true, "tostring": true, "tonumber": true,
	"empty": true, "utf8bytelength": true, "floor": true, "ascii_downcase": true,
}
