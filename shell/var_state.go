package shell

// savedVar is the encoded form of a variable. Its field names are part of the
// format.
type savedVar struct {
	Name  string
	Attrs uint16
	Set   bool
	Gone  bool
	Text  string
	List  []savedElem // of an array
}

// savedElem is the encoded form of an array element.
type savedElem struct {
	Index int64
	Key   string
	Value string
}

// save returns all variables that differ from those of a new shell.
func (vs *variables) save() []savedVar {
	list := make([]savedVar, 0, len(vs.m))
	for name, v := range vs.m {
		for v.prev != nil {
			v = v.prev
		}
		if v.level > 0 {
			continue
		}
		s := savedVar{Name: name, Attrs: uint16(v.attrs), Set: v.set, Gone: v.hidden}
		switch {
		case v.dyn != 0:
			continue
		case v.arr != nil:
			v.arr.eachElement(func(i int64, val string) bool {
				s.List = append(s.List, savedElem{Index: i, Value: val})
				return true
			})
		case v.assoc != nil:
			for _, p := range v.assoc.orderedPairs() {
				s.List = append(s.List, savedElem{Key: p.key, Value: p.val})
			}
		default:
			s.Text, _ = (&interp{}).valueOf(v)
		}
		list = append(list, s)
	}
	return list
}

// restoreVars sets the variables of a new store.
func (in *interp) restoreVars(list []savedVar) {
	for _, s := range list {
		v := in.mutableVar(s.Name)
		in.clearValue(v)
		v.attrs, v.hidden = attr(s.Attrs), s.Gone
		switch {
		case v.attrs&attrArray != 0:
			v.arr = &array{}
			for _, e := range s.List {
				v.arr.set(e.Index, e.Value)
			}
			in.updateCharge(v, v.arr.memoryCost())
		case v.attrs&attrAssoc != 0:
			v.assoc = newAssoc()
			for i := len(s.List) - 1; i >= 0; i-- {
				v.assoc.set(s.List[i].Key, s.List[i].Value)
			}
			in.updateCharge(v, v.assoc.memoryCost())
		case s.Set:
			in.setString(v, s.Text)
		}
		v.set = s.Set
	}
	in.envOK = false
}
