package test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Many shards, with service, library and bare client in processes of their own. Run them on a machine that does nothing else, with
//
//	go test ./test -run '^$' -bench Scale -benchtime 1x -count 5
//
// and PROTOKINESIS_TEST_PROFILES=DIR for profiles. Two cores can't poll 10,000 shards a second: those are polled every 5 s. A line with an error of the
// library says that even that was too much for the machine. Medians of 5 (Busy1000: 3) on two cores, November 2026, go 1.26.8; memory and goroutines
// are of a shard, the ratios to the bare client making the same polls:
//
//	               heap and stacks   resident   goroutines   x-bare-cpu   µs of CPU per poll   until ready
//	Idle2000       26 KB             59 KB      0.69         1.15         459                  1.3 s
//	Idle10000      13 KB             28 KB      0.15         1.41         575                  4.8 s
//	Busy1000       (heap) 23 KB      101 KB     1.4          1.31         630                  heap 0.96 of that 20 s before
//	Start1000                                                                                  0.8 s, leases in a file 1.1 s
//	Quiet1000      0.22 of the CPU and 0.20 of the polls that a fixed second takes
//
// Beside each poll of Idle10000 there are 1.7 renewals of leases, every 3 s, which the bare client does not make: of the CPU's time 24 % is in GetRecords up to
// the connection, 17 % in net/http's loops, 10 % in renewals, 7 % in the coordinator's looks at the leases, 10 % in collecting garbage. With a poll a second, as
// by default, there is a third of a renewal to a poll: Idle2000.

// scaleProcess is one that plays a part, seen from here.
type scaleProcess struct {
	b    *testing.B
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	took time.Duration // until it was ready
	at   scaleSample   // when it was
}

// startScale starts a process and waits until it is ready.
func startScale(b *testing.B, job scaleJob) *scaleProcess {
	b.Helper()
	text, err := json.Marshal(job)
	if err != nil {
		b.Fatal(err)
	}
	p := &scaleProcess{b: b, cmd: exec.CommandContext(b.Context(), os.Args[0])} //nolint:gosec // this very program
	p.cmd.Env = append(os.Environ(), scaleVariable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	begun := time.Now()
	if err := p.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	p.at = p.answer()
	p.took = p.at.At.Sub(begun)
	return p
}

func (p *scaleProcess) answer() scaleSample {
	p.b.Helper()
	var s scaleSample
	line, err := p.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &s)
	}
	if err != nil || s.Text != "" {
		p.b.Fatal("a process of the measurement: ", err, s.Text)
	}
	return s
}

// do gives a command and waits until it is done.
func (p *scaleProcess) do(words ...any) scaleSample {
	p.b.Helper()
	if _, err := fmt.Fprintln(p.in, words...); err != nil {
		p.b.Fatal(err)
	}
	return p.answer()
}

func (p *scaleProcess) end() {
	_ = p.in.Close()
	_ = p.cmd.Wait()
}

// profile writes profiles, if they are wanted.
func (p *scaleProcess) profile(name string) {
	dir := os.Getenv("PROTOKINESIS_TEST_PROFILES")
	if dir == "" {
		return
	}
	for _, kind := range []string{"heap", "goroutine", "cpu"} {
		p.do(doProfile, kind, filepath.Join(dir, name+"."+kind))
	}
}

// idleScale is how many idle shards are polled how often.
type idleScale struct {
	shards  int
	poll    time.Duration
	longest time.Duration // the pause of a quiet shard grows to this; 0: it does not
}

const scaleFor = 10 * time.Second

func BenchmarkScaleIdle2000(b *testing.B)  { idleScale{shards: 2000, poll: time.Second}.run(b) }
func BenchmarkScaleIdle10000(b *testing.B) { idleScale{shards: 10_000, poll: 5 * time.Second}.run(b) }

func (s idleScale) run(b *testing.B) {
	b.Helper()
	for range b.N {
		service := startScale(b, scaleJob{Part: scaleService, Shards: s.shards})
		ours := s.measure(b, service, scaleOurs)
		bare := s.measure(b, service, scaleBare)
		service.end()
		b.ReportMetric(ours.cpu/bare.cpu, "x-bare-cpu")
		b.ReportMetric(ours.cpu/ours.polls*1e6, "cpu-µs/poll")
		b.ReportMetric(bare.cpu/bare.polls*1e6, "bare-cpu-µs/poll")
		b.ReportMetric(ours.heap, "heap-KB/shard")
		b.ReportMetric(ours.stacks, "stack-KB/shard")
		b.ReportMetric(ours.resident, "resident-KB/shard")
		b.ReportMetric(bare.resident, "bare-resident-KB/shard")
		b.ReportMetric(ours.goroutines, "goroutines/shard")
		b.ReportMetric(ours.polls/float64(s.shards)/scaleFor.Seconds()*s.poll.Seconds(), "polls/interval")
		b.ReportMetric(ours.writes, "store-writes/s")
		b.ReportMetric(ours.ready, "s-until-ready")
		b.ReportMetric(0, "ns/op")
	}
}

// scaleMeasured is what a process needed.
type scaleMeasured struct {
	cpu, polls                         float64
	heap, stacks, resident, goroutines float64 // a shard
	writes                             float64 // a second
	ready                              float64 // seconds
}

func (s idleScale) measure(b *testing.B, service *scaleProcess, part string) scaleMeasured {
	b.Helper()
	p := startScale(b, scaleJob{Part: part, URL: service.at.URL, Shards: s.shards, PollMillis: int(s.poll.Milliseconds()), IdleMillis: int(s.longest.Milliseconds())})
	defer p.end()
	time.Sleep(s.poll + 2*time.Second + 25*s.longest) // a steady state is what is measured
	p.profile(fmt.Sprint(part, s.shards))
	polls, before := service.do(doSample).Polls, p.do(doSample)
	time.Sleep(scaleFor)
	after := p.do(doSample)
	held, n := p.do(doMemory), float64(s.shards)
	return scaleMeasured{
		cpu: after.CPU - before.CPU, polls: float64(service.do(doSample).Polls - polls),
		heap: held.Heap / n / 1024, stacks: held.Stacks / n / 1024, resident: held.Resident / n / 1024, goroutines: float64(held.Goroutines) / n,
		writes: float64(after.Writes-before.Writes) / after.At.Sub(before.At).Seconds(), ready: p.took.Seconds(),
	}
}

// BenchmarkScaleQuiet1000: 1,000 shards that have been quiet for minutes, polled once a second, and with a pause that has grown to five. The ratios are of the
// second to the first.
func BenchmarkScaleQuiet1000(b *testing.B) {
	for range b.N {
		service := startScale(b, scaleJob{Part: scaleService, Shards: 1000})
		fixed := idleScale{shards: 1000, poll: time.Second}.measure(b, service, scaleOurs)
		growing := idleScale{shards: 1000, poll: time.Second, longest: 5 * time.Second}.measure(b, service, scaleOurs)
		service.end()
		b.ReportMetric(growing.cpu/fixed.cpu, "x-fixed-cpu")
		b.ReportMetric(growing.polls/fixed.polls, "x-fixed-polls")
		b.ReportMetric(0, "ns/op")
	}
}

// BenchmarkScaleStart1000: 1,000 shards from nothing until each has been read, leases in memory and in a file.
func BenchmarkScaleStart1000(b *testing.B) {
	const shards = 1000
	for range b.N {
		for store, path := range map[string]string{"memory": "", "file": filepath.Join(b.TempDir(), "leases")} {
			service := startScale(b, scaleJob{Part: scaleService, Shards: shards})
			begun := time.Now()
			ours := startScale(b, scaleJob{Part: scaleOurs, URL: service.at.URL, Shards: shards, PollMillis: 1000, StoreFile: path})
			for service.do(doSample).Polls < shards {
				time.Sleep(10 * time.Millisecond)
			}
			b.ReportMetric(time.Since(begun).Seconds(), "s-"+store)
			ours.end()
			service.end()
		}
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkScaleBusy1000: 1,000 shards with five records a second each, polled once a second, for 20 s.
func BenchmarkScaleBusy1000(b *testing.B) {
	const shards, rate, seconds = 1000, 5000, 20
	for range b.N {
		service := startScale(b, scaleJob{Part: scaleService, Shards: shards})
		perRecord := make(map[string]float64)
		for _, part := range []string{scaleOurs, scaleBare} {
			p := startScale(b, scaleJob{Part: part, URL: service.at.URL, Shards: shards, PollMillis: 1000})
			stored := service.do(doSample).Records
			service.do(doProduce, rate, seconds/4) // until it is in its stride
			early := p.do(doMemory)
			service.do(doProduce, rate, seconds)
			late := p.do(doMemory)
			perRecord[part] = (late.CPU - early.CPU) / float64(late.Records-early.Records) * 1e6
			time.Sleep(3 * time.Second)
			if got, want := p.do(doSample).Records, service.do(doSample).Records-stored; got != want {
				b.Errorf("%s: %d of %d records", part, got, want)
			}
			if part == scaleOurs {
				b.ReportMetric(late.Heap/early.Heap, "heap-late/early")
				b.ReportMetric(late.Heap/shards/1024, "heap-KB/shard")
				b.ReportMetric(late.Resident/shards/1024, "resident-KB/shard")
				b.ReportMetric(float64(late.Goroutines)/shards, "goroutines/shard")
				b.ReportMetric(float64(late.Writes-early.Writes)/late.At.Sub(early.At).Seconds(), "store-writes/s")
				p.profile("busy")
			}
			p.end()
		}
		service.end()
		b.ReportMetric(perRecord[scaleOurs], "cpu-µs/record")
		b.ReportMetric(perRecord[scaleOurs]/perRecord[scaleBare], "x-bare-cpu")
		b.ReportMetric(0, "ns/op")
	}
}
