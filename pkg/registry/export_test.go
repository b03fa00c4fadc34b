package registry

// Remembered returns how many failed look-ups are remembered.
func Remembered(c *Cache) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.failed)
}
