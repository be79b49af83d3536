package file

import "github.com/atoll-sandbox/atoll/internal/unix/kernel"

// askUser asks a question and reads the answer from standard input.
func askUser(p *kernel.Proc, question string) bool {
	_ = p.Out().Flush()                   // the next Flush reports the error
	_, _ = p.Stderr.WriteString(question) // best effort
	answer, first := byte(0), true
	var b [1]byte
	for {
		n, err := p.Stdin.Read(b[:])
		if n == 1 && b[0] == '\n' || err != nil {
			return answer == 'y' || answer == 'Y'
		}
		if n == 1 && first {
			answer, first = b[0], false
		}
	}
}
