package shell

import "strings"

// parseFlags parses the single-letter options of a builtin and returns the
// other arguments. After an unknown option it prints an error and ok is false.
func (in *interp) parseFlags(args []string, known string) (set map[byte]bool, rest []string, ok bool) {
	i := 1
	for ; i < len(args) && len(args[i]) > 1 && args[i][0] == '-'; i++ {
		if args[i] == "--" {
			i++
			break
		}
		for j := 1; j < len(args[i]); j++ {
			c := args[i][j]
			if strings.IndexByte(known, c) < 0 {
				in.errorf("%s: -%c: invalid option", args[0], c)
				in.reportUsage(args[0], "")
				return nil, nil, false
			}
			if set == nil {
				set = make(map[byte]bool)
			}
			set[c] = true
		}
	}
	return set, args[i:], true
}
