package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/protokinesis/protokinesis/actors"
	"github.com/protokinesis/protokinesis/messages"
)

type publishCmd struct {
	Stream streamName `arg:"" help:"The stream's name or ARN."`

	PartitionKey *string  `placeholder:"KEY" help:"The partition key of all records. Default: a random one for each."`
	KeyField     *string  `placeholder:"FIELD" help:"The field of the lines, which are JSON objects, that is the partition key: a string or a number."`
	Header       []string `sep:"none" placeholder:"NAME=VALUE" help:"A header of all records; may be given several times."`

	publishFlags

	CreateIfMissing *int          `placeholder:"N" help:"Create the stream with N shards if it does not exist."`
	Output          string        `enum:"text,json" default:"text" placeholder:"FORM" help:"How the summary is printed: text or json (${default})."`
	ShutdownTimeout time.Duration `default:"30s" placeholder:"DURATION" help:"How long what was read may take at the end (${default})."`
}

// Help is shown below the flags.
func (publishCmd) Help() string {
	return `Each line of standard input is a record, without its line break. Lines of one partition key keep their order, unless --ordering is relaxed. Lines that can't be published are named on standard error, and the exit code is 1.`
}

// Validate is called by kong before anything is done.
func (p *publishCmd) Validate() error {
	if p.PartitionKey != nil && p.KeyField != nil {
		return errors.New("--partition-key and --key-field can't be used together")
	}
	if p.PartitionKey != nil && *p.PartitionKey == "" {
		return errors.New("--partition-key: it is empty; leave it out for random keys")
	}
	if p.KeyField != nil && *p.KeyField == "" {
		return errors.New("--key-field: it is empty")
	}
	_, err := headers(p.Header)
	return firstError(err, p.check(), atLeast("--create-if-missing", p.CreateIfMissing, 1), positive("--shutdown-timeout", &p.ShutdownTimeout))
}

// publishResult is what publish prints.
type publishResult struct {
	Published int     `json:"published"`
	Failed    int     `json:"failed"`
	Seconds   float64 `json:"seconds"`
}

// Run implements the command.
func (p *publishCmd) Run(a *app) error {
	cfg, closeIdle, err := a.awsConfig()
	if err != nil {
		return err
	}
	defer closeIdle()
	if p.CreateIfMissing != nil {
		if err := ensureStream(a.ctx, actors.NewClients(cfg).Control, p.Stream, *p.CreateIfMissing); err != nil {
			return err
		}
	}
	return p.publish(a, cfg)
}

func (p *publishCmd) publish(a *app, cfg aws.Config) error {
	n, err := a.connect(cfg, hostPort{}, roomForOutstanding()...)
	if err != nil {
		return err
	}
	begun := time.Now()
	failures := &failures{to: a.stderr}
	sent := newOutstanding(failures)
	sender := n.actors.Root.Spawn(actor.PropsFromFunc(sent.receive))
	stopProgress := p.progress(a, sent)
	readErr := p.read(a, n, sender, sent)
	sent.wait(a.ctx)
	closeErr := n.close(a.ctx, p.ShutdownTimeout) // by then everything is answered
	_ = n.actors.Root.PoisonFuture(sender).Wait() // it only fails to answer if it is gone
	stopProgress()
	result := sent.result()
	result.Seconds = seconds(time.Since(begun))
	failures.end()
	if err := p.print(a, result); err != nil {
		return err
	}
	if err := firstError(readErr, closeErr); err != nil {
		return err
	}
	if result.Failed > 0 {
		return fmt.Errorf("%d of %d lines were not published", result.Failed, result.Failed+result.Published)
	}
	return nil
}

func (p *publishCmd) print(a *app, r publishResult) error {
	if p.Output == formatJSON {
		return encodeJSON(a.stdout, r)
	}
	_, err := fmt.Fprintf(a.stdout, "%d records published, %d failed, in %.3f s\n", r.Published, r.Failed, r.Seconds)
	return err
}

// read sends the lines, until they end, ctx does, or it is of no use.
func (p *publishCmd) read(a *app, n *node, sender *actor.PID, sent *outstanding) error {
	common, err := headers(p.Header)
	if err != nil {
		return err
	}
	options := p.message()
	perLine := overhead(common)
	stop := make(chan struct{})
	defer close(stop)
	lines := readLines(a.stdin, stop)
	for {
		select {
		case <-a.ctx.Done():
			return nil
		case <-sent.hopeless:
			return nil
		case l, ok := <-lines:
			if !ok {
				return nil
			}
			if l.readErr != nil {
				return fmt.Errorf("standard input can't be read after line %d: %w", l.number-1, l.readErr)
			}
			key, err := p.key(l)
			if err != nil {
				sent.failed(l.number, oneLine(err))
				continue
			}
			if !sent.begin(a.ctx, l.number, len(l.data)+perLine+len(aws.ToString(key))) {
				continue
			}
			n.actors.Root.RequestWithCustomSender(n.PID(), &messages.Publish{
				Stream: string(p.Stream), Data: l.data, PartitionKey: key, Headers: common, Correlation: l.number, Options: options,
			}, sender)
		}
	}
}

// overhead is the most bytes that a line has when it is stored, but for its data and the key that it was given.
func overhead(headers map[string]string) int {
	const random, envelope, header = 16, 8, 3
	n := random + envelope
	for name, value := range headers {
		n += len(name) + len(value) + header
	}
	return n
}

// key is a line's partition key; nil for a random one.
func (p *publishCmd) key(l line) (*string, error) {
	switch {
	case l.tooLong > 0:
		return nil, fmt.Errorf("it has %d bytes: a record can have %d, with its partition key and headers", l.tooLong, maxLine)
	case p.KeyField == nil:
		return p.PartitionKey, nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(l.data, &object); err != nil || object == nil {
		return nil, errors.New("it is not a JSON object, so it has no field " + *p.KeyField)
	}
	value, ok := object[*p.KeyField]
	if !ok {
		return nil, fmt.Errorf("it has no field %s", *p.KeyField)
	}
	var key string
	switch {
	case value[0] == '"':
		if err := json.Unmarshal(value, &key); err != nil {
			return nil, fmt.Errorf("its field %s is not a string: %w", *p.KeyField, err)
		}
	case value[0] == '-' || value[0] >= '0' && value[0] <= '9':
		key = string(value)
	default:
		return nil, fmt.Errorf("its field %s is neither a string nor a number", *p.KeyField)
	}
	if key == "" {
		return nil, fmt.Errorf("its field %s is empty", *p.KeyField)
	}
	return &key, nil
}

// progress shows the numbers on a terminal until the function returned is called.
func (p *publishCmd) progress(a *app, sent *outstanding) (stop func()) {
	f := terminal(a.stderr)
	if f == nil || terminal(asWriter(a.stdin)) != nil { // who types the lines sees them
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(a.ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(redrawEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				r := sent.result()
				_, _ = fmt.Fprintf(a.stderr, "\r\x1b[K%d published, %d failed\r", r.Published, r.Failed)
			case <-ctx.Done():
				_, _ = io.WriteString(a.stderr, "\r\x1b[K")
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// asWriter is the file behind an input, for questions about its terminal.
func asWriter(r io.Reader) io.Writer {
	if f, ok := r.(*os.File); ok {
		return f
	}
	return &bytes.Buffer{}
}

// failures tells of lines that were not published. Neighbours with the same trouble are told of together.
type failures struct {
	to          io.Writer
	first, last uint64
	text        string
	// ending is the trouble that ends it all. The rest that has it, too, is told of at the end, in order: the requests under way fail in any.
	ending string
	rest   []uint64
}

func (f *failures) add(number uint64, text string) {
	if f.ending != "" && f.ending == text {
		f.rest = append(f.rest, number)
		return
	}
	if f.text == text && number == f.last+1 {
		f.last = number
		return
	}
	f.flush()
	f.text, f.first, f.last = text, number+1, number
	f.tell(number, number, text)
}

// flush tells of neighbours that add kept back.
func (f *failures) flush() {
	if f.last >= f.first && f.text != "" {
		f.tell(f.first, f.last, f.text)
		f.first = f.last + 1
	}
}

// end tells of all that add kept back.
func (f *failures) end() {
	text := f.ending
	f.ending = ""
	slices.Sort(f.rest)
	for _, number := range f.rest {
		f.add(number, text)
	}
	f.rest = nil
	f.flush()
}

func (f *failures) tell(first, last uint64, text string) {
	lines := fmt.Sprintf("line %d", first)
	if last > first {
		lines = fmt.Sprintf("lines %d to %d", first, last)
	}
	_, _ = fmt.Fprintf(f.to, "%s: %s\n", lines, text)
}
