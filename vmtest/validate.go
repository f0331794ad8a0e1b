package vmtest

import (
	"fmt"
	"math/bits"
)

// Validate checks what single keys cannot: values that exclude each other. An
// error names the keys.
func (s *Scenario) Validate() error {
	switch {
	case bits.OnesCount(uint(s.Ring.Size)) != 1:
		return fmt.Errorf("ring_size: %d is not a power of two; the nearest below is %d", s.Ring.Size, 1<<(bits.Len(uint(s.Ring.Size))-1))
	case s.MSS > 0 && s.MSS+s.ipHeader()+32 > s.MTU:
		return fmt.Errorf("mss: %d and %d bytes of headers do not fit mtu %d; set mtu to %d or more", s.MSS, s.ipHeader()+32, s.MTU, s.MSS+s.ipHeader()+32)
	case s.EffectiveMSS() < 88:
		return fmt.Errorf("mss: %d is below the kernel's least of 88", s.EffectiveMSS())
	case s.Duration <= 0 && s.Total == 0:
		return fmt.Errorf("duration: 0 measures nothing; write a time such as 20ms, or set bytes")
	case s.PreGap2 > 0 && s.PreGap == 0:
		return fmt.Errorf("pregap2: it needs a pregap")
	case s.Guests.Senders > s.Flows:
		return fmt.Errorf("guests.senders: %d, and there are %d flows; a guest needs one to send", s.Guests.Senders, s.Flows)
	case s.Guests.Receivers > s.Flows:
		return fmt.Errorf("guests.receivers: %d, and there are %d flows", s.Guests.Receivers, s.Flows)
	case s.Guests.Receivers > 1 && s.Receiver.Kind != ReceiverKernel:
		return fmt.Errorf("guests.receivers: %d; receivers are guests with receiver.kind kernel only", s.Guests.Receivers)
	case len(s.PerFlow) > s.Flows:
		return fmt.Errorf("flow.%d: there are only %d flows; raise flows", len(s.PerFlow)-1, s.Flows)
	}
	return s.validateFlows()
}

func (s *Scenario) validateFlows() error {
	for i := range s.PerFlow {
		f := s.Flow(i)
		if f.CPU >= s.CPUs() {
			return fmt.Errorf("flow.%d.cpu: %d, and there are %d CPUs (0 to %d)", i, f.CPU, s.CPUs(), s.CPUs()-1)
		}
		if f.Queue >= s.QueuePairs {
			return fmt.Errorf("flow.%d.queue: %d, and there are %d queue pairs (0 to %d)", i, f.Queue, s.QueuePairs, s.QueuePairs-1)
		}
	}
	return nil
}

// OnlyLinuxRings refuses IN_ORDER, which no kernel takes that a guest may have.
func (s *Scenario) OnlyLinuxRings() error {
	if s.Ring.InOrder {
		return fmt.Errorf("in_order: no release of Linux up to 6.12 takes IN_ORDER; use --guest sim")
	}
	return nil
}

// OnlyStreams refuses flows that ask or send messages, for guests whose programs
// do not.
func (s *Scenario) OnlyStreams() error {
	for i := range s.PerFlow {
		if k := s.Flow(i).Kind; k != FlowStream {
			return fmt.Errorf("flow.%d.kind: %s; this guest's program only writes; use --guest sim, or uml for requests", i, k)
		}
	}
	return nil
}
