package shell

import "strings"

// The functions of this file charge what a shell holds to the memory limit: the values of its variables,
// functions, aliases, positional parameters, traps, history.

// Bytes charged for an entry in addition to its text.
const (
	bytesPerVariable = 256
	bytesPerFunction = 2048
	bytesPerNode     = 330
	bytesPerEntry    = 128
	bytesPerSpec     = 320
)

// charge charges n more (or fewer) bytes of values.
func (in *interp) charge(n int64) {
	if in.p != nil && n > 0 {
		in.p.Alloc(n)
	} else if in.p != nil && n < 0 {
		in.p.Free(-n)
	}
	in.chargedBytes += n
}

// stringCost returns the bytes charged for a string.
func stringCost(s string) int64 {
	if len(s) <= 16 {
		return 0
	}
	return int64(len(s)+15) &^ 15
}

// memoryCost returns the bytes charged for a function: its tree and closures grow with the nodes of its
// body, those of a word with braces more.
func (f *function) memoryCost() int64 {
	nodes := f.decl.Nodes + 2*strings.Count(f.decl.Source, "{")
	return bytesPerFunction + bytesPerNode*int64(nodes) + 16*int64(len(f.decl.Source)) + int64(f.decl.Kept)
}

// memoryCost returns the bytes charged for the array.
func (a *array) memoryCost() int64 {
	if a == nil {
		return 0
	}
	return a.bytes + int64(40*cap(a.vals)+8*cap(a.holes)+120*len(a.keys)) // includes the old copy while it grows
}

// memoryCost returns the bytes charged for the array.
func (a *assoc) memoryCost() int64 {
	if a == nil {
		return 0
	}
	return a.bytes
}

// updateCharge sets the bytes charged for v.
func (in *interp) updateCharge(v *variable, c int64) {
	if c != v.charge {
		in.charge(c - v.charge)
		v.charge = c
	}
	in.valueChanged(v)
}

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

// releaseTree gives back what the parser charged for a tree that has run. While the shell has children,
// which may still run a part of it, it stays charged.
func (in *interp) releaseTree(cost int64) {
	in.chargedBytes += cost // by the parser
	in.chargeReplaced(0, cost)
}

// maxUncharged is the size of the largest values that are not charged to both of two shells that have them.
const maxUncharged = 4096

// bytesPerName is charged for an entry of a table of names that two shells have.
const bytesPerName = 64

// inheritedCost returns the bytes charged to a child for what its parent may replace, so that only the
// child still has it: positional parameters and the tables of names.
func (in *interp) inheritedCost() int64 {
	params := int64(0)
	for _, s := range in.params {
		params += 16 + int64(len(s))
	}
	cost := int64(0)
	for _, n := range []int64{
		params, bytesPerName * int64(len(in.m)), bytesPerName * int64(len(in.funcs.m)), bytesPerName * int64(len(in.alias.m)), bytesPerName * int64(len(in.specs.m)),
	} {
		if n >= maxUncharged {
			cost += n
		}
	}
	return cost
}

// chargeTable charges the copy of a table of n names, which a change of a shared table makes: the time
// always, the memory if the table is another shell's. What a shell leaves to its children is charged to them.
func (in *interp) chargeTable(n int, borrowed bool) {
	if in.p == nil || n == 0 {
		return
	}
	in.p.Tick(n / 8)
	if cost := bytesPerName * int64(n); borrowed && cost >= maxUncharged {
		in.p.Alloc(cost)
	}
}

// setFunction defines a function.
func (in *interp) setFunction(f *function) {
	cost := int64(0)
	if old, ok := in.funcs.get(f.name); ok {
		cost = old.memoryCost()
	}
	in.chargeReplaced(f.memoryCost(), cost)
	in.chargeTable(in.funcs.copySize(), in.funcs.borrowed)
	in.funcs.set(f.name, f)
}

// dropFunction removes a function.
func (in *interp) dropFunction(name string) {
	if old, ok := in.funcs.get(name); ok {
		in.chargeReplaced(0, old.memoryCost())
		in.chargeTable(in.funcs.copySize(), in.funcs.borrowed)
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
	in.chargeTable(in.alias.copySize(), in.alias.borrowed)
	in.alias.set(name, text)
}

// dropAlias removes an alias.
func (in *interp) dropAlias(name string) {
	if old, ok := in.alias.get(name); ok {
		in.chargeReplaced(0, int64(bytesPerEntry+len(old)))
		in.chargeTable(in.alias.copySize(), in.alias.borrowed)
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
func (c *completionSpec) memoryCost() int64 {
	n := bytesPerSpec + len(c.wordlist) + len(c.function) + len(c.command) + len(c.glob) + len(c.filter) + len(c.prefix) + len(c.suffix)
	for _, s := range c.actions {
		n += 16 + len(s)
	}
	for _, s := range c.options {
		n += 16 + len(s)
	}
	return int64(n)
}

// setSpec sets the completion specification of a command. It must not be changed afterwards, since forked
// shells share it.
func (in *interp) setSpec(name string, c *completionSpec) {
	in.dropSpec(name)
	in.chargeReplaced(c.memoryCost(), 0)
	in.chargeTable(in.specs.copySize(), in.specs.borrowed)
	in.specs.set(name, c)
}

// dropSpec removes the completion specification of a command.
func (in *interp) dropSpec(name string) {
	if old, ok := in.specs.get(name); ok {
		in.chargeReplaced(0, old.memoryCost())
		in.chargeTable(in.specs.copySize(), in.specs.borrowed)
		in.specs.deleteKey(name)
	}
}

// chargeWork charges n steps to the shell's process.
func (in *interp) chargeWork(n int) {
	if in != nil && in.p != nil {
		in.p.Tick(n)
	}
}

// chargeReading charges reading texts as work.
func (in *interp) chargeReading(texts ...string) {
	n := 0
	for _, s := range texts {
		n += len(s)
	}
	if n >= 64 {
		in.chargeWork(n >> 6)
	}
}
