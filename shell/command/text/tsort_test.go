package text_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

func TestTsort(t *testing.T) {
	commandtest.Compare(t, commandtest.Cases([]string{"f=a b\nb c\na d\n", "loop=a b\nb c\nc a\n", "odd=a b c\n", "self=a a\nb b\n", "many=x y\na b\nz y\na z\nc c\nb q\nq z\n", "two=a b\nb a\nc d\nd c\n"}, "m n\nn o\n", "tsort f", "tsort", "tsort -", "tsort loop", "tsort odd", "tsort self", "tsort many", "tsort nofile", "tsort f f", "tsort two"))
}
