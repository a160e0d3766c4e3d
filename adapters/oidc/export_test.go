package oidc

// Settle returns when no reading of the keys is under way.
func (p *Provider) Settle() {
	p.keys.mu.Lock()
	done := p.keys.running
	p.keys.mu.Unlock()
	if done != nil {
		<-done
	}
}
