package sqlite

import (
	"bytes"
	"errors"
	"strings"

	"github.com/ncruces/go-sqlite3"
)

// registerFunctions replaces functions of SQLite whose time is the product of the lengths of two arguments: within one
// call SQLite does not look at its deadline.
func registerFunctions(conn *sqlite3.Conn) error {
	flags := sqlite3.DETERMINISTIC | sqlite3.INNOCUOUS
	err := errors.Join(
		conn.CreateFunction("instr", 2, flags, findText),
		conn.CreateFunction("replace", 3, flags, replaceText),
	)
	for name, sides := range map[string][2]bool{"trim": {true, true}, "ltrim": {true, false}, "rtrim": {false, true}} {
		f := func(ctx sqlite3.Context, arg ...sqlite3.Value) { trimText(ctx, sides, arg) }
		err = errors.Join(err, conn.CreateFunction(name, 1, flags, f), conn.CreateFunction(name, 2, flags, f))
	}
	return err
}

func hasNull(arg []sqlite3.Value) bool {
	for _, a := range arg {
		if a.Type() == sqlite3.NULL {
			return true
		}
	}
	return false
}

// findText is instr(X, Y): the position of Y in X, in bytes if both are blobs, else in characters; 0 if there is none.
func findText(ctx sqlite3.Context, arg ...sqlite3.Value) {
	if hasNull(arg) {
		ctx.ResultNull()
		return
	}
	if arg[0].Type() == sqlite3.BLOB && arg[1].Type() == sqlite3.BLOB {
		ctx.ResultInt(bytes.Index(arg[0].RawBlob(), arg[1].RawBlob()) + 1)
		return
	}
	text := arg[0].Text()
	n := strings.Index(text, arg[1].Text())
	if n < 0 {
		ctx.ResultInt(0)
		return
	}
	ctx.ResultInt(len([]rune(text[:n])) + 1)
}

// replaceText is replace(X, Y, Z): X with Z in the place of each Y.
func replaceText(ctx sqlite3.Context, arg ...sqlite3.Value) {
	if hasNull(arg) {
		ctx.ResultNull()
		return
	}
	x, y, z := arg[0].Text(), arg[1].Text(), arg[2].Text()
	switch {
	case y == "":
		ctx.ResultText(x)
	case len(x)+strings.Count(x, y)*(len(z)-len(y)) > maxLength:
		ctx.ResultError(sqlite3.TOOBIG)
	default:
		ctx.ResultText(strings.ReplaceAll(x, y, z))
	}
}

// trimText removes characters of a set, by default spaces, at the ends of a text.
func trimText(ctx sqlite3.Context, sides [2]bool, arg []sqlite3.Value) {
	if hasNull(arg) {
		ctx.ResultNull()
		return
	}
	text, set := arg[0].Text(), map[rune]bool{' ': true}
	if len(arg) > 1 {
		clear(set)
		for _, r := range arg[1].Text() {
			set[r] = true
		}
	}
	if sides[0] {
		text = strings.TrimLeftFunc(text, func(r rune) bool { return set[r] })
	}
	if sides[1] {
		text = strings.TrimRightFunc(text, func(r rune) bool { return set[r] })
	}
	ctx.ResultText(text)
}
