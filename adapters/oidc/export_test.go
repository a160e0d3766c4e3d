package oidc

// Settle waits until no read of the keys is in progress.
func (p *Provider) Settle() {
	p.keys.mu.Lock()
	done := p.keys.running
	p.keys.mu.Unlock()
	if done != nil {
		<-done
	}
}
