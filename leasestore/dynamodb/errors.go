package dynamodb

import (
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/protokinesis/protokinesis/leasestore"
)

// ErrCorrupt says that a row is not as KCL and this package write it. It is left alone: scans leave it out and log it, and whoever asks for
// it gets this error.
var ErrCorrupt = errors.New("lease table: damaged row")

func corrupt(key string, err error) error {
	return fmt.Errorf("%w %q: %w; mend or delete it", ErrCorrupt, key, err)
}

// elsewhere is the error of a key that another stream's row has.
func elsewhere(key, recorded string, stream leasestore.StreamID) error {
	return fmt.Errorf("%w: the row %q is of the stream %s, not of %s, and has the only key that both could have; "+
		"use another table, another Application, or, if the former stream is gone, delete its rows",
		leasestore.ErrInvalid, key, recorded, stream)
}

// conditionFailed reports whether the service refused a write for its condition, and returns the row as it was then if the service says so.
func conditionFailed(err error) (old item, failed bool) {
	var refused *types.ConditionalCheckFailedException
	if !errors.As(err, &refused) {
		return nil, false
	}
	return refused.Item, true
}

func noSuchTable(err error) bool {
	var missing *types.ResourceNotFoundException
	return errors.As(err, &missing)
}
