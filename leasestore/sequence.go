package leasestore

import "strings"

// maxSequenceDigits is the longest sequence number the Kinesis API allows (pattern 0|[1-9]\d{0,128}).
const maxSequenceDigits = 129

// CompareSequence orders two sequence numbers as the numbers they are: -1, 0 or +1. Sequence numbers
// grow within a shard but are not all equally long, so comparing them as strings would be wrong;
// leading zeros, which some emulators write, do not count.
func CompareSequence(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		if len(a) < len(b) {
			return -1
		}
		return 1
	}
	return strings.Compare(a, b)
}

// ValidSequence reports whether s can be a sequence number: 1 to 129 decimal digits.
func ValidSequence(s string) bool {
	if s == "" || len(s) > maxSequenceDigits {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
