package syntax

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// TestLinesBeforeAnErrorAreReturned: the parser gives each line before it
// looks at the next.
func TestLinesBeforeAnErrorAreReturned(t *testing.T) {
	p := New("echo a; echo b\nfor x in 1; do\necho\ndone\nfi\necho c\n", Options{})
	var got []int
	for {
		stmts, err := p.Next()
		var e *Error
		if errors.As(err, &e) {
			if e.Line != 5 || e.Token != "fi" || e.Source != "fi" || e.Incomplete {
				t.Fatalf("%+v", e)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, len(stmts))
	}
	if len(got) != 2 || got[0] != 2 || got[1] != 1 {
		t.Fatal(got)
	}
	if _, err := p.Next(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

// TestAliases follows bash's rules: no recursion, a trailing blank continues,
// quotes prevent, a definition counts from the next line on.
func TestAliases(t *testing.T) {
	alias := map[string]string{
		"ls": "ls -F", "ll": "ls -l", "a": "b", "b": "a x", "sudo": "sudo ", "two": "echo 1; echo 2",
		"loop": "for i in 1 2; do", "open": "echo 'a", "empty": "", "sub": "echo $(ll)", "nl": "echo x\necho y",
	}
	for _, c := range []struct{ src, want string }{
		{"ls", "ls -F"},
		{"ll a", "ls -F -l a"},
		{"a", "a x"},
		{"sudo ll", "sudo ls -F -l"},
		{"sudo sudo ll; ll", "sudo sudo ls -F -l\nls -F -l"},
		{`\ls; "ls"; echo ls`, "\\ls\n\"ls\"\necho ls"},
		{"two | cat", "echo 1\necho 2 | cat"},
		{"loop echo $i; done", "for i in 1 2;\ndo\necho $i;\ndone"},
		{"open b'", "echo 'a b'"},
		{"empty ls", "ls -F"},
		{"x=1 ll", "x=1 ls -F -l"},
		{"echo $(ll)", "echo $(ls -F -l)"},
		{"sub", "echo $(ls -F -l)"},
		{"if ll; then ll; fi", "if ls -F -l; then\nls -F -l;\nfi"},
		{"ll\nll\nll", "ls -F -l\nls -F -l\nls -F -l"},
		{"nl", "echo x\necho y"},
		{"case ll in ll) ll;; esac", "case ll in \nll)\nls -F -l\n;;\nesac"},
		{"ll <<E\nll\nE\nll", "ls -F -l <<E\nll\nE\n\nls -F -l"},
	} {
		p := New(c.src, Options{Alias: func(name string) (string, bool) {
			s, ok := alias[name]
			return s, ok
		}})
		got, err := readAll(p)
		if err != nil {
			t.Errorf("%s: %v", c.src, err)
		}
		got = strings.TrimSpace(strings.ReplaceAll(got, "    ", ""))
		if got != c.want {
			t.Errorf("%s\n got %q\nwant %q", c.src, got, c.want)
		}
	}
}

// TestIncomplete: an interactive shell asks for more exactly where more could
// help.
func TestIncomplete(t *testing.T) {
	for src, want := range map[string]bool{
		"if true": true, "echo 'a": true, "echo \"a": true, "echo $(": true, "a |": true, "{ a": true,
		"f()": true, "case x in": true, "x=(1": true, "${x": true, "((1": true,
		"fi": false, ")": false, "a ;; b": false, "[[ a b ]]": false,
	} {
		_, err := Parse(src, Options{})
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s is accepted", src)
			continue
		}
		if e.Incomplete != want {
			t.Errorf("%s: incomplete=%v, %v", src, e.Incomplete, err)
		}
	}
}

// TestDollarSingle decodes as bash does.
func TestDollarSingle(t *testing.T) {
	for in, want := range map[string]string{
		`a\tb\n`: "a\tb\n", `\x41\x4`: "A\x04", `\101\60`: "A0", `\u00e9\U1F600`: "é😀", `\'\"\\\?`: `'"\?`,
		`\cA\c?\ca`: "\x01\x7f\x01", `\e\E\a\b\f\v\r`: "\x1b\x1b\a\b\f\v\r", `\q\`: `\q\`, `a\0b`: "a", `a\x00b`: "a",
		`\x{41}b`: "Ab", `\xzz`: `\xzz`, `\u`: `\u`, `\400`: "", `\uD800`: "\xed\xa0\x80",
	} {
		if got := Unescape(in, func() {}); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

// TestArithmetic: precedence and grouping, shown with parentheses.
func TestArithmetic(t *testing.T) {
	for in, want := range map[string]string{
		"1+2*3": "(1+(2*3))", "1-2-3": "((1-2)-3)", "2**3**2": "(2**(3**2))", "-2**2": "((-2)**2)",
		"a=b=1": "a=b=1", "a+=1,b": "(a+=1,b)", "a?b:c?d:e": "(a?b:(c?d:e))", "!a&&b||c": "(((!a)&&b)||c)",
		"a++ + ++b": "(a+++++b)", "5--3": "(5-(-3))", "--5": "(-(-5))", "x[i+1]--": "x[i+1]--", "(1+2)*3": "((1+2)*3)",
		"1<<2+3": "(1<<(2+3))", "a<b==c>d": "((a<b)==(c>d))", "a&b|c^d": "((a&b)|(c^d))", "0x1F": "31", "017": "15",
		"2#101": "5", "64#_": "63", "36#Zz": "1295", "1?2,3:4": "(1?(2,3):4)", "": "",
	} {
		e, err := ParseArith(in, Options{})
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := describeArith(e); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func describeArith(e ArithExpr) string {
	switch e := e.(type) {
	case *ArithNum:
		return strings.TrimSpace(itoa(e.Value))
	case *ArithVar:
		if e.Index != nil {
			return e.Name + "[" + e.Index.Arith.Raw + "]"
		}
		return e.Name
	case *ArithUnary:
		return "(" + e.Op.String() + describeArith(e.X) + ")"
	case *ArithIncDec:
		op := "++"
		if e.Dec {
			op = "--"
		}
		if e.Post {
			return describeArith(e.X) + op
		}
		return op + describeArith(e.X)
	case *ArithBinary:
		return "(" + describeArith(e.X) + e.Op.String() + describeArith(e.Y) + ")"
	case *ArithAssign:
		return describeArith(e.X) + e.Op.String() + "=" + describeArith(e.Y)
	case *ArithTernary:
		return "(" + describeArith(e.Cond) + "?" + describeArith(e.X) + ":" + describeArith(e.Y) + ")"
	}
	return ""
}

func itoa(v int64) string {
	if v < 10 {
		return string(rune('0' + v))
	}
	return itoa(v/10) + string(rune('0'+v%10))
}

// TestArithmeticErrors are worded as in bash.
func TestArithmeticErrors(t *testing.T) {
	for in, want := range map[string]string{
		"1 +":     `1 +: syntax error: operand expected (error token is "+")`,
		"1 2":     `1 2: syntax error in expression (error token is "2")`,
		"x--5":    `x--5: syntax error in expression (error token is "5")`,
		"5--x":    `5--x: syntax error in expression (error token is "--x")`,
		"3++":     `3++: syntax error: operand expected (error token is "+")`,
		"08":      `08: value too great for base (error token is "08")`,
		"1?:2":    `1?:2: expression expected (error token is ":2")`,
		"1?2":     "1?2: `:' expected for conditional expression (error token is \"2\")",
		"a+b=3":   `a+b=3: attempted assignment to non-variable (error token is "=3")`,
		"@":       `@: syntax error: operand expected (error token is "@")`,
		"1 @":     `1 @: syntax error: invalid arithmetic operator (error token is "@")`,
		"1.5":     `1.5: syntax error: invalid arithmetic operator (error token is ".5")`,
		"a[":      `a[: bad array subscript (error token is "a[")`,
		"2#":      `2#: invalid integer constant (error token is "2#")`,
		"65#1":    `65#1: invalid arithmetic base (error token is "65#1")`,
		"0#1":     `0#1: invalid number (error token is "0#1")`,
		"++":      `++: syntax error: operand expected (error token is "+")`,
		"x+=":     `x+=: syntax error: operand expected (error token is "+=")`,
		"a ? b :": `a ? b :: expression expected (error token is ":")`,
		"0?1:b=4": `0?1:b=4: attempted assignment to non-variable (error token is "=4")`,
	} {
		_, err := ParseArith(in, Options{})
		if err == nil || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", in, err, want)
		}
	}
}

// TestExpansionsInArithmetic: what a plain number can stand for is parsed
// before it is known.
func TestExpansionsInArithmetic(t *testing.T) {
	for src, want := range map[string]string{
		"$a + 1": "known 1", "$a$b": "unknown", "${a}#1": "unknown", "1$a": "unknown", "${a} * $(b)": "known 2",
		"a[$i] + $j": "known 1", "\"$a\"": "unknown", "$a + ": "unknown", "x": "known 0", "$a[0]": "unknown",
	} {
		f, err := Parse("echo $(("+src+"))", Options{})
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		var got string
		Walk(f, func(n Node) bool {
			a, ok := n.(*ArithExp)
			if !ok {
				return true
			}
			got = "unknown"
			if a.X.Expr != nil {
				got = "known " + itoa(int64(len(a.X.Dollars)))
			}
			return false
		})
		if got != want {
			t.Errorf("%s: %s, want %s", src, got, want)
		}
	}
}

// TestRefs reads names with subscripts and nothing else.
func TestRefs(t *testing.T) {
	for in, want := range map[string]string{
		"a": "a", "a[1]": "a[1]", "a[b c]": "a[b c]", "a[": "", "1a": "", "a b": "", "a[1]b": "", "": "", "a[@]": "a[@]", "a[]": "",
	} {
		name, index, ok := ParseRef(in, Options{})
		got := ""
		if ok {
			got = name
			if index != nil && index.Kind == IndexAt {
				got += "[@]"
			} else if index != nil {
				got += "[" + index.Word.Raw + "]"
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

// TestCommandsAreListed in functions, conditions and substitutions.
func TestCommandsAreListed(t *testing.T) {
	f, err := Parse("f() { rm -rf \"$x\"; }\nif a | b; then x=$(c `d`) \"e\" <(f2); fi\n$cmd; 'g'\\h i\ncat <<E\n$(j)\nE\n[ 1 ]", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range Commands(f) {
		names = append(names, c.Name)
	}
	if got := strings.Join(names, ","); got != "rm,a,b,e,c,d,f2,,gh,cat,j,[" {
		t.Fatal(got)
	}
}

// TestStatusOfAnError is bash's, which depends on where the mistake stands.
func TestStatusOfAnError(t *testing.T) {
	for src, want := range map[string][2]int{
		"fi": {2, 2}, "x=(1; 2": {1, 1}, "x=(1": {1, 1}, "echo $(fi)": {2, 127}, "echo $(a": {2, 2},
		"[[ a b ]]": {2, 0}, "[[ a": {2, 2}, "if a": {2, 2}, "a=($(fi))": {2, 127},
	} {
		_, err := Parse(src, Options{})
		var e *Error
		if !errors.As(err, &e) || e.Status != want[0] || e.CommandStatus != want[1] {
			t.Errorf("%s: %+v, want %v", src, e, want)
		}
	}
}
