package sqlite_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
	"github.com/atoll-sandbox/atoll/shell/command/sqlite"
)

const create = `sqlite3 t.db "create table t(a,b text primary key); insert into t values(1,'x y'),(2.5,null),(x'616263','é'),(1e100,'it''s'),(-3,'')"` + "\n"

// scripts are compared with the real sqlite3.
var scripts = []string{
	create + `sqlite3 t.db "select * from t"`,
	create + `sqlite3 -header -csv t.db "select * from t"` + "\n" + `sqlite3 -json t.db "select * from t"` + "\n" + `sqlite3 -line t.db "select * from t"`,
	create + `sqlite3 -column t.db "select * from t"` + "\n" + `sqlite3 -table t.db "select * from t"` + "\n" + `sqlite3 -box t.db "select a as x, b from t"` + "\n" + `sqlite3 -markdown t.db "select * from t"`,
	create + `sqlite3 -quote t.db "select * from t"` + "\n" + `sqlite3 -tabs t.db "select * from t"` + "\n" + `sqlite3 -html -header t.db "select * from t"` + "\n" + `sqlite3 t.db ".mode insert foo" "select * from t"`,
	create + `sqlite3 -separator , -nullvalue NULL t.db "select * from t"` + "\n" + `sqlite3 -noheader -list t.db "select 1,2"` + "\n" + `sqlite3 t.db ".headers on" ".separator ;" "select * from t"`,
	create + `sqlite3 t.db .dump` + "\n" + `sqlite3 t.db .schema` + "\n" + `sqlite3 t.db .tables`,
	create + `sqlite3 t.db "create view v as select a x from t; create index i on t(a); create table u(id integer primary key autoincrement, n not null); insert into u(n) values('q')" .tables .schema .indexes .dump`,
	create + `sqlite3 t.db "create trigger g after insert on t begin select 1; select 2; end; insert into t values(9,'n'); select count(*) from t" .dump`,
	create + `sqlite3 t.db "insert into t values(1,'x y')"` + "\n" + `sqlite3 t.db "select * from nope"` + "\n" + `sqlite3 t.db selec` + "\n" + `sqlite3 t.db "select count(*) from t"`,
	create + `sqlite3 t.db "begin; delete from t; rollback; select count(*) from t; begin; delete from t where a=1; commit; select count(*) from t"`,
	`sqlite3 t.db ".import --csv f.csv imp" "select * from imp" ".schema imp" "select typeof(a) from imp"` + "\n" + `sqlite3 t.db "create table n(x integer, y)" ".mode csv" ".import f.csv n" "select x, y, typeof(x) from n"`,
	`sqlite3 t.db ".import --csv --skip 1 f.csv imp" "select * from imp"` + "\n" + `sqlite3 t.db ".import short.csv z" "select * from z"` + "\n" + `sqlite3 t.db ".import nope.csv z"`,
	`sqlite3 :memory: "select sqlite_version() > '3.30'; select 1+1, 'a'||'b', round(2.567,2), 7/2, 7.0/2, upper('x'), substr('hello',2,3), length('é'), hex('ab'), typeof(null)"`,
	`sqlite3 :memory: "select instr('hello','l'), instr('é€x','x'), replace('aXbX','X','yy'), trim('  a '), ltrim('xxay','x'), rtrim('ayy','y'), instr(x'0102',x'02'), trim(12), replace(123,2,'z'), instr(null,1)"`,
	`sqlite3 :memory: "with recursive c(x) as (select 1 union all select x+1 from c where x<10) select sum(x), group_concat(x,'-') from c; select json_extract('{\"a\":[1,2]}','$.a[1]'), json_array(1,'x'); select date('2024-02-30','+1 day'), strftime('%Y','2024-05-06')"`,
	`sqlite3 :memory: "select row_number() over (order by x), x from (select 3 x union select 1); select * from json_each('[1,2]') limit 1"`,
	`sqlite3 a.db "create table a(x); insert into a values(1)"` + "\n" + `sqlite3 b.db "attach 'a.db' as o; create table b as select x*10 y from o.a; select * from b"` + "\n" + `sqlite3 a.db "vacuum into 'c.db'"` + "\n" + `sqlite3 c.db "select * from a"`,
	`sqlite3 a.db "create table a(x); insert into a values(1)" ".output out.txt" "select * from a" ".output" "select 2"` + "\n" + "cat out.txt\n" + `sqlite3 a.db ".once o2" "select 5" "select 6"` + "\n" + "cat o2\n" + `sqlite3 a.db ".backup b.db"` + "\n" + `sqlite3 b.db "select * from a"`,
	`sqlite3 a.db ".read s.sql"` + "\n" + `sqlite3 a.db ".print hello world" ".nullvalue N" "select null"` + "\n" + `sqlite3 a.db ".read nope"` + "\n" + `sqlite3 a.db ".exit 3"` + "\n" + `sqlite3 a.db ".foo"`,
	`sqlite3 -readonly s.db "create table x(a)"` + "\n" + `sqlite3 nope/x.db "select 1"` + "\n" + `sqlite3 f.csv "select * from sqlite_schema"` + "\n" + `sqlite3 -foo`,
	`sqlite3 -cmd ".mode csv" :memory: "select 1,'a b'"` + "\n" + `sqlite3 -init s.sql :memory: "select * from s"`,
	`sqlite3 w.db "pragma journal_mode=truncate; create table x(a); insert into x values(1); pragma integrity_check; pragma user_version=7; pragma user_version"`,
	`sqlite3 -box :memory: $'select \'a\nbc\' x, 2 y'`,
}

// inputs are scripts on standard input.
var inputs = []string{
	".mode column\n.width 5 -8 3\ncreate table t(a,bb,c);insert into t values('abcdefghij',12,'x y z'),('q',123456789012,'zz');\nselect * from t;\n.headers off\nselect * from t;\n.width\nselect * from t;\n",
	".mode box\n.width 4\ncreate table t(a,bb,c);insert into t values('abcdefghij',12,'x y z'),('q',123456789012,'zz');\nselect * from t;\n",
	".mode table\n.width 0 -4\ncreate table t(a,bb,c);insert into t values('abcdefghij',12,'x y z'),('q',123456789012,'zz');\nselect * from t;\n",
	".mode markdown\n.width 3 3 3\ncreate table t(a,bb,c);insert into t values('abcdefghij',12,'x y z'),('q',123456789012,'zz');\nselect * from t;\n",
	".mode box\nselect 'a'||char(10)||'b' as x union all select 'c';\n",

	"create table t(a);\ninsert into t values(1),\n (2);\nselect * from t;\n.mode csv\n.headers on\nselect a, a*2 as b from t;\n", "selec 1;\nselect 2;\n.foo\nselect 3\n", "select 'a;b';\nselect /* ; */ 4; select 5;\n-- c\nselect 6", "create table t(a unique);\ninsert into t values(1);\ninsert into t values(1);\nselect count(*) from t;\n",
	".quit\nselect 1;\n", "select 1;\n.exit 4\n", "create table t(a);\ncreate trigger g after insert on t begin\n update t set a=a+1;\nend;\ninsert into t values(1);\nselect a from t;\n", "",
}

var tree = []string{"f.csv=a,b\n1,\"x, \"\"y\"\"\"\n2,z\n", "short.csv=a|b\n1\n2|3|4\n", "s.sql=create table s(a);\ninsert into s values('from file');\nselect a from s;\n"}

// TestSQLite compares scripts with the real sqlite3.
func TestSQLite(t *testing.T) {
	var cases []commandtest.Case
	for _, run := range scripts {
		cases = append(cases, commandtest.Case{Run: run, Tree: tree, Loose: true, NoFiles: true})
	}
	for _, input := range inputs {
		cases = append(cases, commandtest.Case{Run: "sqlite3", Stdin: input, Loose: true}, commandtest.Case{Run: "sqlite3 -bail x.db", Stdin: input, Loose: true, NoFiles: true})
	}
	commandtest.Compare(t, cases, sqlite.Commands()...)
}

// TestHostIsOutOfReach checks that no name of a file reaches the host.
func TestHostIsOutOfReach(t *testing.T) {
	dir := t.TempDir()
	host := filepath.Join(dir, "host.db")
	s := commandtest.New(t, "/w", sqlite.Commands()...)
	for _, sql := range []string{
		"attach 'file:" + host + "?vfs=os' as h; create table h.x(a)", "attach 'FILE:" + host + "?vfs=os' as h; create table h.x(a)", "attach 'fi'||'le:" + host + "?vfs=os' as h; create table h.x(a)",
		"attach x'66696c653a' as h", "create table y(a); vacuum into 'file:" + host + "?vfs=os'", "create table z(a); vacuum main into 'fi'||'le:" + host + "?vfs=os'", "pragma temp_store_directory='" + dir + "'; pragma temp_store=1; create temp table q as select 1",
		"select load_extension('" + host + "')", "select writefile('" + host + "', 'x')", "attach '" + host + "' as h; create table h.x(a)",
	} {
		s.Exec("", "sqlite3", "t.db", sql) // any result will do
	}
	for _, name := range []string{"file:" + host + "?vfs=os", "file://" + host + "?vfs=os&mode=rwc", "file:" + host + "?vfs=os&vfs=os", host + "?vfs=os"} {
		s.Exec("", "sqlite3", name, "create table x(a)")
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) > 0 {
		t.Errorf("files on the host: %v, %v", list, err)
	}
	if o := s.Exec("", "sqlite3", "t.db", "attach 'file:/x?vfs=os' as h"); o.Code == 0 || !strings.Contains(o.Stderr, "not authorized") {
		t.Errorf("%+v", o)
	}
}

// TestLocks checks that a database which one process writes is locked for others.
func TestLocks(t *testing.T) {
	s := commandtest.New(t, "/w", sqlite.Commands()...)
	s.WriteFile("s.sql", "begin exclusive;\nattach 't.db' as again;\nselect * from again.t;\n")
	s.Exec("", "sqlite3", "t.db", "create table t(a)")
	if o := s.Exec("", "sqlite3", "t.db", ".read s.sql"); !strings.Contains(o.Stderr, "locked") {
		t.Errorf("%+v", o)
	}
	if o := s.Exec("", "sqlite3", "t.db", "insert into t values(1); select * from t"); o.Stdout != "1\n" {
		t.Errorf("after it: %+v", o)
	}
}

// TestOutOfMemory checks that a statement which needs more memory than there is fails, and that its memory is given back.
func TestOutOfMemory(t *testing.T) {
	s := commandtest.New(t, "/w", sqlite.Commands()...)
	for range 5 {
		o := s.Exec("", "sqlite3", ":memory:", "pragma temp_store=2; create temp table t as with recursive c(x) as (select randomblob(900000) union all select randomblob(900000) from c) select x from c")
		if o.Code != 7 || !strings.Contains(o.Stderr, "out of memory") {
			t.Fatalf("%+v", o)
		}
	}
	if n := s.Kernel.Memory(); n != 0 {
		t.Errorf("%d bytes are still charged", n)
	}
	if list := s.Kernel.Incidents(); len(list) > 0 {
		t.Error(list[0].Value)
	}
}

// TestBombs checks that statements which never end are stopped by their deadline, and that memory stays within its limit.
func TestBombs(t *testing.T) {
	s := commandtest.New(t, "/w", sqlite.Commands()...)
	for _, sql := range []string{
		"with recursive c(x) as (select 1 union all select x+1 from c) select count(*) from c",
		"with recursive c(x) as (select 1 union all select x+1 from c) select group_concat(x) from c",
		"with recursive c(x) as (select 1 union all select x+1 from c) select x from c order by -x",
		"create table t as with recursive c(x) as (select randomblob(9000) union all select randomblob(9000) from c) select x from c",
		"create temp table t as with recursive c(x) as (select randomblob(900000) union all select randomblob(900000) from c) select x from c",
		"pragma cache_size=1000000; pragma temp_store=2; create temp table t as with recursive c(x) as (select randomblob(9000) union all select randomblob(9000) from c) select x from c",
		"select hex(zeroblob(2000000000))", "select printf('%.*c', 2000000000, 'x')", "select replace(hex(zeroblob(400000)),'0',hex(zeroblob(400000)))",
		"select instr(zeroblob(900000), zeroblob(450000)||x'01'), trim(hex(zeroblob(400000)), hex(randomblob(400000)))",
		"select hex(zeroblob(400000)) like '%0%0%0%0%0%0%0%0%0%0%0%0%0%0%0%0%0%0%0%1'", "select json_group_array(x) from (with recursive c(x) as (select 1 union all select x+1 from c) select x from c)",
		"select " + strings.Repeat("(", 90000) + "1" + strings.Repeat(")", 90000), "select 1" + strings.Repeat("+1", 100000), "select * from " + strings.TrimSuffix(strings.Repeat("(select 1 union select 2),", 64), ","),
	} {
		commandtest.RunHostile(t, s, "", "sqlite3", "bomb.db", sql)
		s.Exec("", "rm", "-f", "bomb.db", "bomb.db-journal")
	}
	commandtest.RunHostile(t, s, strings.Repeat("select 'x", 100000), "sqlite3")
	s.WriteFile("r.sql", ".read r.sql\n")
	commandtest.RunHostile(t, s, "", "sqlite3", ":memory:", ".read r.sql")
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err := s.Run(ctx, strings.NewReader(""), nil, "sqlite3", ":memory:", "with recursive c(x) as (select 1 union all select x+1 from c) select count(*) from c")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an endless statement ended with %v", err)
	}
}

// TestLongLine checks that a line which is too long is an error, in input and in a file of rows.
func TestLongLine(t *testing.T) {
	s := commandtest.New(t, "/w", sqlite.Commands()...)
	long := strings.Repeat("x", 1_000_001)
	s.WriteFile("f", long)
	for _, o := range []commandtest.Result{s.Exec(long, "sqlite3"), s.Exec("", "sqlite3", ":memory:", ".read f"), s.Exec("", "sqlite3", ":memory:", ".import f t")} {
		if o.Code != 1 || !strings.Contains(o.Stderr, "more than 1") {
			t.Errorf("%d %q", o.Code, o.Stderr)
		}
	}
}

// TestTimeoutWaitsForALock checks that .timeout waits for a lock of another process, until it is released or the time is over.
func TestTimeoutWaitsForALock(t *testing.T) {
	s := commandtest.New(t, "/w", sqlite.Commands()...)
	s.Exec("", "sqlite3", "t.db", "create table t(a)")
	locker, input := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := s.Run(t.Context(), locker, nil, "sqlite3", "t.db")
		done <- err
	}()
	if _, err := io.WriteString(input, "begin exclusive;\n.output locked\nselect 1;\n.output\n"); err != nil {
		t.Fatal(err)
	}
	for b, _ := s.FS.ReadFile(s.Path("locked")); string(b) != "1\n"; b, _ = s.FS.ReadFile(s.Path("locked")) {
		runtime.Gosched() // until the other process has the lock
	}
	for _, wait := range []string{"0", "30"} {
		if o := s.Exec("", "sqlite3", "t.db", ".timeout "+wait, "insert into t values(1)"); o.Code != 5 || !strings.Contains(o.Stderr, "locked") {
			t.Errorf("with %s ms: %+v", wait, o)
		}
	}
	waiter := make(chan commandtest.Result, 1)
	go func() {
		r, err := s.Run(t.Context(), strings.NewReader(".timeout 60000\ninsert into t values(2);\nselect a from t where a = 2;\n"), nil, "sqlite3", "t.db")
		if err != nil {
			t.Error(err)
		}
		waiter <- r
	}()
	if err := input.Close(); err != nil { // it ends the transaction
		t.Fatal(err)
	}
	if o := <-waiter; o.Code != 0 || o.Stdout != "2\n" {
		t.Errorf("%+v", o)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestTimer checks that .timer prints the time of statements of the input.
func TestTimer(t *testing.T) {
	s := commandtest.New(t, "/w", sqlite.Commands()...)
	o := s.Exec(".timer on\nselect 1;\n.timer off\nselect 2;\n", "sqlite3")
	if !regexp.MustCompile(`^1\nRun Time: real \d+\.\d{3} user \d+\.\d{6} sys 0\.000000\n2\n$`).MatchString(o.Stdout) {
		t.Errorf("%+v", o)
	}
}
