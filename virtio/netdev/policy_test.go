package netdev_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/virtio/netdev"
)

func TestParsePolicy(t *testing.T) {
	for _, c := range []struct {
		in   string
		want netdev.Policy
		text string // String of it
		err  string // part of the error
	}{
		{in: "none", text: "none"},
		{in: "hold:packets=32,time=50us", want: netdev.Policy{HoldPackets: 32, HoldTime: 50 * time.Microsecond}, text: "hold:packets=32,time=50µs"},
		{in: "hold:time=1ms", want: netdev.Policy{HoldTime: time.Millisecond}, text: "hold:time=1ms"},
		{in: "none+hold:time=1ms", want: netdev.Policy{HoldTime: time.Millisecond}, text: "hold:time=1ms"},
		{in: " hold:packets=1, time=10s", want: netdev.Policy{HoldPackets: 1, HoldTime: 10 * time.Second}, text: "hold:packets=1,time=10s"},
		{in: "", err: `unknown policy ""`},
		{in: "hodl:time=1ms", err: `unknown policy "hodl", want one of: none; hold:`},
		{in: "none:x=1", err: "none takes no parameters"},
		{in: "hold", err: `no parameter ""`},
		{in: "hold:packets=4", err: "hold needs time=, as in hold:time=T[,packets=N]"},
		{in: "hold:packets=0,time=1ms", err: "packets=0 is not a number in 1..32768"},
		{in: "hold:packets=32769,time=1ms", err: "packets=32769"},
		{in: "hold:packets=x,time=1ms", err: "packets=x"},
		{in: "hold:time=50", err: "time=50 is not a duration"},
		{in: "hold:time=-1us", err: "time=-1us"},
		{in: "hold:time=11s", err: "up to 10s"},
		{in: "hold:thyme=1us", err: `no parameter "thyme=1us"`},
		{in: "hold:time=1us+hold:time=2us", err: "given twice"},
		{in: "hold:time=1ms+thin-acks:time=50us", want: netdev.Policy{HoldTime: time.Millisecond, ThinTime: 50 * time.Microsecond}, text: "hold:time=1ms+thin-acks:time=50µs"},
		{in: "thin-acks", err: "thin-acks has no parameter"},
		{in: "coalesce-calls:packets=8,time=20us", want: netdev.Policy{CallTime: 20 * time.Microsecond, CallPackets: 8}, text: "coalesce-calls:packets=8,time=20µs"},
		{in: "poll:time=100us,every=20us+merge", want: netdev.Policy{PollTime: 100 * time.Microsecond, PollEvery: 20 * time.Microsecond, Merge: true}, text: "poll:time=100µs,every=20µs+merge"},
		{in: "poll:every=20us", err: "poll needs time="},
		{in: "delay-service:packets=4,time=1us", want: netdev.Policy{DelayTime: time.Microsecond, DelayPackets: 4}, text: "delay-service:packets=4,time=1µs"},
		{in: "share-worker:pairs=2+adaptive", want: netdev.Policy{SharePairs: 2, Adaptive: true}, text: "share-worker:pairs=2+adaptive"},
		{in: "share-worker:pairs=129", err: "pairs=129 is not a number in 1..128"},
		{in: "merge:x=1", err: "merge takes no parameters"},
		{in: "merge+merge", err: "merge is given twice"},
		{in: "adaptive+merge", err: "only share-worker goes with it"},
	} {
		got, err := netdev.ParsePolicy(c.in)
		if c.err != "" {
			if !errors.Is(err, netdev.ErrPolicy) || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q: error %v, want one with %q", c.in, err, c.err)
			}
			continue
		}
		if err != nil || got != c.want || got.String() != c.text {
			t.Errorf("%q: %+v %q, %v, want %+v %q", c.in, got, got.String(), err, c.want, c.text)
		}
		if again, err := netdev.ParsePolicy(got.String()); err != nil || again != got {
			t.Errorf("%q does not survive its own String: %+v, %v", c.in, again, err)
		}
	}
}

func TestSetPolicyRefuses(t *testing.T) {
	w := newWorld(t, setup{})
	for _, p := range []netdev.Policy{
		{HoldPackets: 4}, {HoldPackets: -1, HoldTime: 1}, {HoldTime: -1}, {HoldTime: time.Minute},
		{HoldPackets: netdev.MaxHoldPackets + 1, HoldTime: 1},
	} {
		if err := w.dev.SetPolicy(p); !errors.Is(err, netdev.ErrPolicy) {
			t.Errorf("%+v: error %v, want ErrPolicy", p, err)
		}
	}
	if p := w.dev.Pair(0).TX.Policy(); p.Holding() {
		t.Errorf("policy %v after refused ones, want none", p)
	}
	want := netdev.Policy{HoldPackets: 8, HoldTime: time.Millisecond}
	if err := w.dev.SetPolicy(want); err != nil || w.dev.Pair(0).TX.Policy() != want || w.dev.Config().Policy != want {
		t.Errorf("policy %v, %v, want %v", w.dev.Pair(0).TX.Policy(), err, want)
	}
}
