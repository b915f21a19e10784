package tally

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"
)

// Flags are the flags of all programs.
type Flags struct {
	Endpoint, Region, Stream string
	// Records is how many there are, and Size the bytes of data in each.
	Records, Size int
	// Defaults leaves the consumer's settings as they come. Otherwise it gets the fastest that its API allows.
	Defaults bool
	// Patience is how long the run may take.
	Patience time.Duration
}

// Parse reads the flags. A program may have defined more.
func Parse() Flags {
	var f Flags
	flag.StringVar(&f.Endpoint, "endpoint", "", "URL of the service")
	flag.StringVar(&f.Region, "region", "us-east-1", "region")
	flag.StringVar(&f.Stream, "stream", "", "the stream, which is read from its oldest record")
	flag.IntVar(&f.Records, "records", 0, "how many records the stream has")
	flag.IntVar(&f.Size, "size", 512, "bytes of data in each")
	flag.BoolVar(&f.Defaults, "defaults", false, "leave the settings as they come")
	flag.DurationVar(&f.Patience, "patience", time.Minute, "how long it may take")
	flag.Parse()
	return f
}

// Result is what a program prints.
type Result struct {
	// Records are those that were delivered, Distinct of them different ones; Damaged had another size than they should.
	Records          int64   `json:"records"`
	Distinct         int64   `json:"distinct"`
	Damaged          int64   `json:"damaged"`
	Seconds          float64 `json:"seconds"`
	CPUSeconds       float64 `json:"cpu_seconds"`
	RecordsPerSecond float64 `json:"records_per_second"`
}

// Finish waits until all records have come or the consumer failed, prints the result and ends the process: stopping is not measured.
func (t *Tally) Finish(failed <-chan error) {
	err := t.await(failed)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%d of %d records came, %d were repeated: %v\n", t.distinct.Load(), t.flags.Records, t.repeated.Load(), err)
		os.Exit(1)
	}
	distinct, seconds := t.distinct.Load(), t.ended.Sub(t.begun).Seconds()
	if err := json.NewEncoder(os.Stdout).Encode(Result{
		Records: distinct + t.repeated.Load(), Distinct: distinct, Damaged: t.damaged.Load(),
		Seconds: seconds, CPUSeconds: (t.cpuEnded - t.cpuBegun).Seconds(), RecordsPerSecond: float64(distinct) / seconds,
	}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (t *Tally) await(failed <-chan error) error {
	select {
	case <-t.all:
		return nil
	case err := <-failed:
		select {
		case <-t.all:
			return nil
		default:
		}
		if err == nil {
			err = errors.New("the consumer ended")
		}
		return err
	case <-time.After(t.flags.Patience):
		return fmt.Errorf("not done after %v", t.flags.Patience)
	}
}
