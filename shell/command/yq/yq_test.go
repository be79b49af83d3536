package yq_test

import (
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

const sample = `# head
a: 1 # one
b:
  - x
  - "y z" # quoted
  - {k: v}
c: {d: null, e: ~, f: 'no'}
# about m
m: |
  multi
  line
n: &anchor
  q: 0x1f
  r: 1.50
o:
  <<: *anchor
  s: true
p: *anchor
key-with-dash: yes
nested:
  list:
    - name: one
      value: 1
    - name: two
      value: 2
`

const compose = `services:
  web:
    image: nginx:1.25
    ports:
      - "80:80"
  db: # the database
    image: postgres:16
`

// TestYq compares expressions with mikefarah's yq 4.54.
func TestYq(t *testing.T) {
	tree := []string{"t.yaml=" + sample, "c.yml=" + compose, "two.yaml=a: 1\nb: [1]\n---\na: 2\n", "j.json={\"a\":[1,{\"b\":\"c\"}],\"d\":\"x y\"}\n", "over.yaml=services:\n  web:\n    image: nginx:2\nextra: true\n", "empty.yaml=", "alias.yaml=base: &b # kept\n  k: 1\n  l: [1, 2]\none: *b\nlist: [*b]\n", "bad.yaml=a: [1\n", "simple.yaml=x: 1\ny: hello\nz:\n  - 1\n  - 2\n"}
	cases := commandtest.Cases(tree, "a: 1\nb: two\n",
		"yq . t.yaml", "yq t.yaml", "yq .", "yq .b", "yq e .a t.yaml", "yq eval .b t.yaml", "yq .c t.yaml", "yq '.b[1], .c.f, .n.r, .nope' t.yaml", "yq .b[0] t.yaml", "yq .b[-1].k t.yaml", "yq .key-with-dash t.yaml", "yq '.nested.list[1].name' t.yaml", "yq '.nested.list[].name' t.yaml",
		"yq '.[\"key-with-dash\"]' t.yaml", "yq .m t.yaml", "yq -o=json . c.yml", "yq -o json -I 0 . c.yml", "yq -o=json -I=0 .services.web c.yml", "yq 'keys' c.yml", "yq '.b | length' t.yaml", "yq '.services[].image' c.yml", "yq '.a' two.yaml", "yq -N '.a' two.yaml", "yq . two.yaml",
		"yq '.services.web.image = \"nginx:2\"' c.yml", "yq -i '.services.web.image = \"nginx:2\"' c.yml", "yq -i '.services.db.ports += [\"5432:5432\"]' c.yml", "yq -i 'del(.services.db)' c.yml", "yq 'del(.b, .m)' t.yaml", "yq -i '.a = 2 | .b[0] = \"new\" | .z.y = [1,2]' t.yaml", "yq '.a += 1' simple.yaml", "yq '.z += [3]' simple.yaml", "yq '.z |= map(. * 2)' simple.yaml",
		"yq '.nested.list |= map(select(.value > 1))' t.yaml", "yq '.nested.list[] | select(.name == \"two\") | .value' t.yaml", "yq '(.nested.list[] | select(.name == \"two\")).value = 5' t.yaml", "yq '.x' -o json simple.yaml", "yq -P . j.json", "yq .a j.json", "yq -P -o yaml j.json", "yq -o yaml .d j.json", "yq -p json -o yaml .a j.json", "yq -n '.a.b = \"c\"'", "yq -n '{\"a\": 1, \"b\": [1, 2]}'",
		"yq 'to_entries' simple.yaml", "yq 'with_entries(.value |= tag)' simple.yaml", "yq '.y | upcase' simple.yaml", "yq '.y + \" world\"' simple.yaml", "yq '.z | join(\"-\")' simple.yaml", "yq '.nope // \"default\"' simple.yaml", "yq 'has(\"x\"), has(\"q\")' simple.yaml", "yq '.z[] as $v | $v + 1' simple.yaml", "yq '.z | contains([1])' simple.yaml", "yq 'pick([\"x\",\"y\"])' simple.yaml", "yq 'omit([\"x\"])' simple.yaml",
		"yq 'sort_keys(.)' over.yaml", "yq '.z | .[0]' simple.yaml", "yq '. * {\"x\": 2}' simple.yaml", "yq '.y | test(\"ell\")' simple.yaml", "yq '.y | sub(\"l+\", \"L\")' simple.yaml", "yq '.y | split(\"l\")' simple.yaml", "yq '.z[] as $i ireduce (0; . + $i)' simple.yaml", "yq -o props . simple.yaml", "yq -o csv .z simple.yaml", "yq -o csv '.nested.list' t.yaml", "yq -o tsv '.nested.list' t.yaml",
		"yq -e .x simple.yaml", "yq -r .y simple.yaml", "yq '.b[1]' -r=false t.yaml", "yq ea '. as $item ireduce ({}; . * $item )' c.yml over.yaml", "yq eval-all 'select(fileIndex == 0) * select(fileIndex == 1)' c.yml over.yaml", "yq '.x, .y' simple.yaml", "yq '.z | length' simple.yaml", "yq -I 4 . c.yml", "yq '.services | to_entries | .[] | .key' c.yml", "yq '[.services[].image]' c.yml",
		"yq '.new = {}' simple.yaml", "yq '.new = []' simple.yaml", "yq '.s = \"true\" | .n = \"5\" | .m = \"a: b\"' simple.yaml", "yq '.y = null' simple.yaml", "yq '.z[0], .z[1]' simple.yaml", "yq 'explode(.)' alias.yaml", "yq 'explode(.) | .one.k = 2' alias.yaml", "yq '.z += 4' simple.yaml", "yq '.nested.list += {\"name\": \"three\"}' t.yaml", "yq '.nested.list += [{\"name\": \"three\"}]' t.yaml",
		"yq 'select(document_index == 1)' two.yaml", "yq 'select(di == 0) | .b[0]' two.yaml", "yq -N '[document_index, file_index] | join(\"-\")' two.yaml simple.yaml two.yaml",
	)
	for i := range cases {
		cases[i].Env = []string{"WORD=5"}
	}
	cases = append(cases, commandtest.Case{Run: "yq -n 'strenv(WORD), env(WORD)'", Env: []string{"WORD=5"}}, commandtest.Case{Run: "yq '.y = strenv(WORD)' simple.yaml", Tree: tree, Env: []string{"WORD=some text"}})
	for _, line := range []string{"yq .x nofile", "yq '.a |' t.yaml", "yq . bad.yaml", "yq -e .nope t.yaml", "yq --bad", "yq -o nonsense . t.yaml", "yq -i .a", "yq . empty.yaml"} {
		cases = append(cases, commandtest.Case{Run: line, Tree: tree, Loose: true})
	}
	for i := range cases {
		cases[i].Rare = true
	}
	commandtest.Compare(t, cases)
}

// TestRefusedSaysWhatToUse checks that what yq has and this one has not is an error with another way.
func TestRefusedSaysWhatToUse(t *testing.T) {
	s := commandtest.New(t, "/w")
	s.WriteFile("f", "a: 1\n")
	for _, expression := range []string{`.a style="double"`, `load("x")`, `.a | to_yaml`, `.a line_comment="x"`} {
		if o := s.Exec("", "yq", expression, "f"); o.Code != 1 || !strings.Contains(o.Stderr, "use ") {
			t.Errorf("%s: %+v", expression, o)
		}
	}
}

// TestBombs checks that documents that would take any memory or time are stopped, and that their memory is freed.
func TestBombs(t *testing.T) {
	s := commandtest.New(t, "/w")
	laughs := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 12; i++ {
		n := string(rune('a' + i))
		prev := "a0"
		if i > 1 {
			prev = string(rune('a'+i-1)) + "1"
		}
		laughs += n + "1: &" + n + "1 [" + strings.TrimSuffix(strings.Repeat("*"+prev+",", 9), ",") + "]\n"
	}
	for _, text := range []string{laughs, strings.Repeat("[", 200000), strings.Repeat("- ", 200000), strings.Repeat("{a: ", 100000), "a: &x\n  b: *x\n", "a: &x [*x]\n", strings.Repeat("a: 1\n---\n", 50000), strings.Repeat("k: &a v\n", 30000), strings.Repeat("? ", 100000), "x: \"" + strings.Repeat("\\u0041", 500000) + "\"\n"} {
		for _, args := range [][]string{{"yq", "-o", "json", "."}, {"yq", ".. | length"}, {"yq", "."}} {
			commandtest.RunHostile(t, s, text, args...)
		}
	}
	commandtest.RunHostile(t, s, "", "yq", "-n", "[range(1000000000)]")
	if n := s.Kernel.Memory(); n != 0 {
		t.Errorf("%d bytes stay charged", n)
	}
}

// TestMergeKeys checks that a mapping's own keys take precedence over those that it merges, which have the place of the merge.
// mikefarah's yq prints a warning with the time for each merge.
func TestMergeKeys(t *testing.T) {
	s := commandtest.New(t, "/w")
	s.WriteFile("f", "base: &b {k: 1, l: 2}\ntwo: # comment\n  first: 0\n  <<: [*b, {m: 3, l: 4}]\n  k: 5\n")
	for expression, want := range map[string]string{"explode(.)": "base: {k: 1, l: 2}\ntwo: # comment\n  first: 0\n  l: 2\n  m: 3\n  k: 5\n", ".two | tojson": `{"first":0,"l":2,"m":3,"k":5}` + "\n"} {
		if o := s.Exec("", "yq", expression, "f"); o.Stdout != want {
			t.Errorf("%s: %+v", expression, o)
		}
	}
}
