package shell

// savedVar is a variable as it is kept between sessions.
type savedVar struct {
	Name  string
	Attrs uint16
	Set   bool
	Gone  bool
	Text  string
	List  []savedElem // of an array
}

// savedElem is an element of an array.
type savedElem struct {
	Index int64
	Key   string
	Value string
}

// save returns all variables that are not as a new shell has them.
func (vs *variables) save() []savedVar {
	list := make([]savedVar, 0, len(vs.m))
	for name, v := range vs.m {
		for v.prev != nil {
			v = v.prev
		}
		if v.level > 0 {
			continue
		}
		s := savedVar{Name: name, Attrs: uint16(v.attrs), Set: v.set, Gone: v.gone}
		switch {
		case v.dyn != 0:
			continue
		case v.arr != nil:
			v.arr.each(func(i int64, val string) bool {
				s.List = append(s.List, savedElem{Index: i, Value: val})
				return true
			})
		case v.assoc != nil:
			for _, p := range v.assoc.pairs() {
				s.List = append(s.List, savedElem{Key: p.key, Value: p.val})
			}
		default:
			s.Text, _ = (&interp{}).text(v)
		}
		list = append(list, s)
	}
	return list
}

// restoreVars puts saved variables into a new store.
func (in *interp) restoreVars(list []savedVar) {
	for _, s := range list {
		v := in.mutable(s.Name)
		in.clear(v)
		v.attrs, v.gone = attr(s.Attrs), s.Gone
		switch {
		case v.attrs&attrArray != 0:
			v.arr = &array{}
			for _, e := range s.List {
				v.arr.set(e.Index, e.Value)
			}
			in.recharge(v, v.arr.cost())
		case v.attrs&attrAssoc != 0:
			v.assoc = newAssoc()
			for i := len(s.List) - 1; i >= 0; i-- {
				v.assoc.set(s.List[i].Key, s.List[i].Value)
			}
			in.recharge(v, v.assoc.cost())
		case s.Set:
			in.setString(v, s.Text)
		}
		v.set = s.Set
	}
	in.envOK = false
}
