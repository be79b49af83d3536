package archive

import (
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const zgrepUsage = `Usage: zgrep [OPTION]... [-e] PATTERN [FILE]...
Look for PATTERN in files, compressed by gzip, bzip2, xz or zstd or not. Options are those of grep, but for -r, -L and
--exclude.
`

const zlessUsage = `Usage: zless [OPTION]... [FILE]...
Print files decompressed.
`

const zdiffUsage = `Usage: zdiff [OPTION]... FILE1 FILE2
Compare files, compressed or not, by diff or cmp.
`

// zgrepArguments are the options of grep that take an argument.
const zgrepArguments = "ABCDdefm"

// splitGrep sorts the arguments of zgrep into the options with the pattern, and the files. shown has "h" or "H" if such
// an option is given.
func splitGrep(args []string) (options, files []string, shown string, ok bool) {
	hasPattern, ended := false, false
	for n := 0; n < len(args); n++ {
		a := args[n]
		switch {
		case ended || a == "-" || !strings.HasPrefix(a, "-"):
			if !hasPattern {
				options, hasPattern = append(options, "-e", a), true
				continue
			}
			files = append(files, a)
		case a == "--":
			ended = true
		case strings.HasPrefix(a, "--"):
			options = append(options, a)
			name, _, joined := strings.Cut(a, "=")
			hasPattern = hasPattern || name == "--regexp" || name == "--file"
			if (name == "--regexp" || name == "--file") && !joined && n+1 < len(args) {
				n++
				options = append(options, args[n])
			}
		default:
			options = append(options, a)
			for k, c := range a[1:] {
				if c == 'h' || c == 'H' {
					shown = string(c)
				}
				if strings.ContainsRune(zgrepArguments, c) {
					hasPattern = hasPattern || c == 'e' || c == 'f'
					if k+2 == len(a) && n+1 < len(args) {
						n++
						options = append(options, args[n])
					}
					break
				}
			}
		}
	}
	return options, files, shown, hasPattern
}

// expander returns the program that decompresses a file, by the bytes at its beginning; "cat" for others.
func expander(p *kernel.Proc, name string) (string, error) {
	h, err := p.Open(name)
	if err != nil {
		return "", err
	}
	var head [6]byte
	n, _ := h.Read(head[:]) // a file that can't be read is reported by the program
	if err := h.Close(); err != nil {
		return "", err
	}
	for magic, name := range map[string]string{"\x1f\x8b": "zcat", "BZh": "bzcat", xzCodec.magic: "xzcat", zstdCodec.magic: "zstdcat"} {
		if strings.HasPrefix(string(head[:n]), magic) {
			return name, nil
		}
	}
	return "cat", nil
}

// pipeFile runs a command whose standard input is a file, decompressed. It returns the command's exit status.
func pipeFile(p *kernel.Proc, file string, args []string) int {
	expand, err := expander(p, file)
	if err != nil {
		p.Errorf("%s: %s", file, program.Reason(err))
		return 2
	}
	s, err := p.Command(args)
	if err != nil {
		p.Errorf("%s: %s", args[0], program.Reason(err))
		return 2
	}
	source, err := p.Command([]string{expand, "--", file})
	if err != nil {
		p.Errorf("%s: %s", expand, program.Reason(err))
		return 2
	}
	r, w := p.Pipe()
	source.Stdout, s.Stdin = w, r
	c, err := p.Spawn(source)
	w.Release()
	if err != nil {
		r.Release()
		p.Errorf("fork: %s", program.Reason(err))
		return 2
	}
	st, err := p.Call(s)
	r.Release()
	if err != nil {
		p.Errorf("fork: %s", program.Reason(err))
		return 2
	}
	if _, err := p.Wait(c, false); err != nil {
		p.Errorf("wait: %s", program.Reason(err))
		return 2
	}
	return st.Code
}

// runZgrep runs grep on each file, decompressed.
func runZgrep(p *kernel.Proc) int {
	options, files, shown, ok := splitGrep(p.Args[1:])
	if !ok {
		_, _ = p.Stderr.WriteString(zgrepUsage) // best effort
		return 2
	}
	name := "grep"
	for _, kind := range []string{"egrep", "fgrep"} {
		if strings.HasSuffix(p.Name(), kind) {
			name = kind
		}
	}
	if len(files) == 0 {
		return p.Run(append([]string{name}, options...)...)
	}
	code := 1
	for _, file := range files {
		p.Tick(1)
		args := append([]string{name}, options...)
		if len(files) > 1 && shown == "" || shown == "H" {
			args = append(args, "-H", "--label="+file)
		} else {
			args = append(args, "--label="+file)
		}
		switch status := pipeFile(p, file, args); {
		case status > 1:
			code = 2
		case status == 0 && code == 1:
			code = 0
		}
	}
	return code
}

// runZless prints files decompressed.
func runZless(p *kernel.Proc) int {
	code := 0
	for _, file := range p.Args[1:] {
		if strings.HasPrefix(file, "-") && file != "-" || strings.HasPrefix(file, "+") {
			continue
		}
		p.Tick(1)
		if status := pipeFile(p, file, []string{"cat"}); status != 0 {
			code = status
		}
	}
	if len(p.Args) == 1 {
		return p.Run("zcat")
	}
	return code
}

// runZdiff compares two files, decompressed into temporary ones.
func runZdiff(p *kernel.Proc) int {
	name := "diff"
	if strings.HasSuffix(p.Name(), "cmp") {
		name = "cmp"
	}
	args, files := []string{name}, []string{}
	for _, a := range p.Args[1:] {
		if strings.HasPrefix(a, "-") && a != "-" {
			args = append(args, a)
			continue
		}
		files = append(files, a)
	}
	if len(files) != 2 {
		_, _ = p.Stderr.WriteString(zdiffUsage) // best effort
		return 2
	}
	expand, err := expander(p, files[1])
	if err != nil {
		p.Errorf("%s: %s", files[1], program.Reason(err))
		return 2
	}
	if expand == "cat" {
		return pipeFile(p, files[0], append(args, "-", files[1]))
	}
	if plain, err := expander(p, files[0]); err == nil && plain == "cat" {
		return pipeFile(p, files[1], append(args, files[0], "-"))
	}
	buffer, w := p.Buffer()
	source, err := p.Command([]string{expand, "--", files[1]})
	if err != nil {
		w.Release()
		p.Errorf("%s: %s", expand, program.Reason(err))
		return 2
	}
	source.Stdout = w
	st, err := p.Call(source)
	w.Release()
	text := buffer.Wait()
	defer buffer.Close()
	if err != nil || st.Code != 0 {
		return 2
	}
	fd, err := p.FreeFD(10)
	if err != nil {
		return 2
	}
	o := p.OpenMemory(text)
	if err := p.SetFD(fd, o); err != nil {
		return 2
	}
	return pipeFile(p, files[0], append(args, "-", "/dev/fd/"+strconv.Itoa(fd)))
}
