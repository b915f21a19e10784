package main

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/arn"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// Flags and arguments that are more than a word or a number. Kong calls UnmarshalText and puts the flag's name before its errors.

// endpointURL is the URL of a service.
type endpointURL string

// UnmarshalText implements encoding.TextUnmarshaler.
func (e *endpointURL) UnmarshalText(text []byte) error {
	u, err := url.Parse(string(text))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%q is not a URL, such as http://127.0.0.1:4567", text)
	}
	*e = endpointURL(text)
	return nil
}

// streamName is a stream's name or ARN.
type streamName string

var streamNamePattern = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *streamName) UnmarshalText(text []byte) error {
	name := string(text)
	if strings.HasPrefix(name, "arn:") {
		a, err := arn.Parse(name)
		kind, resource, _ := strings.Cut(a.Resource, "/")
		if err != nil || a.Service != "kinesis" || kind != "stream" || !streamNamePattern.MatchString(resource) {
			return fmt.Errorf("%q is not the ARN of a stream: arn:aws:kinesis:REGION:ACCOUNT:stream/NAME", name)
		}
	} else if !streamNamePattern.MatchString(name) {
		return fmt.Errorf("%q is not a stream's name: 1 to 128 letters, digits, '_', '.' and '-'", name)
	}
	*s = streamName(name)
	return nil
}

// bare is the name without the ARN around it.
func (s streamName) bare() string {
	if a, err := arn.Parse(string(s)); err == nil {
		_, name, _ := strings.Cut(a.Resource, "/")
		return name
	}
	return string(s)
}

// position is the place in a stream that --from names.
type position struct {
	at *messages.Position
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *position) UnmarshalText(text []byte) error {
	s := string(text)
	switch s {
	case "tip":
		p.at = protokinesis.Latest()
		return nil
	case "horizon":
		p.at = protokinesis.TrimHorizon()
		return nil
	}
	if shard, record, ok := strings.Cut(s, "@"); ok {
		sequence, subText, hasSub := strings.Cut(record, ":")
		sub, err := strconv.ParseUint(subText, 10, 64)
		if shard == "" || !leasestore.ValidSequence(sequence) || hasSub && err != nil {
			return fmt.Errorf("%q is not SHARD@SEQUENCE, such as shardId-000000000000@4955, or SHARD@SEQUENCE:SUB", s)
		}
		p.at = protokinesis.AtSubSequence(shard, sequence, sub)
		return nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return fmt.Errorf("%q is none of tip, horizon, an RFC 3339 time such as 2026-01-31T12:00:00Z, SHARD@SEQUENCE", s)
	}
	if t.UnixMilli() < 0 {
		return fmt.Errorf("%q is before 1970", s)
	}
	p.at = protokinesis.AtTimestamp(t)
	return nil
}

// recreated is what --on-recreated names.
type recreated struct{ policy messages.OnRecreated }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *recreated) UnmarshalText(text []byte) (err error) {
	r.policy, err = oneOf(string(text), map[string]messages.OnRecreated{
		"fail": protokinesis.FailOnRecreated, "reset": protokinesis.ResetOnRecreated,
	})
	return err
}

// strays is what --strays names.
type strays struct{ policy messages.StrayRecords }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *strays) UnmarshalText(text []byte) (err error) {
	p.policy, err = oneOf(string(text), map[string]messages.StrayRecords{
		"deliver": protokinesis.DeliverStrays, "drop": protokinesis.DropStrays, "error": protokinesis.StopAtStrays,
	})
	return err
}

// oneOf is the value that a word stands for.
func oneOf[T any](word string, values map[string]T) (T, error) {
	value, ok := values[word]
	if !ok {
		return value, fmt.Errorf("%q is none of %s", word, strings.Join(slices.Sorted(maps.Keys(values)), ", "))
	}
	return value, nil
}

// readRate is the most reads per second of a shard, or off.
type readRate int

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *readRate) UnmarshalText(text []byte) error {
	if string(text) == "off" {
		*r = -1
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 {
		return fmt.Errorf("%q is neither a number of reads per second, at least 1, nor off", text)
	}
	*r = readRate(n)
	return nil
}

// atLeast checks a number that was given.
func atLeast[T int | float64](flag string, value *T, least T) error {
	if value != nil && *value < least {
		return fmt.Errorf("%s: %v is too small: at least %v", flag, *value, least)
	}
	return nil
}

// positive checks a duration that was given.
func positive(flag string, value *time.Duration) error {
	if value != nil && *value <= 0 {
		return fmt.Errorf("%s: %v is no time: it must be more than 0", flag, *value)
	}
	return nil
}

// notNegative checks a duration that may be none.
func notNegative(flag string, value time.Duration) error {
	if value < 0 {
		return fmt.Errorf("%s: %v is less than no time", flag, value)
	}
	return nil
}

// orZero is what value points to, or zero.
func orZero[T any](value *T) T {
	if value == nil {
		var zero T
		return zero
	}
	return *value
}

// firstError is the first of them that is one.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// headers reads --header k=v.
func headers(flags []string) (map[string]string, error) {
	if len(flags) == 0 {
		return nil, nil //nolint:nilnil // no headers
	}
	out := make(map[string]string, len(flags))
	for _, f := range flags {
		k, v, ok := strings.Cut(f, "=")
		if !ok || k == "" {
			return nil, fmt.Errorf("--header: %q is not NAME=VALUE", f)
		}
		if _, twice := out[k]; twice {
			return nil, errors.New("--header: " + k + " is given twice")
		}
		out[k] = v
	}
	return out, nil
}
