package trace

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"
)

// fields are the keys of a scenario line.
func (l *line) fields() map[string]setter {
	s, x := &l.s, &l.x
	f := map[string]setter{
		"kernel": word(&l.kernel), "cc": word(&s.CC), "ip": whole(&s.IP, 4, 6),
		"mtu": whole(&s.MTU, 576, 65535), "mss": whole(&s.MSS, 88, 65483),
		"flows": l.flows, "write": whole(&s.Write, 1, maxBytes), "think_ns": whole(&s.Think, 0, maxNs),
		"bytes": whole(&s.Total, 0, maxBytes), "duration_ns": whole(&s.Duration, 0, maxNs),
		"nodelay": flag(&s.NoDelay), "pacing_Bps": whole(&s.Pacing, 0, maxBytes),
		"gso_max_size": whole(&s.GSOMaxSize, 1, maxSmall), "max_tcp_header": whole(&x.MaxTCPHeader, 60, 1024),
		"topology":     word(&x.Topology, TopologyVeth, TopologyVirtio),
		"capture":      word(&x.Capture, "qdisc", "driver", "device", "host"),
		"sender_qdisc": l.qdiscSetter(&x.Sender), "tcp_rmem": triple(&x.RMem), "tcp_wmem": triple(&x.WMem),
		"sysctl": l.sysctls,
	}
	maps.Copy(f, l.vethFields())
	maps.Copy(f, l.virtioFields())
	return f
}

func (l *line) vethFields() map[string]setter {
	return map[string]setter{
		"fwd": l.qdiscSetter(&l.x.Forward), "rev": l.qdiscSetter(&l.x.Reverse),
		"pregap_ns": whole(&l.x.PreGap, 0, maxNs), "pregap2_ns": whole(&l.x.PreGap2, 0, maxNs),
	}
}

func (l *line) virtioFields() map[string]setter {
	return map[string]setter{
		"napi_tx": flag(&l.napi), "queues": whole(&l.s.QueuePairs, 1, 128),
		"ring": whole(&l.s.Ring.Size, 2, 32768), "host": l.host, "link": l.link,
		"flow_queues": word(&l.queuing, "separate"),
	}
}

// host reads the model of the host's thread.
func (l *line) host(raw json.RawMessage) error {
	var wake, base, perKB, rx time.Duration
	h := &l.s.Host
	h.Model = "fast" // one without costs beyond these four
	h.Wake, h.TxBase, h.TxPerKB, h.Rx = &wake, &base, &perKB, &rx
	seen, err := object(raw, "host.", map[string]setter{
		"wake_ns": whole(&wake, 0, maxNs), "tx_base_ns": whole(&base, 0, maxNs),
		"tx_per_kb_ns": whole(&perKB, 0, maxNs), "rx_ns": whole(&rx, 0, maxNs),
		"used_batch": whole(&l.x.UsedBatch, 1, 32768),
	})
	if err != nil {
		return err
	}
	return need(seen, "host.", "", "wake_ns", "tx_base_ns", "tx_per_kb_ns", "rx_ns")
}

func (l *line) link(raw json.RawMessage) error {
	seen, err := object(raw, "link.", map[string]setter{"one_way_ns": whole(&l.s.Link.Delay, 0, maxNs)})
	if err != nil {
		return err
	}
	return need(seen, "link.", "", "one_way_ns")
}

// flows reads the list of the flows and their SYNs.
func (l *line) flows(raw json.RawMessage) error {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || len(list) == 0 || len(list) > 10000 {
		return fmt.Errorf("%w: %q: want a list of 1 to 10000 objects", ErrScenario, clip(raw))
	}
	taken := make([]bool, len(list))
	for i, one := range list {
		var h Handshake
		prefix := fmt.Sprintf("flows.%d.", i)
		seen, err := object(one, prefix, map[string]setter{"id": whole(&h.ID, 0, int64(len(list)-1)), "syn_ns": whole(&h.SYN, 0, maxNs)})
		if err == nil {
			err = need(seen, prefix, "", "id", "syn_ns")
		}
		if err != nil {
			return err
		}
		if taken[h.ID] {
			return fmt.Errorf("%w: %sid: %d stands twice", ErrScenario, prefix, h.ID)
		}
		taken[h.ID] = true
		l.x.Flows = append(l.x.Flows, h)
	}
	return nil
}

// sysctls reads the changed sysctls, each a number or a text.
func (l *line) sysctls(raw json.RawMessage) error {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return fmt.Errorf("%w: %q: want an object of sysctls", ErrScenario, clip(raw))
	}
	for name, v := range m {
		var text string
		if json.Unmarshal(v, &text) != nil {
			text = strings.Join(strings.Fields(strings.NewReplacer("[", " ", "]", " ", ",", " ").Replace(string(v))), " ")
		}
		l.sysctl[strings.TrimPrefix(name, "net.ipv4.")] = text
	}
	return nil
}

// qdiscSetter reads a queueing discipline. The sender's may be named with mq
// before its kind.
func (l *line) qdiscSetter(q *Qdisc) setter {
	return func(raw json.RawMessage) error {
		prefix := "qdisc."
		kinds := []string{QdiscNone, QdiscFIFO, QdiscFQ, QdiscFQCodel, QdiscTBF, QdiscNetem}
		if q == &l.x.Sender {
			prefix = "sender_qdisc."
			kinds = append(kinds, "mq "+QdiscFIFO, "mq "+QdiscFQ, "mq "+QdiscFQCodel)
		}
		seen, err := object(raw, prefix, map[string]setter{
			"kind": word(&q.Kind, kinds...), "rate_bps": whole(&q.RateBps, 0, maxBytes),
			"delay_ns": whole(&q.Delay, 0, maxNs), "limit": whole(&q.Limit, 0, maxBytes), "burst": whole(&q.Burst, 0, maxBytes),
		})
		if err == nil {
			err = need(seen, prefix, "", "kind")
		}
		if err == nil && q.Kind == QdiscTBF {
			err = need(seen, prefix, ", which tbf needs", "rate_bps", "limit", "burst")
		}
		return err
	}
}
