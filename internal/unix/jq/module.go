package jq

import (
	"errors"
	"io"
	"path"
	"strings"
)

// compileImports brings the functions and data of modules into scope.
func (c *compiler) compileImports(list []imported) {
	for _, imp := range list {
		if imp.data {
			v := c.loadData(imp)
			for _, name := range []string{"$" + imp.alias + "::" + imp.alias, "$" + imp.alias} {
				c.scope = &binding{up: c.scope, name: name, data: v}
			}
			continue
		}
		c.compileModule(imp)
	}
}

// findSource returns the text of a module's file.
func (c *compiler) findSource(imp imported, ext string) string {
	if c.cfg.Modules == nil {
		c.failAt(0, "module not found: %s", imp.path)
	}
	dirs := c.cfg.Paths
	if o, ok := imp.meta.(*Object); ok {
		if v, ok := o.Get("search"); ok {
			if s, ok := v.(string); ok {
				dirs = append([]string{s}, dirs...)
			}
		}
	}
	base := path.Base(imp.path)
	for _, dir := range dirs {
		for _, name := range []string{imp.path + ext, path.Join(imp.path, base+ext)} {
			if src, ok := c.cfg.Modules(path.Join(dir, name)); ok {
				return src
			}
		}
	}
	c.failAt(0, "module not found: %s", imp.path)
	return ""
}

// loadData returns all values of a JSON module as an array.
func (c *compiler) loadData(imp imported) Value {
	d := newDecoder(strings.NewReader(c.findSource(imp, ".json")), c.acct)
	a := NewArray()
	for {
		v, err := d.Decode()
		if errors.Is(err, io.EOF) {
			return share(a)
		}
		if err != nil {
			c.failAt(0, "%s: %v", imp.path, err)
		}
		a.Items = append(a.Items, v)
	}
}

const maxImports = 64 // depth of modules that import modules

// compileModule compiles the definitions of a module outside of any body.
func (c *compiler) compileModule(imp imported) {
	if len(c.loading) >= maxImports {
		c.failAt(0, "module imports nested too deeply: %s", imp.path)
	}
	prog, err := parse(c.findSource(imp, ".jq"), c.acct)
	if err != nil {
		c.failAt(0, "module %s: %v", imp.path, err)
	}
	if prog.body != nil {
		c.failAt(0, "library should only have function definitions, not a main expression")
	}
	unit, scope := c.unit, c.scope
	c.unit, c.scope = nil, nil
	c.loading = append(c.loading, imp.path)
	c.compileImports(prog.imports)
	prefix := imp.alias + "::"
	if imp.include {
		prefix = ""
	}
	exported := scope
	for _, d := range prog.defs {
		name := signatureOf(d.name, len(d.params))
		body := &code{name: d.name}
		c.scope = &binding{up: c.scope, name: name, fn: body, free: true}
		c.compileBody(d, body)
		exported = &binding{up: exported, name: prefix + name, fn: body, free: true}
	}
	c.loading = c.loading[:len(c.loading)-1]
	c.unit, c.scope = unit, exported
}
