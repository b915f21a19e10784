package dynamodb

import "time"

// Gather sets how long a scan waits for others that want one.
func Gather(d time.Duration) Option { return func(c *config) { c.gather = d } }
