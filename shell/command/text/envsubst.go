package text

import (
	"bufio"
	"io"
	"slices"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/character"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const envsubstUsage = `Usage: envsubst [OPTION] [SHELL-FORMAT]
Substitutes the values of environment variables.

  -v, --variables   output the variables occurring in SHELL-FORMAT
      --help        display this help and exit

In normal operation mode, standard input is copied to standard output,
with references to environment variables of the form $VARIABLE or ${VARIABLE}
being replaced with the corresponding values.  If a SHELL-FORMAT is given,
only those environment variables that are referenced in SHELL-FORMAT are
substituted.
`

func runEnvsubst(p *kernel.Proc) int {
	opts, args, ok := option.Parser{Options: []option.Option{{Short: 'v', Long: "variables"}}}.Parse(p)
	if !ok {
		return 1
	}
	if len(args) > 1 {
		p.Errorf("too many arguments")
		return 1
	}
	if len(opts) > 0 {
		if len(args) == 0 {
			p.Errorf("missing arguments")
			return 1
		}
		expandVars(bufio.NewWriter(io.Discard), []byte(args[0]), func(name string) (string, bool) {
			_, _ = p.Out().WriteString(name + "\n") // Flush reports the error
			return "", false
		})
		return 0
	}
	var only []string
	if len(args) == 1 {
		expandVars(bufio.NewWriter(io.Discard), []byte(args[0]), func(name string) (string, bool) {
			only = append(only, name)
			return "", false
		})
	}
	l := stream.NewLineReader(p, p.Stdin, '\n')
	defer l.Close()
	for line := l.Next(); line != nil; line = l.Next() {
		p.Tick(1 + len(line)/64)
		expandVars(p.Out(), line, func(name string) (string, bool) {
			if len(args) == 1 && !slices.Contains(only, name) {
				return "", false
			}
			return p.Getenv(name), true
		})
	}
	if err := l.Err(); err != nil {
		p.Errorf("error while reading \"standard input\": %s", program.Reason(err))
		return 1
	}
	return 0
}

// expandVars writes a text with the results of value in place of $NAME and ${NAME}; where value returns
// false, the reference stays. Flush of out reports errors.
func expandVars(out *bufio.Writer, s []byte, value func(name string) (string, bool)) {
	for i := 0; i < len(s); {
		if s[i] != '$' {
			_ = out.WriteByte(s[i])
			i++
			continue
		}
		j := i + 1
		braces := j < len(s) && s[j] == '{'
		if braces {
			j++
		}
		start := j
		for j < len(s) && (s[j] == '_' || character.IsLetter(s[j]) || j > start && s[j] >= '0' && s[j] <= '9') {
			j++
		}
		name, end := string(s[start:j]), j
		if braces {
			if j == len(s) || s[j] != '}' {
				name = ""
			}
			end++
		}
		if name == "" {
			_ = out.WriteByte(s[i])
			i++
			continue
		}
		if v, ok := value(name); ok {
			_, _ = out.WriteString(v)
		} else {
			_, _ = out.Write(s[i:end])
		}
		i = end
	}
}
