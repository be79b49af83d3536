package command

// How a line looks before the search.
const (
	lineKept        byte = iota
	lineAlone            // no line of the other side is like it
	lineProvisional      // so many are that it says little
)

// discard sets lines apart that can't help the search: those without a partner,
// and common ones that stand among them.
func (d *diffSearch) discard(classes int) {
	d.charge(int64(classes) * 8)
	var counts [2][]int32
	for f, side := range []*diffSide{d.a, d.b} {
		counts[f] = make([]int32, classes)
		for _, c := range side.class {
			counts[f][c]++
		}
	}
	for f, side := range []*diffSide{d.a, d.b} {
		d.charge(9 * int64(len(side.class)))
		d.p.Tick(1 + len(side.class)/8)
		looks := side.looks(counts[1-f])
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

// looks tells lines by how many partners they have.
func (s *diffSide) looks(partners []int32) []byte {
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

// settleRuns keeps provisional lines unless they stand within a run of lines
// that are set apart.
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

// keepLongRuns keeps provisional lines of which many stand together: more than
// about the square root of a quarter of the run.
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

// keepNearEnd keeps the provisional lines near an end of a run, up to three
// lines in a row without a partner, or one that is eight lines in.
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
