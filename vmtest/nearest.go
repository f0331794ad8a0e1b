package vmtest

// Nearest returns the one of valid with the smallest edit distance to name, the
// first of equals; "" if there is none. It is what error texts offer.
func Nearest(name string, valid []string) string {
	best, bestDist := "", int(^uint(0)>>1)
	for _, v := range valid {
		if d := editDistance(name, v); d < bestDist {
			best, bestDist = v, d
		}
	}
	return best
}

// editDistance counts the single-byte insertions, deletions and substitutions
// that turn a into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
