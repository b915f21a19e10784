//go:build !unix

package tally

import "time"

// cpuTime is not known here.
func cpuTime() time.Duration { return 0 }
