package search

// Classes of lines before the search.
const (
	lineKept        byte = iota
	lineAlone            // the other side has no equal line
	lineProvisional      // the other side has many equal lines
)

// discardLines excludes lines that don't help the search: those without an equal line on the other
// side, and frequent ones among them.
func (d *diffSearch) discardLines(classes int) {
	d.chargeMemory(int64(classes) * 8)
	var counts [2][]int32
	for f, side := range []*diffSide{d.a, d.b} {
		counts[f] = make([]int32, classes)
		for _, c := range side.class {
			counts[f][c]++
		}
	}
	for f, side := range []*diffSide{d.a, d.b} {
		d.chargeMemory(9 * int64(len(side.class)))
		d.p.Tick(1 + len(side.class)/8)
		looks := side.classifyLines(counts[1-f])
		if !d.minimal {
			settleRuns(looks)
		}
		for i, look := range looks {
			if look == lineKept || d.minimal {
				side.keep = append(side.keep, side.class[i])
				side.place = append(side.place, int32(i))
			} else {
				side.changed[i+1] = true
			}
		}
	}
}

// classifyLines classifies lines by how many equal ones the other side has.
func (s *diffSide) classifyLines(partners []int32) []byte {
	many := int32(5)
	for n := len(s.class) / 64 >> 2; n > 0; n >>= 2 {
		many *= 2
	}
	looks := make([]byte, len(s.class))
	for i, c := range s.class {
		switch n := partners[c]; {
		case n == 0:
			looks[i] = lineAlone
		case n > many:
			looks[i] = lineProvisional
		}
	}
	return looks
}

// settleRuns keeps provisional lines unless they are within a run of discarded lines.
func settleRuns(looks []byte) {
	for i := 0; i < len(looks); i++ {
		switch looks[i] {
		case lineKept:
			continue
		case lineProvisional:
			looks[i] = lineKept
			continue
		}
		end, provisional := i, 0
		for end < len(looks) && looks[end] != lineKept {
			if looks[end] == lineProvisional {
				provisional++
			}
			end++
		}
		for end > i && looks[end-1] == lineProvisional {
			end--
			looks[end] = lineKept
			provisional--
		}
		run := looks[i:end]
		if provisional*4 > len(run) {
			keepProvisional(run)
			i = end - 1
			continue
		}
		keepLongRuns(run)
		keepNearEnd(run, func(k int) int { return k })
		keepNearEnd(run, func(k int) int { return len(run) - 1 - k })
		i = end - 1
	}
}

func keepProvisional(run []byte) {
	for k := range run {
		if run[k] == lineProvisional {
			run[k] = lineKept
		}
	}
}

// keepLongRuns keeps provisional lines that form long stretches: longer than about the square root
// of a quarter of the run.
func keepLongRuns(run []byte) {
	least := 1
	for n := len(run) >> 2 >> 2; n > 0; n >>= 2 {
		least <<= 1
	}
	least++
	for k := 0; k < len(run); {
		from := k
		for k < len(run) && run[k] == lineProvisional {
			k++
		}
		if k-from >= least {
			keepProvisional(run[from:k])
		}
		k++
	}
}

// keepNearEnd keeps the provisional lines near an end of a run, up to three consecutive lines
// without a partner, or up to a line eight lines from the end.
func keepNearEnd(run []byte, at func(k int) int) {
	row := 0
	for k := range run {
		look := &run[at(k)]
		if k >= 8 && *look == lineAlone {
			return
		}
		switch *look {
		case lineProvisional:
			*look = lineKept
			row = 0
		case lineKept:
			row = 0
		default:
			row++
		}
		if row == 3 {
			return
		}
	}
}
