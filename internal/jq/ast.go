package jq

// expr is a filter as it was written.
type expr interface{ at() pos }

// pos is the line of the program on which something stands.
type pos int32

func (p pos) at() pos { return p }

type (
	identity struct{ pos }
	literal  struct {
		pos
		value Value
	}
	// text is a string with filters in it: parts alternate between what is
	// written and filters, beginning with what is written.
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

// pair is one member of an object construction; value is nil in {a}, {$a}.
type pair struct{ key, value expr }

// definition is one def.
type definition struct {
	pos
	name   string
	params []string // with the $ of a value parameter
	body   expr
}

// pattern is what `as` binds to: a name, an array or an object of patterns.
type pattern struct {
	pos
	name  string    // of the variable, or ""
	items []pattern // of an array pattern
	keys  []patternKey
}

type patternKey struct {
	name  string // {$name}, {$name: pattern}: also bind the whole
	key   expr   // nil if name is the key
	value *pattern
}

// names lists the variables of a pattern.
func (p *pattern) names(out []string) []string {
	if p.name != "" {
		out = append(out, p.name)
	}
	for i := range p.items {
		out = p.items[i].names(out)
	}
	for _, k := range p.keys {
		if k.name != "" {
			out = append(out, k.name)
		}
		if k.value != nil {
			out = k.value.names(out)
		}
	}
	return out
}

// imported is one import or include directive.
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
