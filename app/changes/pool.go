package changes

import "sync"

// pool runs jobs in order, at most limit of them concurrently. Its goroutines end when the
// queue is empty.
type pool struct {
	limit   int
	workers sync.WaitGroup

	mu     sync.Mutex
	queue  []func() // guarded by mu
	active int      // goroutines; guarded by mu
	closed bool     // guarded by mu
}

// submit queues a job. A closed pool drops it.
func (p *pool) submit(job func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.queue = append(p.queue, job)
	if p.active < p.limit {
		p.active++
		p.workers.Go(p.work)
	}
}

func (p *pool) work() {
	for {
		job := p.next()
		if job == nil {
			return
		}
		job()
	}
}

func (p *pool) next() func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		p.queue = nil
		p.active--
		return nil
	}
	job := p.queue[0]
	p.queue[0] = nil
	p.queue = p.queue[1:]
	return job
}

// close drops the queued jobs and waits for the running ones.
func (p *pool) close() {
	p.mu.Lock()
	p.closed, p.queue = true, nil
	p.mu.Unlock()
	p.workers.Wait()
}
