package dynamodb

import "time"

// Hasty makes the store look often whether its table is there.
func Hasty() Option { return func(c *config) { c.firstLook = 20 * time.Millisecond } }

// Gather sets how long a scan waits for others that want one.
func Gather(d time.Duration) Option { return func(c *config) { c.gather = d } }
