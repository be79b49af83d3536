package shell

func bLet(in *interp, args []string) int {
	if len(args) > 1 && args[1] == "--" {
		args = args[1:]
	}
	if len(args) == 1 {
		in.errorf("let: expression expected")
		return 1
	}
	var n int64
	for _, a := range args[1:] {
		var ok bool
		if n, ok = in.tryArith(func(in *interp) int64 { return in.evalText(a) }, "let"); !ok {
			return 1
		}
	}
	if n == 0 {
		return 1
	}
	return 0
}
