package shell

// The functions of this file charge what a shell holds besides its variables
// to the memory limit: functions, aliases, positional parameters, traps,
// history.

// Bytes charged for an entry in addition to its text.
const (
	bytesPerFunction = 2048
	bytesPerEntry    = 128
)

// memoryCost returns the bytes charged for a function: its tree and closures
// grow with its text.
func (f *function) memoryCost() int64 { return bytesPerFunction + 48*int64(len(f.decl.Source)) }

// chargeReplaced charges a value that takes the place of another. While the shell has children, which may
// still have the old value, a large one stays charged.
func (in *interp) chargeReplaced(cost, old int64) {
	if old >= maxUncharged && len(in.p.Children()) > 0 {
		in.inherited += old
		old = 0
	} else if in.inherited > 0 && len(in.p.Children()) == 0 {
		old += in.inherited
		in.inherited = 0
	}
	in.charge(cost - old)
}

// maxUncharged is the size of the largest values that are not charged to both of two shells that have them.
const maxUncharged = 4096

// paramsCost returns the bytes charged to a child for its copy of the positional parameters, which its
// parent may replace.
func (in *interp) paramsCost() int64 {
	cost := int64(0)
	for _, s := range in.params {
		cost += 16 + int64(len(s))
	}
	if cost < maxUncharged {
		return 0
	}
	return cost
}

// setFunction defines a function.
func (in *interp) setFunction(f *function) {
	cost := int64(0)
	if old, ok := in.funcs.get(f.name); ok {
		cost = old.memoryCost()
	}
	in.chargeReplaced(f.memoryCost(), cost)
	in.funcs.set(f.name, f)
}

// dropFunction removes a function.
func (in *interp) dropFunction(name string) {
	if old, ok := in.funcs.get(name); ok {
		in.chargeReplaced(0, old.memoryCost())
		in.funcs.deleteKey(name)
	}
}

// setAlias defines an alias.
func (in *interp) setAlias(name, text string) {
	cost := int64(0)
	if old, ok := in.alias.get(name); ok {
		cost = int64(bytesPerEntry + len(old))
	}
	in.chargeReplaced(int64(bytesPerEntry+len(text)), cost)
	in.alias.set(name, text)
}

// dropAlias removes an alias.
func (in *interp) dropAlias(name string) {
	if old, ok := in.alias.get(name); ok {
		in.chargeReplaced(0, int64(bytesPerEntry+len(old)))
		in.alias.deleteKey(name)
	}
}

// setParams sets the positional parameters, as set does.
func (in *interp) setParams(list []string) {
	cost := int64(0)
	for _, s := range list {
		cost += 16 + int64(len(s))
	}
	in.charge(cost - in.paramCost)
	in.params, in.paramCost = list, cost
}

// pushParams sets the parameters of a call, which are charged to its caller,
// and returns the charge for the previous ones.
func (in *interp) pushParams(list []string) (cost int64) {
	cost = in.paramCost
	in.params, in.paramCost = list, 0
	return cost
}

// popParams restores the parameters from before a call.
func (in *interp) popParams(list []string, cost int64) {
	if in.paramCost > 0 {
		in.charge(-in.paramCost)
	}
	in.params, in.paramCost = list, cost
}

// maxHashed limits the table of command paths, which is only a cache.
const maxHashed = 4096

// maxHashedPath is the length of the longest paths in it, with their names.
const maxHashedPath = 4096

// rememberPath records where a command was found.
func (in *interp) rememberPath(name string, h hashed) {
	if len(name)+len(h.path) > maxHashedPath {
		return
	}
	if len(in.hash.m) >= maxHashed {
		in.hash = cow[hashed]{}
	}
	in.hash.set(name, h)
}

// memoryCost returns the bytes charged for a completion specification.
func (c completionSpec) memoryCost() int64 {
	n := bytesPerEntry + len(c.wordlist) + len(c.function) + len(c.command) + len(c.glob) + len(c.filter) + len(c.prefix) + len(c.suffix)
	for _, s := range c.actions {
		n += 16 + len(s)
	}
	for _, s := range c.options {
		n += 16 + len(s)
	}
	return int64(n)
}

// setSpec sets the completion specification of a command.
func (in *interp) setSpec(name string, c completionSpec) {
	in.dropSpec(name)
	in.chargeReplaced(c.memoryCost(), 0)
	in.specs.set(name, c)
}

// dropSpec removes the completion specification of a command.
func (in *interp) dropSpec(name string) {
	if old, ok := in.specs.get(name); ok {
		in.chargeReplaced(0, old.memoryCost())
		in.specs.deleteKey(name)
	}
}
