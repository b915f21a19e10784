package actors

// quiet makes nodes send no hints: they see what others do at their next look.
func quiet(c *Config) { c.quiet = true }
