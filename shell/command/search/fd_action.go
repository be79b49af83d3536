package search

import (
	"io/fs"
	"path"
	"strings"
)

// report prints a result, or runs the command for it.
func (r *fdRun) report(name string, mode fs.FileMode) {
	r.found++
	if r.quiet {
		return
	}
	if r.absolute {
		name = r.p.Path(name)
	}
	switch {
	case r.command != nil && !r.batch:
		if len(r.paths) == 0 && !r.absolute {
			name = "./" + name
		}
		args := make([]string, len(r.command))
		for i, a := range r.command {
			args[i] = expandPlaceholders(a, name)
		}
		if code := r.p.Run(args...); code != 0 {
			r.status = 1
		}
		return
	case r.command != nil || r.details:
		if len(r.paths) == 0 && !r.absolute {
			name = "./" + name
		}
		r.p.Alloc(int64(len(name)) + 16)
		r.results = append(r.results, name)
		return
	case r.print0 && len(r.paths) == 0 && !r.absolute:
		name = "./" + name
	}
	switch {
	case r.format != nil:
		name = expandPlaceholders(*r.format, name)
	case mode.IsDir():
		name += "/"
	}
	end := "\n"
	if r.print0 {
		end = "\x00"
	}
	_, _ = r.p.Out().WriteString(name + end) // Flush reports the error
}

// runBatch runs the command of -X, or ls for -l, with all results.
func (r *fdRun) runBatch() {
	if len(r.results) == 0 {
		return
	}
	if r.details {
		r.command = []string{"ls", "-lhd", "--", "{}"}
	}
	var args []string
	for _, a := range r.command {
		if !hasPlaceholder(a) {
			args = append(args, a)
			continue
		}
		for _, name := range r.results {
			text := expandPlaceholders(a, name)
			r.p.Alloc(int64(len(text)) + 16)
			args = append(args, text)
		}
	}
	if code := r.p.Run(args...); code != 0 {
		r.status = 1
	}
}

func hasPlaceholder(a string) bool {
	return strings.Contains(a, "{}") || strings.Contains(a, "{/}") || strings.Contains(a, "{//}") || strings.Contains(a, "{.}") || strings.Contains(a, "{/.}")
}

// expandPlaceholders replaces the placeholders of -x by parts of a path.
func expandPlaceholders(text, name string) string {
	if !strings.Contains(text, "{") {
		return text
	}
	return strings.NewReplacer("{}", name, "{/}", path.Base(name), "{//}", directoryOf(name), "{.}", strings.TrimPrefix(withoutExtension(name), "./"), "{/.}", path.Base(withoutExtension(name))).Replace(text)
}

func directoryOf(name string) string {
	switch i := strings.LastIndexByte(name, '/'); i {
	case -1:
		return "."
	case 0:
		return "/"
	default:
		return name[:i]
	}
}

func withoutExtension(name string) string {
	base := path.Base(name)
	if i := strings.LastIndexByte(base, '.'); i > 0 {
		return name[:len(name)-len(base)+i]
	}
	return name
}
