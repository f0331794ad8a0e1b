package grid

import "strings"

// Wrap breaks text at blanks so that no line is longer than width bytes, unless
// a single word is. The first line begins with first, the others with rest.
func Wrap(text string, width int, first, rest string) string {
	var b strings.Builder
	line, prefix, empty := first, rest, true
	for word := range strings.FieldsSeq(text) {
		if !empty && len(line)+1+len(word) > width {
			b.WriteString(line + "\n")
			line, empty = prefix, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	return b.String() + line + "\n"
}
