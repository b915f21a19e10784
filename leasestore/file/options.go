package file

import "time"

// Option changes how Open opens a file.
type Option func(*config)

type config struct {
	lockTimeout time.Duration
}

// defaultLockTimeout is long enough for a predecessor that is just closing the file, and short enough that a second
// instance started by mistake is told so.
const defaultLockTimeout = time.Second

// WithLockTimeout sets how long Open waits for another process to close the file before it gives up with
// ErrLocked. The default is one second; 0 or less does not wait.
func WithLockTimeout(d time.Duration) Option {
	return func(c *config) { c.lockTimeout = d }
}
