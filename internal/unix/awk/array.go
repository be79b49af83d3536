package awk

import (
	"strconv"
	"strings"
)

// elem is an element of an array. Deleted elements are dead until they are removed from the array's
// order.
type elem struct {
	v     value
	sub   *array
	key   string
	num   int64
	isNum bool
	dead  bool
}

// subscript returns the element's subscript.
func (e *elem) subscript() string {
	if e.isNum {
		if e.num >= 0 && e.num < smallInts {
			return smallInt()[e.num]
		}
		return strconv.FormatInt(e.num, 10)
	}
	return e.key
}

// elemCost is the charge in bytes for an element beside its strings: the element, its entry in a
// map and in the order.
const elemCost = 176

// arrayCost is the charge in bytes for an array created by a program, beside its elements: the
// array, its first map, room for the first elements.
const arrayCost = 640

// newArray returns an array that its owner must free with dropArray.
func (in *interp) newArray(name string) *array {
	in.charge(arrayCost)
	return &array{name: name}
}

// dropArray deletes all elements and frees the array's charge.
func (in *interp) dropArray(a *array) {
	in.deleteAll(a)
	in.charge(-arrayCost)
}

// array maps subscripts to elements, in order of creation. Integer subscripts have a map of their
// own.
type array struct {
	nums  map[int64]*elem
	strs  map[string]*elem
	order []*elem
	dead  int
	slab  []elem
	name  string
}

// len returns the number of elements.
func (a *array) len() int { return len(a.nums) + len(a.strs) }

// find returns the element with a subscript, or nil.
func (a *array) find(key string) *elem {
	if n, ok := arrayIndex(key); ok {
		return a.nums[n]
	}
	return a.strs[key]
}

// findNum is find for an integer subscript below 1e15.
func (a *array) findNum(n int64) *elem { return a.nums[n] }

// newElem adds an element to the order; elements are allocated in slabs.
func (a *array) newElem() *elem {
	if len(a.slab) == 0 {
		a.slab = make([]elem, min(64, max(4, a.len())))
	}
	e := &a.slab[0]
	a.slab = a.slab[1:]
	a.order = append(a.order, e)
	return e
}

// elemAt returns the element with a subscript; it creates it if needed.
func (in *interp) elemAt(a *array, key string) *elem {
	if n, ok := arrayIndex(key); ok {
		return in.elemAtNum(a, n)
	}
	if e := a.strs[key]; e != nil {
		return e
	}
	in.charge(elemCost + int64(len(key)))
	if a.strs == nil {
		a.strs = make(map[string]*elem)
	}
	e := a.newElem()
	e.key = strings.Clone(key) // key may be part of a longer string
	a.strs[e.key] = e
	return e
}

// elemAtNum is elemAt for an integer subscript.
func (in *interp) elemAtNum(a *array, n int64) *elem {
	if e := a.nums[n]; e != nil {
		return e
	}
	in.charge(elemCost)
	if a.nums == nil {
		a.nums = make(map[int64]*elem)
	}
	e := a.newElem()
	e.num, e.isNum = n, true
	a.nums[n] = e
	return e
}

// deleteElem deletes one element.
func (in *interp) deleteElem(a *array, key string) {
	e := a.find(key)
	if e == nil {
		return
	}
	if e.isNum {
		delete(a.nums, e.num)
	} else {
		delete(a.strs, e.key)
	}
	in.releaseElem(e)
	a.dead++
	if a.dead > 32 && a.dead > len(a.order)/2 {
		in.tick(len(a.order) / 8)
		live := a.order[:0]
		for _, e := range a.order {
			if !e.dead {
				live = append(live, e)
			}
		}
		clear(a.order[len(live):])
		a.order, a.dead = live, 0
	}
}

// releaseElem frees an element's charge and marks it as dead.
func (in *interp) releaseElem(e *elem) {
	in.charge(-elemCost - int64(len(e.key)) - int64(len(e.v.s)))
	if e.sub != nil {
		in.dropArray(e.sub)
	}
	e.v, e.sub, e.dead = value{}, nil, true
}

// deleteAll deletes all elements.
func (in *interp) deleteAll(a *array) {
	for i, e := range a.order {
		if !e.dead {
			in.releaseElem(e)
		}
		if i&1023 == 0 {
			in.tick(64)
		}
	}
	a.nums, a.strs, a.order, a.slab, a.dead = nil, nil, nil, nil, 0
}

// set stores a value under a subscript.
func (in *interp) set(a *array, key string, v value) {
	in.storeValue(&in.elemAt(a, key).v, v)
}

// setNum stores a value under an integer subscript.
func (in *interp) setNum(a *array, n int64, v value) {
	in.storeValue(&in.elemAtNum(a, n).v, v)
}
