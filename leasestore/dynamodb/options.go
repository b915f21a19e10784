package dynamodb

import (
	"fmt"
	"log/slog"
	"regexp"
	"time"
	"unicode/utf8"

	"github.com/protokinesis/protokinesis/leasestore"
)

// Option changes how a Store uses its table.
type Option func(*config)

type config struct {
	application string
	named       bool // Application was given
	never       bool
	single      bool
	eventual    bool
	log         *slog.Logger
	gather      time.Duration
	firstLook   time.Duration
}

// Application puts the name before all keys, so that several applications share a table and see nothing of each other. Without it the keys are
// KCL's. A table that KCL workers use must have no rows with an Application: they would take them for leases of theirs.
func Application(name string) Option {
	return func(c *config) { c.application, c.named = name, true }
}

// NeverCreate makes a missing table an error. By default it is created, with billing per request.
func NeverCreate() Option { return func(c *config) { c.never = true } }

// SingleStream makes bare shard ids the keys, as those of a KCL application that reads one stream are. The Store belongs to the first stream it is
// used for, and the table to the stream that its rows name; another one, or another life of the stream, is leasestore.ErrInvalid.
func SingleStream() Option { return func(c *config) { c.single = true } }

// EventualReads makes View, List, Streams and Dates read what may be some writes old, at half the cost. Writes stay safe, being conditional;
// what others did is seen a moment later.
func EventualReads() Option { return func(c *config) { c.eventual = true } }

// Logger is where damaged rows and the creation of the table are told of; slog.Default() if not given.
func Logger(log *slog.Logger) Option {
	return func(c *config) {
		if log != nil {
			c.log = log
		}
	}
}

const maxApplication = 255

var tableName = regexp.MustCompile(`^([a-zA-Z0-9_.-]{3,255}|arn:.+:dynamodb:.+:table/.+)$`)

func (c config) check(table string) error {
	switch {
	case !tableName.MatchString(table):
		return fmt.Errorf("%w: lease table %q: not a table's name (3 to 255 letters, digits, - _ .) or ARN", leasestore.ErrInvalid, table)
	case c.named && (c.application == "" || len(c.application) > maxApplication || !utf8.ValidString(c.application)):
		return fmt.Errorf("%w: lease table %s: the application %.60q is not 1 to %d bytes of UTF-8",
			leasestore.ErrInvalid, table, c.application, maxApplication)
	}
	return nil
}
