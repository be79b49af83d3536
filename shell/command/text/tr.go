package text

import (
	"errors"
	"io"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const trUsage = `Usage: tr [OPTION]... STRING1 [STRING2]
Translate, squeeze, and/or delete characters from standard input,
writing to standard output.  STRING1 and STRING2 specify arrays of
characters ARRAY1 and ARRAY2 that control the action.

  -c, -C, --complement    use the complement of ARRAY1
  -d, --delete            delete characters in ARRAY1, do not translate
  -s, --squeeze-repeats   replace each sequence of a repeated character
                            that is listed in the last specified ARRAY,
                            with a single occurrence of that character
  -t, --truncate-set1     first truncate ARRAY1 to length of ARRAY2
      --help              display this help and exit

ARRAYs are specified as strings of characters.  Most represent themselves.
Interpreted sequences are:

  \NNN            character with octal value NNN (1 to 3 octal digits)
  \\ \a \b \f \n \r \t \v    as in C
  CHAR1-CHAR2     all characters from CHAR1 to CHAR2 in ascending order
  [CHAR*]         in ARRAY2, copies of CHAR until length of ARRAY1
  [CHAR*REPEAT]   REPEAT copies of CHAR, REPEAT octal if starting with 0
  [:alnum:] [:alpha:] [:blank:] [:cntrl:] [:digit:] [:graph:] [:lower:]
  [:print:] [:punct:] [:space:] [:upper:] [:xdigit:]
  [=CHAR=]        all characters which are equivalent to CHAR

Characters are bytes.
`

// trJob is the state of one run of tr.
type trJob struct {
	complement, del, squeeze, truncate bool

	table   [256]byte
	drop    [256]bool
	single  [256]bool // squeezed
	last    int       // the byte written last, -1 at the start
	changes bool      // table is not the identity
}

var trOptions = option.Parser{StopAtOperand: true, Options: []option.Option{
	{Short: 'c', Long: "complement"},
	{Short: 'C', ID: 'c'},
	{Short: 'd', Long: "delete"},
	{Short: 's', Long: "squeeze-repeats"},
	{Short: 't', Long: "truncate-set1"},
}}

func runTr(p *kernel.Proc) int {
	opts, sets, ok := trOptions.Parse(p)
	if !ok {
		return 1
	}
	j := trJob{last: -1}
	for _, o := range opts {
		switch o.Key {
		case 'c':
			j.complement = true
		case 'd':
			j.del = true
		case 's':
			j.squeeze = true
		case 't':
			j.truncate = true
		}
	}
	if !j.checkOperandCount(p, sets) {
		return 1
	}
	warn := func(msg string) { p.Errorf("%s", msg) }
	alloc := func(n int) {
		p.Tick(1)
		p.Alloc(int64(n))
	}
	set1, msg := parseTrSet(sets[0], alloc, warn)
	var set2 *trSet
	if msg == "" && len(sets) == 2 {
		set2, msg = parseTrSet(sets[1], alloc, warn)
	}
	if msg == "" {
		msg = j.buildTables(set1, set2)
	}
	if msg != "" {
		p.Errorf("%s", msg)
		return 1
	}
	return j.run(p)
}

// checkOperandCount checks the number of sets and reports an error.
func (j *trJob) checkOperandCount(p *kernel.Proc, sets []string) bool {
	least := 2
	if j.del != j.squeeze {
		least = 1
	}
	most := 2
	if j.del && !j.squeeze {
		most = 1
	}
	switch {
	case len(sets) == 0:
		p.Errorf("missing operand")
	case len(sets) < least:
		hint := "Two strings must be given when translating."
		if j.squeeze {
			hint = "Two strings must be given when both deleting and squeezing repeats."
		}
		p.Errorf("missing operand after %s\n%s", quoting.QuoteName(sets[len(sets)-1]), hint)
	case len(sets) > most:
		hint := ""
		if len(sets) == 2 {
			hint = "\nOnly one string may be given when deleting without squeezing repeats."
		}
		p.Errorf("extra operand %s%s", quoting.QuoteName(sets[most]), hint)
	default:
		return true
	}
	option.SuggestHelp(p)
	return false
}

// buildTables builds the tables of bytes to delete, squeeze and translate. It returns the message of
// an error, or "".
func (j *trJob) buildTables(set1, set2 *trSet) string {
	translate := set2 != nil && !j.del
	if set1.fill >= 0 {
		return "the [c*] repeat construct may not appear in string1"
	}
	if set2 != nil && set2.fill >= 0 && !translate {
		return "the [c*] construct may appear in string2 only when translating"
	}
	for c := range 256 {
		j.table[c] = byte(c)
	}
	var in1 [256]bool
	for _, c := range set1.list(1 << 16) {
		in1[c] = true
	}
	list1 := set1.list(1 << 16)
	if j.complement {
		list1 = nil
		for c := range 256 {
			if in1[c] = !in1[c]; in1[c] {
				list1 = append(list1, byte(c))
			}
		}
	}
	switch {
	case j.del:
		j.drop = in1
	case !translate:
		j.single = in1
	default:
		if msg := j.buildTranslation(set1, set2, list1); msg != "" {
			return msg
		}
	}
	if j.squeeze && set2 != nil {
		for _, c := range set2.list(len(list1)) {
			j.single[c] = true
		}
	}
	return ""
}

// buildTranslation sets the table for translating list1 to set2. It returns the message of an
// error, or "".
func (j *trJob) buildTranslation(set1, set2 *trSet, list1 []byte) string {
	if msg := checkClasses(set1, set2, j.complement); msg != "" {
		return msg
	}
	list2 := set2.list(len(list1))
	if len(list2) == 0 && !j.truncate && len(list1) > 0 {
		return "when not truncating set1, string2 must be non-empty"
	}
	if j.complement && hasClass(set1) && !allSame(list2, len(list1)) {
		return "when translating with complemented character classes,\nstring2 must map all characters in the domain to one"
	}
	if len(list2) < len(list1) {
		if j.truncate {
			list1 = list1[:len(list2)]
		} else if last := set2.items[len(set2.items)-1]; last.class != "" {
			return "when translating with string1 longer than string2,\nthe latter string must not end with a character class"
		}
	}
	for i, c := range list1 {
		to := list2[min(i, len(list2)-1)]
		j.table[c] = to
	}
	for c, to := range j.table {
		j.changes = j.changes || byte(c) != to
	}
	return ""
}

func hasClass(s *trSet) bool {
	for _, it := range s.items {
		if it.class != "" {
			return true
		}
	}
	return false
}

// allSame reports whether n bytes are translated to the same byte.
func allSame(list []byte, n int) bool {
	for _, c := range list[:min(n, len(list))] {
		if c != list[0] {
			return false
		}
	}
	return true
}

// checkClasses returns an error message if classes in set2 don't change the case of those in set1.
func checkClasses(set1, set2 *trSet, complement bool) string {
	at1 := map[int]string{}
	pos := 0
	for _, it := range set1.items {
		at1[pos] = it.class
		pos += it.size()
	}
	pos = 0
	for _, it := range set2.items {
		if it.equiv {
			return "[=c=] expressions may not appear in string2 when translating"
		}
		if it.class != "" {
			if it.class != "upper" && it.class != "lower" {
				return "when translating, the only character classes that may appear in\nstring2 are 'upper' and 'lower'"
			}
			if c := at1[pos]; c != "upper" && c != "lower" || complement {
				return "misaligned [:upper:] and/or [:lower:] construct"
			}
		}
		pos += it.size()
	}
	return ""
}

// run copies standard input to standard output with the tables applied.
func (j *trJob) run(p *kernel.Proc) int {
	b := stream.ChunkPool.Get().(*[stream.ChunkSize]byte)
	defer stream.ChunkPool.Put(b)
	for {
		n, err := p.Stdin.Read(b[:])
		data := b[:n]
		if j.changes {
			for i, c := range data {
				data[i] = j.table[c]
			}
		}
		if j.del {
			data = j.deleteBytes(data)
		}
		if j.squeeze {
			data = j.squeezeRepeats(data)
		}
		p.Tick(1 + n>>6)
		if len(data) > 0 {
			if _, err := p.Stdout.Write(data); err != nil {
				p.Errorf("write error: %s", program.Reason(err))
				return 1
			}
		}
		if errors.Is(err, io.EOF) {
			return 0
		}
		if err != nil {
			p.Errorf("read error: %s", program.Reason(err))
			return 1
		}
	}
}

// deleteBytes removes bytes in place and returns the rest.
func (j *trJob) deleteBytes(b []byte) []byte {
	n := 0
	for _, c := range b {
		b[n] = c
		if !j.drop[c] {
			n++
		}
	}
	return b[:n]
}

// squeezeRepeats removes repeats in place and returns the rest.
func (j *trJob) squeezeRepeats(b []byte) []byte {
	n, last := 0, j.last
	for _, c := range b {
		b[n] = c
		if int(c) != last || !j.single[c] {
			n++
		}
		last = int(c)
	}
	j.last = last
	return b[:n]
}
