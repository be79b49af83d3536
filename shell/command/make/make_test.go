package make_test

import (
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// TestBombs checks that makefiles that would take any time or memory are stopped, and that their memory is freed. Makefiles
// are compared with GNU make in driver/virtual/testdata/compat/make.txt.
func TestBombs(t *testing.T) {
	s := commandtest.New(t, "/w")
	doubling := "a0 := xxxxxxxxxxxxxxxx\n"
	for range 60 {
		doubling += "a0 := $(a0)$(a0)\n"
	}
	lazy := "b0 = xxxxxxxxxxxxxxxx\n"
	for i := range 25 {
		a, b := string(rune('a'+i)), string(rune('b'+i))
		lazy += b + " = $(" + a + ")$(" + a + ")$(" + a + ")$(" + a + ")\n"
	}
	for _, text := range []string{
		doubling + "all:;@:\n", "a = y\n" + lazy + "$(info $(z))\n", "f = $(call f,$(1)x)\n$(info $(call f,x))\n", "f = $(call f,$(1)$(1))\n$(info $(call f,xxxxxxxx))\n", "include Makefile\n", "define t\n$(eval $(t))\nendef\n$(eval $(t))\n",
		strings.Repeat("ifdef X\n", 100000), "x := " + strings.Repeat("$(", 100000), "%: %.x;\n%.x: %.y;\n%.y: %.z;\n%.z: %.x;\nall: q\n", "L := $(foreach i,$(W),$(foreach j,$(W),$(foreach k,$(W),x)))\nW := " + strings.Repeat("w ", 1000) + "\n$(info $(foreach i,$(W),$(foreach j,$(W),$(foreach k,$(W),x))))\n",
		"a: b\n" + strings.Repeat("a: c\n", 50000), strings.Repeat("%.a%: %.b%;\n", 5000) + "all: x.a.a.a.a.a\n", "all:\n" + strings.Repeat("\t\\\n", 100000), "$(file <Makefile)$(info $(file <f))\n", "X := $(wildcard */*/*/*)\nall:;\n", "$(info " + strings.Repeat("$(subst x,xxxxxxxxxxxxxxxx,", 40) + "xxxx" + strings.Repeat(")", 40) + ")\n",
	} {
		s.WriteFile("Makefile", text)
		commandtest.RunHostile(t, s, "", "make", "-n")
	}
	s.WriteFile("Makefile", "all:;\n")
	commandtest.RunHostile(t, s, "", "make", "-f", "/dev/zero")
	chain := ""
	for i := range 5000 {
		chain += "t" + strings.Repeat("x", i%50) + string(rune('a'+i%26)) + ": u" + strings.Repeat("x", (i+1)%50) + "\n"
	}
	s.WriteFile("Makefile", chain)
	commandtest.RunHostile(t, s, "", "make")
	if n := s.Kernel.Memory(); n != 0 {
		t.Errorf("%d bytes stay charged", n)
	}
}

// TestRefusedSaysWhatToUse checks the options that are not supported.
func TestRefusedSaysWhatToUse(t *testing.T) {
	s := commandtest.New(t, "/w")
	for _, o := range []string{"-p", "-d"} {
		if r := s.Exec("", "make", o); r.Code != 2 || !strings.Contains(r.Stderr, "use ") {
			t.Errorf("%s: %+v", o, r)
		}
	}
}
