package tcp

// SetCwnd puts a socket in the middle of a connection's life.
func (s *Sock) SetCwnd(cwnd, ssthresh uint32) {
	s.win.Cwnd, s.win.Ssthresh = cwnd, ssthresh
	s.updateRate()
}

// SetRate fixes what autosizing looks at.
func (s *Sock) SetRate(rate uint64, minRTTUs uint32) {
	s.win.Pacing = rate
	s.minRTT.Reset(0, minRTTUs)
}

// Lists returns the sequence ranges of the unsent and of the unacknowledged
// entries, for checks of the queues.
func (s *Sock) Lists() (unsent, unacked []Range) {
	for g := s.wq.head; g != nil; g = g.next {
		unsent = append(unsent, Range{g.seq, g.end})
	}
	for g := s.rtx.head; g != nil; g = g.next {
		unacked = append(unacked, Range{g.seq, g.end})
	}
	return unsent, unacked
}

// CountSegs recounts the scoreboard: segments outstanding, SACKed, lost and
// retransmitted, and the truesize of all entries.
func (s *Sock) CountSegs() (out, sacked, lost, re, truesize uint32) {
	for g := s.rtx.head; g != nil; g = g.next {
		out += g.pcount
		if g.mark&markSacked != 0 {
			sacked += g.pcount
		}
		if g.mark&markLost != 0 {
			lost += g.pcount
		}
		if g.mark&markRetrans != 0 {
			re += g.pcount
		}
		truesize += g.truesize
	}
	for g := s.wq.head; g != nil; g = g.next {
		truesize += g.truesize
	}
	return out, sacked, lost, re, truesize
}

// Counts returns the counters that CountSegs recounts.
func (s *Sock) Counts() (out, sacked, lost, re, truesize uint32) {
	return s.packetsOut, s.sackedOut, s.lostOut, s.retransOut, s.wmemQueued
}

// SndUna, SndNxt and WriteSeq are the borders of the sequence space.
func (s *Sock) Seqs() (una, nxt, write, wndEnd uint32) {
	return s.sndUna, s.sndNxt, s.writeSeq, s.wndEnd()
}
