package awk

import "strconv"

// elem is an element of an array. Those that were deleted are dead until the
// array is swept.
type elem struct {
	v     value
	sub   *array
	key   string
	num   int64
	isNum bool
	dead  bool
}

// name returns the element's subscript.
func (e *elem) name() string {
	if e.isNum {
		if e.num >= 0 && e.num < smallInts {
			return smallInt[e.num]
		}
		return strconv.FormatInt(e.num, 10)
	}
	return e.key
}

// elemCost is what an element is charged for beside its strings: itself, its
// place in a map and in the order.
const elemCost = 176

// arrayCost is what an array that a program made is charged for, beside its
// elements: itself, its first map, room for the first elements.
const arrayCost = 640

// newArray returns an array that its owner gives back by dropArray.
func (in *interp) newArray(name string) *array {
	in.charge(arrayCost)
	return &array{name: name}
}

func (in *interp) dropArray(a *array) {
	in.empty(a)
	in.charge(-arrayCost)
}

// array maps subscripts to elements, in the order of their making.
// Subscripts that are integers have a map of their own.
type array struct {
	nums  map[int64]*elem
	strs  map[string]*elem
	order []*elem
	dead  int
	slab  []elem
	name  string
}

func (a *array) len() int { return len(a.nums) + len(a.strs) }

// find returns the element with that subscript, or nil.
func (a *array) find(key string) *elem {
	if n, ok := arrayIndex(key); ok {
		return a.nums[n]
	}
	return a.strs[key]
}

// findNum is find for a subscript that is an integer below 1e15.
func (a *array) findNum(n int64) *elem { return a.nums[n] }

func (a *array) newElem() *elem {
	if len(a.slab) == 0 {
		a.slab = make([]elem, min(64, max(4, a.len())))
	}
	e := &a.slab[0]
	a.slab = a.slab[1:]
	a.order = append(a.order, e)
	return e
}

// at returns the element with that subscript, made if need be.
func (in *interp) at(a *array, key string) *elem {
	if n, ok := arrayIndex(key); ok {
		return in.atNum(a, n)
	}
	if e := a.strs[key]; e != nil {
		return e
	}
	in.charge(elemCost + int64(len(key)))
	if a.strs == nil {
		a.strs = make(map[string]*elem)
	}
	e := a.newElem()
	e.key = in.own(key)
	a.strs[e.key] = e
	return e
}

func (in *interp) atNum(a *array, n int64) *elem {
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

// remove deletes one element.
func (in *interp) remove(a *array, key string) {
	e := a.find(key)
	if e == nil {
		return
	}
	if e.isNum {
		delete(a.nums, e.num)
	} else {
		delete(a.strs, e.key)
	}
	in.release(e)
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

func (in *interp) release(e *elem) {
	in.charge(-elemCost - int64(len(e.key)) - int64(len(e.v.s)))
	if e.sub != nil {
		in.dropArray(e.sub)
	}
	e.v, e.sub, e.dead = value{}, nil, true
}

// empty deletes all elements.
func (in *interp) empty(a *array) {
	for i, e := range a.order {
		if !e.dead {
			in.release(e)
		}
		if i&1023 == 0 {
			in.tick(64)
		}
	}
	a.nums, a.strs, a.order, a.slab, a.dead = nil, nil, nil, nil, 0
}

// set stores a value under a subscript.
func (in *interp) set(a *array, key string, v value) {
	in.store(&in.at(a, key).v, v)
}

func (in *interp) setNum(a *array, n int64, v value) {
	in.store(&in.atNum(a, n).v, v)
}
