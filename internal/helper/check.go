package helper

import "github.com/atoll-sandbox/atoll"

// Check reports whether a helper is found. without describes what does not work without it.
func (f Finder) Check(name string, needed bool, without string) atoll.Check {
	c := atoll.Check{Name: "helper " + name, Needed: needed}
	path, err := f.Find(name)
	if err != nil {
		c.Detail, c.Fix = "without it "+without, howToGet(name, Version())
		return c
	}
	c.OK, c.Detail = true, path
	return c
}
