package shell

// What a shell keeps beside its variables is charged like them: functions,
// aliases, positional parameters, traps, history.

// The bytes that entries cost beside their text.
const (
	bytesPerFunction = 2048
	bytesPerEntry    = 128
)

// cost is what a function is charged with: its tree and its closures, both
// in proportion to its text.
func (f *function) cost() int64 { return bytesPerFunction + 48*int64(len(f.decl.Source)) }

// setFunction defines a function.
func (in *interp) setFunction(f *function) {
	cost := f.cost()
	if old, ok := in.funcs.get(f.name); ok {
		cost -= old.cost()
	}
	in.charge(cost)
	in.funcs.set(f.name, f)
}

// dropFunction removes a function.
func (in *interp) dropFunction(name string) {
	if old, ok := in.funcs.get(name); ok {
		in.charge(-old.cost())
		in.funcs.del(name)
	}
}

// setAlias defines an alias.
func (in *interp) setAlias(name, text string) {
	cost := int64(bytesPerEntry + len(text))
	if old, ok := in.alias.get(name); ok {
		cost -= int64(bytesPerEntry + len(old))
	}
	in.charge(cost)
	in.alias.set(name, text)
}

// dropAlias removes an alias.
func (in *interp) dropAlias(name string) {
	if old, ok := in.alias.get(name); ok {
		in.charge(-int64(bytesPerEntry + len(old)))
		in.alias.del(name)
	}
}

// setParams makes list the positional parameters, as set does.
func (in *interp) setParams(list []string) {
	cost := int64(0)
	for _, s := range list {
		cost += 16 + int64(len(s))
	}
	in.charge(cost - in.paramCost)
	in.params, in.paramCost = list, cost
}

// newParams makes list the parameters of a call, which its caller is charged
// for, and returns what those before it cost.
func (in *interp) newParams(list []string) (cost int64) {
	cost = in.paramCost
	in.params, in.paramCost = list, 0
	return cost
}

// oldParams brings back the parameters from before a call.
func (in *interp) oldParams(list []string, cost int64) {
	if in.paramCost > 0 {
		in.charge(-in.paramCost)
	}
	in.params, in.paramCost = list, cost
}

// maxHashed bounds the table of remembered paths, which is only a cache.
const maxHashed = 4096

// remember notes where a command was found.
func (in *interp) remember(name string, h hashed) {
	if len(in.hash.m) >= maxHashed {
		in.hash = cow[hashed]{}
	}
	in.hash.set(name, h)
}

// cost is what a completion specification is charged with.
func (c compspec) cost() int64 {
	n := bytesPerEntry + len(c.wordlist) + len(c.function) + len(c.command) + len(c.glob) + len(c.filter) + len(c.prefix) + len(c.suffix)
	for _, s := range c.actions {
		n += 16 + len(s)
	}
	for _, s := range c.options {
		n += 16 + len(s)
	}
	return int64(n)
}

// setSpec says how a command's words are completed.
func (in *interp) setSpec(name string, c compspec) {
	in.dropSpec(name)
	in.charge(c.cost())
	in.comp.set(name, c)
}

// dropSpec forgets how a command's words are completed.
func (in *interp) dropSpec(name string) {
	if old, ok := in.comp.get(name); ok {
		in.charge(-old.cost())
		in.comp.del(name)
	}
}
