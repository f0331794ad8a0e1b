// Package trace reads, compares and shows traces: one line for each packet that
// a sender handed on, with its time and length. It runs no model and knows no
// kernel: a trace comes from a file or from memory, and what leaves is a report
// as text, JSON or a picture. Nothing here reads a clock, and a file is opened
// only by ReadFile and ReadHeaderFile.
//
// A file is tab-separated text, plain or compressed by gzip. Lines that begin
// with # are its header, "# KEY<TAB>VALUE"; the one with the key scenario holds
// the JSON object that FromLine turns into a scenario, the one with the key
// vnetbench a Scenario of our own. Then comes a line with the names of the
// columns,
//
//	t_ns dir flow seq ack len flags
//
// which rule and stop may follow, and a line for each packet: nanoseconds since
// the first SYN; tx (data direction) or ack (from the receiver); the flow's
// number; sequence and acknowledgement numbers relative to the initial ones; the
// TCP payload of the (GSO) packet in bytes; flags in the letters of tcpdump. The
// optional columns are what a model knows beyond that: the rule that gave the
// packet its length, and what ended the pass of the write loop before it.
//
// Two traces are compared by what the sender did, see Compare.
package trace
