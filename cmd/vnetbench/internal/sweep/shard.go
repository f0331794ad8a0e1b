package sweep

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrShard is wrapped by the errors of shards that cannot be.
var ErrShard = errors.New("shard")

// Shard is a part of a sweep: cell k belongs to shard k mod Of + 1. The zero value
// is the whole.
type Shard struct{ No, Of int }

// Whole says that there is one shard only.
func (s Shard) Whole() bool { return s.Of <= 1 }

// Has says whether a cell belongs to the shard.
func (s Shard) Has(cell int) bool { return s.Whole() || cell%s.Of == s.No-1 }

func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.No, s.Of) }

// ParseShard reads i/n, with i from 1 to n.
func ParseShard(text string) (Shard, error) {
	i, n, ok := strings.Cut(text, "/")
	no, err1 := strconv.Atoi(i)
	of, err2 := strconv.Atoi(n)
	if !ok || err1 != nil || err2 != nil || of < 1 || no < 1 || no > of {
		return Shard{}, fmt.Errorf("%w %q: write i/n with i from 1 to n, such as 2/8", ErrShard, text)
	}
	return Shard{no, of}, nil
}

// ShardOf finds the shard that this process is, from the environment of a job
// array: of Slurm (SLURM_ARRAY_TASK_ID, _MIN, _STEP and _COUNT), of an indexed job
// of Kubernetes (JOB_COMPLETION_INDEX, from 0) or of GNU parallel (PARALLEL_SEQ, from
// 1). The last two do not tell how many there are: shards does; with 0 they are
// left alone. from names the variable, and is empty if there is none.
func ShardOf(getenv func(string) string, shards int) (s Shard, from string, err error) {
	if getenv("SLURM_ARRAY_TASK_ID") != "" {
		s, err = slurm(getenv)
		from = "SLURM_ARRAY_TASK_ID"
		if err == nil && shards != 0 && shards != s.Of {
			err = fmt.Errorf("%w: --shards is %d, but SLURM_ARRAY_TASK_COUNT is %d", ErrShard, shards, s.Of)
		}
		return s, from, err
	}
	if shards == 0 {
		return Shard{}, "", nil
	}
	for _, v := range []struct {
		name  string
		first int
	}{{"JOB_COMPLETION_INDEX", 0}, {"PARALLEL_SEQ", 1}} {
		if getenv(v.name) == "" {
			continue
		}
		i, err := number(getenv, v.name)
		if err == nil && (i < v.first || i-v.first >= shards) {
			err = fmt.Errorf("%w: %s is %d; with --shards %d it is %d to %d", ErrShard, v.name, i, shards, v.first, v.first+shards-1)
		}
		return Shard{i - v.first + 1, shards}, v.name, err
	}
	return Shard{}, "", fmt.Errorf("%w: --shards is for job arrays, but none of SLURM_ARRAY_TASK_ID, JOB_COMPLETION_INDEX and PARALLEL_SEQ is set; write --shard i/n", ErrShard)
}

// slurm is the shard of a task of a job array.
func slurm(getenv func(string) string) (Shard, error) {
	var v [4]int
	for i, name := range []string{"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_STEP"} {
		n, err := number(getenv, name)
		if err != nil && (name != "SLURM_ARRAY_TASK_STEP" || getenv(name) != "") {
			return Shard{}, err
		}
		v[i] = n
	}
	id, first, count, step := v[0], v[1], v[2], max(1, v[3])
	if (id-first)%step != 0 || id < first || (id-first)/step >= count {
		return Shard{}, fmt.Errorf("%w: SLURM_ARRAY_TASK_ID %d is not one of %d tasks from %d in steps of %d; only arrays such as 1-8 or 0-6:2 can be shards",
			ErrShard, id, count, first, step)
	}
	return Shard{(id-first)/step + 1, count}, nil
}

func number(getenv func(string) string, name string) (int, error) {
	n, err := strconv.Atoi(getenv(name))
	if err != nil {
		return 0, fmt.Errorf("%w: %s is %q, not a number", ErrShard, name, getenv(name))
	}
	return n, nil
}
