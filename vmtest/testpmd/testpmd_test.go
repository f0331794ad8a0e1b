package testpmd

import (
	"errors"
	"testing"
)

const shown = `
  ######################## NIC statistics for port 0  ########################
  RX-packets: 2049       RX-missed: 0          RX-bytes:  131136
  RX-errors: 0
  RX-nombuf:  0         
  TX-packets: 50959648   TX-errors: 0          TX-bytes:  3261417472

  Throughput (since last show)
  Rx-pps:            7          Rx-bps:         3584
  Tx-pps:     33907462          Tx-bps:  17360620840
  ############################################################################
`

func TestParseStats(t *testing.T) {
	want := Stats{2049, 131136, 50959648, 3261417472, 7, 33907462, 3584, 17360620840}
	if got, err := parseStats(shown); err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := parseStats(shown[:300]); !errors.Is(err, ErrFailed) {
		t.Errorf("half of it: %v", err)
	}
}

func TestComplaint(t *testing.T) {
	for log, bad := range map[string]bool{
		"Configuring Port 0 (socket 0)\nPort 0: 52:54:00:00:00:01\nDone\n":               false,
		"vhost_user_prepare_memory(): Too many memory regions\nDone\n":                   true,
		"Configuring Port 0\nFail to start port 0: Operation not permitted\nPlease stop": true,
	} {
		if err := complaint(log); errors.Is(err, ErrFailed) != bad {
			t.Errorf("%q: %v", log, err)
		}
	}
}

// TestPromptInterrupted has the event of another thread stand in the middle of a
// prompt, in one piece and in two.
func TestPromptInterrupted(t *testing.T) {
	for _, pieces := range [][]string{
		{"shown\ntestp", "\nPort 0: link state change event\n", "md> "},
		{"shown\n", "t\nPort 0: link sta", "te change event\nestpmd> "},
		{"\nPort 0: link state change event\nshown\ntestpmd> "},
	} {
		p := Process{out: make(chan []byte, len(pieces))}
		for _, s := range pieces {
			p.out <- []byte(s)
		}
		close(p.out)
		if got, err := p.wait(prompt); err != nil || got != "shown\n" {
			t.Errorf("%q: got %q, %v", pieces, got, err)
		}
	}
}
