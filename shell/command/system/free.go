package system

import (
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
)

func runFree(p *kernel.Proc) int {
	opts, _, ok := option.Parser{Options: []option.Option{
		{Short: 'b', Long: "bytes"},
		{Short: 'k', Long: "kibi"},
		{Short: 'm', Long: "mebi"},
		{Short: 'g', Long: "gibi"},
		{Short: 'h', Long: "human"},
		{Short: 't', Long: "total"},
		{Short: 'w', Long: "wide"},
		{Short: 'l', Long: "lohi"},
		{Long: "si", ID: 'S'},
	}}.Parse(p)
	if !ok {
		return 1
	}
	unit, total := rune('k'), false
	for _, o := range opts {
		if o.Key == 't' {
			total = true
		} else if strings.ContainsRune("bkmgh", o.Key) {
			unit = o.Key
		}
	}
	show := func(n int64) string {
		switch unit {
		case 'b':
			return fmt.Sprint(n)
		case 'm':
			return fmt.Sprint(n >> 20)
		case 'g':
			return fmt.Sprint(n >> 30)
		case 'h':
			text := number.FormatHuman(n, 1024)
			if last := text[len(text)-1]; last >= '0' && last <= '9' {
				return text + "B"
			}
			return text + "i"
		}
		return fmt.Sprint(n >> 10)
	}
	all := p.Kernel().Limits().Memory
	used := max(0, p.Kernel().Memory())
	row := func(name string, cols ...int64) {
		text := fmt.Sprintf("%-7s", name)
		for i, c := range cols {
			text += fmt.Sprintf("%*s", map[bool]int{true: 13, false: 12}[i == 0], show(c))
		}
		_, _ = p.Out().WriteString(text + "\n") // Flush reports the error
	}
	_, _ = p.Out().WriteString("               total        used        free      shared  buff/cache   available\n")
	row("Mem:", all, used, all-used, 0, 0, all-used)
	row("Swap:", 0, 0, 0)
	if total {
		row("Total:", all, used, all-used)
	}
	return 0
}
