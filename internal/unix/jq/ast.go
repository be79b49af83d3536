package jq

// expr is a node of the syntax tree.
type expr interface{ atLine() pos }

// pos is a line of the program.
type pos int32

func (p pos) atLine() pos { return p }

type (
	identity struct{ pos }
	literal  struct {
		pos
		value Value
	}
	// text is a string with interpolated filters: words and exprs alternate, beginning with a word.
	text struct {
		pos
		format string
		words  []string
		exprs  []expr
	}
	formatter struct {
		pos
		name string
	}
	variable struct {
		pos
		name string
	}
	location struct{ pos } // $__loc__
	call     struct {
		pos
		name string
		args []expr
	}
	index struct {
		pos
		target, key expr
	}
	slice struct {
		pos
		target, from, to expr // from or to may be nil
	}
	iterate struct {
		pos
		target expr
	}
	try struct {
		pos
		body, handler expr // handler may be nil
	}
	array struct {
		pos
		body expr // nil for []
	}
	object struct {
		pos
		pairs []pair
	}
	pipe struct {
		pos
		parts []expr
	}
	comma struct {
		pos
		parts []expr
	}
	negate struct {
		pos
		body expr
	}
	binary struct {
		pos
		op          string
		left, right expr
	}
	branch struct {
		pos
		cond, then, otherwise expr // otherwise may be nil
	}
	reduce struct {
		pos
		source       expr
		patterns     []pattern
		init, update expr
	}
	foreach struct {
		pos
		source                expr
		patterns              []pattern
		init, update, extract expr // extract may be nil
	}
	bind struct {
		pos
		source   expr
		patterns []pattern
		body     expr
	}
	define struct {
		pos
		fn   *definition
		body expr
	}
	label struct {
		pos
		name string
		body expr
	}
	breakTo struct {
		pos
		name string
	}
)

// pair is a member of an object construction; value is nil in {a} and {$a}.
type pair struct{ key, value expr }

// definition is a function definition.
type definition struct {
	pos
	name   string
	params []string // a value parameter has its $
	body   expr
}

// pattern is the target of an `as`: a variable, or an array or object of patterns.
type pattern struct {
	pos
	name  string    // of the variable, or ""
	items []pattern // of an array pattern
	keys  []patternKey
}

// patternKey is a member of an object pattern.
type patternKey struct {
	name  string // {$name} or {$name: pattern}: also binds the whole member
	key   expr   // nil if name is the key
	value *pattern
}

// appendNames appends the names of the pattern's variables to out.
func (p *pattern) appendNames(out []string) []string {
	if p.name != "" {
		out = append(out, p.name)
	}
	for i := range p.items {
		out = p.items[i].appendNames(out)
	}
	for _, k := range p.keys {
		if k.name != "" {
			out = append(out, k.name)
		}
		if k.value != nil {
			out = k.value.appendNames(out)
		}
	}
	return out
}

// imported is an import or include directive.
type imported struct {
	pos
	path    string
	alias   string // "" for include
	data    bool   // import "x" as $alias
	meta    Value
	include bool
}

// program is a parsed main program or module.
type program struct {
	meta    Value // of the module directive, or nil
	imports []imported
	defs    []*definition
	body    expr // nil if there is none
}
